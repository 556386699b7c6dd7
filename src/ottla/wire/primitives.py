"""The few shapes every Kafka message is made of.

Numbers are big-endian and of fixed width. Everything of variable size is a length followed by content, and lengths
come in two dialects. The old one writes an int16 (strings) or int32 (bytes, arrays), with -1 for null. The compact
one, used by the flexible versions of KIP-482, writes the length plus one as an unsigned varint, with 0 for null.
Flexible versions also end every struct with tagged fields, which a reader that does not know them skips.

A reader takes a buffer and a position and returns a value and the position after it.
"""

import struct
from typing import Any, Literal

LengthFormat = Literal["h", "i", "compact"]
"""How a length is written: as an int16, as an int32, or compactly."""

MAX_REQUEST_ELEMENTS = 25_000
"""Elements in the arrays of one request, integers included. Nearly every element asks for an answer of its own, which
costs more than the element, and nobody else is served while they are decoded."""

MAX_ELEMENTS = 250_000
"""Structs and strings in the arrays of any other message: a few bytes on the wire become a hundred in memory."""

INTEGERS_PER_ELEMENT = 8
"""In these messages, so many integers count as one element: an integer takes 36 bytes, a struct some hundreds."""

MAX_STRING_BYTES = 0x7FFF
"""Kafka holds compact strings to the limit that the old int16 length imposed."""

_MAX_VARINT_BYTES = 5


class WireError(ValueError):
    """A message could not be decoded or encoded. Only the two subclasses are raised."""


class DecodeError(WireError):
    """The bytes are not the message that they claim to be: the peer's mistake."""


class EncodeError(WireError):
    """The message has a value that its version cannot carry: a mistake of this program."""


def read_fixed(code: str, buffer: memoryview, position: int) -> tuple[Any, int]:
    stop = position + struct.calcsize(code)
    if stop > len(buffer):
        raise truncated(stop - len(buffer))
    return struct.unpack_from(">" + code, buffer, position)[0], stop


def write_fixed(code: str, value: object) -> bytes:
    try:
        return struct.pack(">" + code, value)
    except struct.error as error:
        raise EncodeError(f"{value!r} does not fit its field: {error}") from None


def read_varint(buffer: memoryview, position: int) -> tuple[int, int]:
    """Seven bits per byte, lowest first; a set high bit says that more follow. Unsigned, at most 32 bits."""
    try:
        byte = buffer[position]
        if byte < 0x80:
            return byte, position + 1
        value, shift = byte & 0x7F, 7
        for index in range(position + 1, position + _MAX_VARINT_BYTES):
            byte = buffer[index]
            if byte < 0x80:
                value |= byte << shift
                if value > 0xFFFF_FFFF:
                    break
                return value, index + 1
            value |= (byte & 0x7F) << shift
            shift += 7
    except IndexError:
        raise truncated(1) from None
    raise DecodeError("a varint is longer than 32 bits")


def write_varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_length(length_format: LengthFormat, buffer: memoryview, position: int) -> tuple[int | None, int]:
    """The length of what follows, or None for null."""
    if length_format == "compact":
        stored, position = read_varint(buffer, position)
        length = stored - 1
    else:
        length, position = read_fixed(length_format, buffer, position)
    if length < -1:
        raise negative(length)
    return None if length == -1 else length, position


def write_length(length_format: LengthFormat, length: int | None) -> bytes:
    stored = -1 if length is None else length
    return write_varint(stored + 1) if length_format == "compact" else write_fixed(length_format, stored)


def read_span(buffer: memoryview, position: int, length: int) -> tuple[memoryview, int]:
    stop = position + length
    if stop > len(buffer):
        raise truncated(stop - len(buffer))
    return buffer[position:stop], stop


def read_text(buffer: memoryview, position: int, length: int) -> tuple[str, int]:
    if length > MAX_STRING_BYTES:
        raise string_too_long(length)
    span, stop = read_span(buffer, position, length)
    try:
        return str(span, "utf-8"), stop
    except UnicodeDecodeError as error:
        raise DecodeError(f"a string is not UTF-8: {error.reason}") from None


def skip_tagged_fields(buffer: memoryview, position: int) -> int:
    """Step over a whole section of tagged fields, none of which the reader knows."""
    count, position = read_varint(buffer, position)
    for _ in range(count):
        _, position = read_varint(buffer, position)
        size, position = read_varint(buffer, position)
        _, position = read_span(buffer, position, size)
    return position


def write_tagged_fields(tagged: list[tuple[int, bytes]]) -> bytes:
    out = [write_varint(len(tagged))]
    for tag, content in tagged:
        out += write_varint(tag), write_varint(len(content)), content
    return b"".join(out)


def truncated(missing: int) -> DecodeError:
    return DecodeError(f"the message ends {missing} bytes too early")


def negative(length: int) -> DecodeError:
    return DecodeError(f"a length of {length} is neither a size nor null")


def string_too_long(length: int, error: type[WireError] = DecodeError) -> WireError:
    return error(f"a string of {length} bytes is longer than {MAX_STRING_BYTES}")


def not_nullable(name: str, error: type[WireError] = DecodeError) -> WireError:
    return error(f"{name} is null in a version that does not allow it")


def too_many(count: int, room: int) -> DecodeError:
    return DecodeError(f"an array claims {count} elements with {room} bytes left")


def too_many_in_all() -> DecodeError:
    return DecodeError("a message of too many elements")


def wrong_tag_size(tag: int) -> DecodeError:
    return DecodeError(f"tagged field {tag} does not have the size it claims")
