"""Records as people type and read them: lines with keys and headers, or one JSON object per record."""

import base64
import binascii
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ottla.cli.command_error import CommandError

Headers = list[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True)
class NewRecord:
    key: bytes | None
    value: bytes | None
    headers: Headers = field(default_factory=list)
    partition: int | None = None


def parse_lines(lines: Iterable[bytes], key_separator: bytes | None, null_marker: bytes | None) -> Iterator[NewRecord]:
    """One record per line: `value`, or `key<separator>value` when there is a separator."""
    for number, line in enumerate(lines, start=1):
        text = line.removesuffix(b"\n").removesuffix(b"\r")
        key: bytes | None = None
        value: bytes | None = text
        if key_separator is not None:
            key, separator, value = text.partition(key_separator)
            if not separator:
                shown = key_separator.decode(errors="backslashreplace")
                raise CommandError(f"Line {number} has no key separator {shown!r}; earlier lines were sent.")
        if null_marker is not None:
            key = None if key == null_marker else key
            value = None if value == null_marker else value
        yield NewRecord(key, value)


def parse_json_lines(lines: Iterable[bytes]) -> Iterator[NewRecord]:
    """One JSON object per line with `value` and, as wanted, `key`, `headers` and `partition`.

    It takes what `ottla consume --json` prints. Bytes that are not text come as `value_base64`; a value that is a JSON
    object, array, number or boolean is sent as its JSON text.
    """
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            yield _record(json.loads(line))
        except (ValueError, TypeError) as error:
            reason = "it is not JSON" if isinstance(error, json.JSONDecodeError) else str(error)
            raise CommandError(f"Line {number} is not a record: {reason}; earlier lines were sent.") from error


def _record(document: object) -> NewRecord:
    if not isinstance(document, dict):
        raise TypeError('it must be an object such as {"key": "a", "value": "b"}')
    if "value" not in document and "value_base64" not in document:
        raise ValueError("it has no value")
    partition = document.get("partition")
    if partition is not None and (not isinstance(partition, int) or isinstance(partition, bool) or partition < 0):
        raise ValueError("partition must be a whole number")
    return NewRecord(_bytes(document, "key"), _bytes(document, "value"), _headers(document.get("headers")), partition)


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
    """Bytes as text: what is not UTF-8 as \\xNN, and for a terminal also the control characters that would move it."""
    if data is None:
        return "null"
    text = data.decode(errors="backslashreplace")
    if not escape_controls or text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in "\t\n" else _escaped(char) for char in text)


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode()


def json_field(name: str, data: bytes | None) -> dict[str, str | None]:
    """A key or value for JSON: as text where it is UTF-8, as base64 under a name that says so where it is not."""
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode()}
