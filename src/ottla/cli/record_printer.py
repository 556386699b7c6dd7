"""How `ottla consume` prints a record: Kafka's console format, a template, or one JSON object per line."""

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

from ottla.cli.output import on_terminal
from ottla.cli.record_format import parse_format
from ottla.cli.record_text import json_field, show

SWITCHES = ("print.key", "print.value", "print.timestamp", "print.partition", "print.offset", "print.headers")
PRINTER_PROPERTIES = (*SWITCHES, "key.separator")

TIMESTAMP_TYPES = ("NoTimestampType", "CreateTime", "LogAppendTime")


class RecordPrinter:
    """Writes records to standard output and counts them. The caller flushes when no record follows."""

    def __init__(
        self, as_json: bool, switches: Mapping[str, bool], properties: Mapping[str, str], template: str | None = None
    ) -> None:
        self.count = 0
        chosen = {name: properties[name] == "true" for name in SWITCHES if name in properties}
        self._on = {"print.value": True, **switches, **chosen}
        self._separator = properties.get("key.separator", "\t")
        self._escape_controls = on_terminal()
        text = self._json if as_json else self._line
        self._format: Callable[[Any], bytes] = lambda message: text(message).encode() + b"\n"
        if template is not None:
            self._format = parse_format(template, self._escape_controls)

    def print(self, message: Any) -> None:
        sys.stdout.buffer.write(self._format(message))
        self.count += 1

    def _line(self, message: Any) -> str:
        """Fields in the order Kafka's console consumer prints them."""
        fields: list[str] = []
        if self._on["print.timestamp"]:
            kind, timestamp = message.timestamp()
            fields.append(f"{TIMESTAMP_TYPES[kind]}:{timestamp}")
        if self._on["print.partition"]:
            fields.append(f"Partition:{message.partition()}")
        if self._on["print.offset"]:
            fields.append(f"Offset:{message.offset()}")
        if self._on["print.headers"]:
            headers = ",".join(f"{name}:{self._show(value)}" for name, value in message.headers() or ())
            fields.append(headers or "NO_HEADERS")
        if self._on["print.key"]:
            fields.append(self._show(message.key()))
        if self._on["print.value"]:
            fields.append(self._show(message.value()))
        return self._separator.join(fields)

    def _show(self, data: bytes | None) -> str:
        return show(data, escape_controls=self._escape_controls)

    def _json(self, message: Any) -> str:
        kind, timestamp = message.timestamp()
        document = {
            "topic": message.topic(),
            "partition": message.partition(),
            "offset": message.offset(),
            "timestamp": timestamp,
            "timestamp_type": TIMESTAMP_TYPES[kind],
            "headers": [{"key": name, **json_field("value", value)} for name, value in message.headers() or ()],
            **json_field("key", message.key()),
            **json_field("value", message.value()),
        }
        return json.dumps(document, ensure_ascii=False)
