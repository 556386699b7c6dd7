"""The text form of records: lines with keys and headers, or one JSON object per record."""

import base64
import binascii
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ottla.cli.command_error import CommandError
from ottla.cli.position import parse_datetime

Headers = list[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True)
class NewRecord:
    key: bytes | None
    value: bytes | None
    headers: Headers = field(default_factory=list)
    partition: int | None = None
    timestamp: int | None = None
    """Milliseconds since 1970; the client takes the current time if it is None."""


def parse_lines(
    lines: Iterable[bytes], key_separator: bytes | None, null_marker: bytes | None, source: str = ""
) -> Iterator[NewRecord]:
    """One record per line: `value`, or `key<separator>value` when there is a separator.

    Errors name the line, followed by `source`, such as ` of users.txt`.
    """
    for number, line in enumerate(lines, start=1):
        text = line.removesuffix(b"\n").removesuffix(b"\r")
        key: bytes | None = None
        value: bytes | None = text
        if key_separator is not None:
            key, separator, value = text.partition(key_separator)
            if not separator:
                shown = key_separator.decode(errors="backslashreplace")
                raise CommandError(f"Line {number}{source} has no key separator {shown!r}; earlier lines were sent.")
        if null_marker is not None:
            key = None if key == null_marker else key
            value = None if value == null_marker else value
        yield NewRecord(key, value)


def parse_json_lines(lines: Iterable[bytes], source: str = "") -> Iterator[NewRecord]:
    """One JSON object per line with `value` and optionally `key`, `headers`, `partition` and `timestamp`.

    The lines that `ottla consume --json` prints are accepted. `value_base64` holds bytes that are not UTF-8. A value
    that is a JSON object, array, number or boolean is sent as its JSON text.
    """
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            yield _record(json.loads(line))
        except (ValueError, TypeError) as error:
            reason = "it is not JSON" if isinstance(error, json.JSONDecodeError) else str(error)
            raise CommandError(f"Line {number}{source} is not a record: {reason}; earlier lines were sent.") from error


def _record(document: object) -> NewRecord:
    if not isinstance(document, dict):
        raise TypeError('it must be an object such as {"key": "a", "value": "b"}')
    if "value" not in document and "value_base64" not in document:
        raise ValueError("it has no value")
    partition = document.get("partition")
    if partition is not None and (not isinstance(partition, int) or isinstance(partition, bool) or partition < 0):
        raise ValueError("partition must be a whole number")
    return NewRecord(
        _bytes(document, "key"),
        _bytes(document, "value"),
        _headers(document.get("headers")),
        partition,
        _timestamp(document.get("timestamp")),
    )


def _timestamp(value: object) -> int | None:
    """Milliseconds, or an ISO 8601 date and time. Records in formats before Kafka 0.10 have -1, which is none."""
    if value is None or value == -1:
        return None
    if isinstance(value, str):
        return parse_datetime(value)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError("timestamp must be milliseconds since 1970, or a date and time")
    return value


def _headers(document: object) -> Headers:
    if document is None:
        return []
    if isinstance(document, dict):
        return [(name, _encode(value)) for name, value in document.items()]
    if isinstance(document, list) and all(isinstance(entry, dict) and "key" in entry for entry in document):
        return [(str(entry["key"]), _bytes(entry, "value")) for entry in document]
    raise ValueError("headers must be an object")


def _bytes(document: Mapping[str, Any], name: str) -> bytes | None:
    encoded = document.get(f"{name}_base64")
    if encoded is None:
        return _encode(document.get(name))
    try:
        return base64.b64decode(encoded, validate=True)
    except binascii.Error:
        raise ValueError(f"{name}_base64 is not base64") from None


def _encode(value: object) -> bytes | None:
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.encode()


def show(data: bytes | None, *, escape_controls: bool) -> str:
    """Bytes as text. Bytes that are not UTF-8 become \\xNN; with `escape_controls` control characters do too."""
    if data is None:
        return "null"
    text = data.decode(errors="backslashreplace")
    if not escape_controls or text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in "\t\n" else _escaped(char) for char in text)


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode()


def json_field(name: str, data: bytes | None) -> dict[str, str | None]:
    """A key or value for JSON: text if it is UTF-8, otherwise base64 under the name `<name>_base64`."""
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode()}
