"""Zigzag variable-length integers, the encoding of integers in records: 7 bits per byte, the lowest first."""

from ottla.errors import ErrorCode
from ottla.records.format import Buffer
from ottla.records.invalid import InvalidBatch

ONE_BYTE = tuple((byte >> 1) ^ -(byte & 1) for byte in range(128))
"""The number of each byte without a continuation bit. Most varints of a record have one byte, and a lookup is much
cheaper than a call."""

_MAX_BYTES = 10
_SMALL = tuple(bytes(((n << 1) ^ (n >> 7),)) for n in range(-64, 64))


def read_varint(data: Buffer, position: int) -> tuple[int, int]:
    """The number and the position after it. Raises IndexError at the end of the data."""
    byte = data[position]
    position += 1
    if byte < 0x80:
        return ONE_BYTE[byte], position
    value = byte & 0x7F
    shift = 7
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift == 7 * _MAX_BYTES:
            break
    if byte >= 0x80 or value >> 64:
        raise InvalidBatch(ErrorCode.INVALID_RECORD, "a variable-length integer has more than 64 bits")
    return (value >> 1) ^ -(value & 1), position


def encode_varint(number: int) -> bytes:
    """The bytes of a number that fits in a signed 64-bit integer."""
    if -64 <= number < 64:
        return _SMALL[number + 64]
    rest = (number << 1) ^ (number >> 63)
    encoded = bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)
