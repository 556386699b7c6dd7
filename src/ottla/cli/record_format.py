"""The template of `ottla consume --format`, with the letters of kcat's `-f`."""

import re
from collections.abc import Callable
from typing import Any

from ottla.cli.record_text import show

FIELDS_HELP = (
    "%t topic, %p partition, %o offset, %T timestamp in ms, %k key, %v or %s value, %h headers, "
    "%K and %S length of key and value (-1 for null), %%; escapes such as \\n, \\t and \\x00"
)
_ESCAPES = {"n": b"\n", "r": b"\r", "t": b"\t", "0": b"\0", "\\": b"\\"}
_TOKEN = re.compile(r"%(?P<field>.?)|\\x(?P<hex>[0-9a-fA-F]{2})|\\(?P<escape>.)|(?P<text>[^%\\]+|\\)", re.DOTALL)

Part = Callable[[Any], bytes]


def parse_format(template: str, escape_controls: bool) -> Callable[[Any], bytes]:
    """A function from a message to the bytes to print. Raises ValueError for a letter that has no meaning.

    `escape_controls`: the output is a terminal, which control characters in a key or value could disturb.
    """
    fields = _fields(escape_controls)
    parts: list[Part] = []
    for token in _TOKEN.finditer(template):
        letter = token["field"]
        if letter is not None:
            if letter not in fields:
                raise ValueError(f"%{letter} has no meaning; use {FIELDS_HELP}")
            parts.append(fields[letter])
        else:
            parts.append(_constant(_literal(token)))
    return lambda message: b"".join([part(message) for part in parts])


def _literal(token: re.Match[str]) -> bytes:
    if token["hex"] is not None:
        return bytes.fromhex(token["hex"])
    if token["escape"] is not None:
        return _ESCAPES.get(token["escape"], token[0].encode())
    return token["text"].encode()


def _constant(data: bytes) -> Part:
    return lambda _message: data


def _fields(escape_controls: bool) -> dict[str, Part]:
    def shown(data: bytes | None) -> bytes:
        if data is None:
            return b""
        return show(data, escape_controls=True).encode() if escape_controls else data

    def value(message: Any) -> bytes:
        return shown(message.value())

    def headers(message: Any) -> bytes:
        return b",".join(name.encode() + b"=" + shown(data) for name, data in message.headers() or ())

    return {
        "t": lambda message: message.topic().encode(),
        "p": lambda message: b"%d" % message.partition(),
        "o": lambda message: b"%d" % message.offset(),
        "T": lambda message: b"%d" % message.timestamp()[1],
        "k": lambda message: shown(message.key()),
        "v": value,
        "s": value,
        "h": headers,
        "K": lambda message: _length(message.key()),
        "S": lambda message: _length(message.value()),
        "%": _constant(b"%"),
    }


def _length(data: bytes | None) -> bytes:
    return b"%d" % (-1 if data is None else len(data))
