"""The primitive types of all Kafka messages.

Numbers are big-endian and of fixed width. Everything of variable size is a length followed by content. There are two
formats of lengths. The old format is an int16 (strings) or int32 (bytes, arrays), with -1 for null. The compact format,
of the flexible versions of KIP-482, is the length plus one as an unsigned varint, with 0 for null. In flexible
versions, every struct ends with tagged fields. A reader skips the tags that it does not know.

A reader takes a buffer and a position and returns a value and the position after it.
"""

import struct
from typing import Any, Literal

LengthFormat = Literal["h", "i", "compact"]
"""The format of a length: int16, int32 or compact."""

MAX_REQUEST_ELEMENTS = 25_000
"""The most elements in the arrays of one request, including integers. Nearly every element needs an element in the
reply, which costs more, and decoding blocks the event loop."""

MAX_ELEMENTS = 250_000
"""The most structs and strings in the arrays of any other message. A few bytes on the wire take a hundred in memory."""

INTEGERS_PER_ELEMENT = 8
"""In these messages, this many integers count as one element: an integer takes 36 bytes, a struct some hundreds."""

MAX_STRING_BYTES = 0x7FFF
"""Kafka limits compact strings to the maximum of the old int16 length."""

_MAX_VARINT_BYTES = 5


class WireError(ValueError):
    """A message could not be decoded or encoded. Only the two subclasses are raised."""


class DecodeError(WireError):
    """The bytes are not a valid message. The peer has made a mistake."""


class EncodeError(WireError):
    """The message has a value that its version cannot represent. This program has made a mistake."""


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
    """Read an unsigned integer of at most 32 bits: seven bits per byte, lowest first. A set high bit means that more
    bytes follow."""
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
    """The length of the content, or None for null."""
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
    """Skip all tagged fields of a struct without known tags."""
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
    return DecodeError(f"a length of {length} is invalid")


def string_too_long(length: int, error: type[WireError] = DecodeError) -> WireError:
    return error(f"a string of {length} bytes is longer than {MAX_STRING_BYTES}")


def not_nullable(name: str, error: type[WireError] = DecodeError) -> WireError:
    return error(f"{name} is null in a version that does not allow it")


def too_many(count: int, room: int) -> DecodeError:
    return DecodeError(f"an array claims {count} elements with {room} bytes left")


def too_many_in_all() -> DecodeError:
    return DecodeError("the message has too many elements")


def wrong_tag_size(tag: int) -> DecodeError:
    return DecodeError(f"tagged field {tag} has a wrong size")
