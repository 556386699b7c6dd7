"""Decode many zigzag varints at once."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Bytes: TypeAlias = NDArray[np.uint8]
Positions: TypeAlias = NDArray[np.int64]

_MAX_SHIFT = 63


class Truncated(ValueError):  # noqa: N818 - the name states the finding
    """A varint extends past the end of the data or is longer than 64 bits."""


def two_byte_words(data: Bytes) -> NDArray[np.uint16]:
    """The 16-bit word at every byte position, without a copy."""
    return np.ndarray((max(len(data) - 1, 0),), "<u2", data, strides=(1,))


def read_varints(data: Bytes, positions: Positions) -> tuple[Positions, Positions]:
    """The varint at each position, and the position after it. Fast path for varints of one or two bytes."""
    try:
        first, second = data.take(positions), data.take(positions + 1)
    except IndexError:  # Possibly a one-byte varint at the end of the data.
        return read_any_varints(data, positions)
    if (first & second > 0x7F).any():
        return read_any_varints(data, positions)
    two = first >> 7
    value = (second * two).astype(np.int16)
    value <<= 7
    value |= first & 0x7F
    return ((value >> 1) ^ -(value & 1)).astype(np.int64), positions + 1 + two


def read_any_varints(data: Bytes, positions: Positions) -> tuple[Positions, Positions]:
    """The same for varints of any length. Each further byte costs a pass over the varints that have it."""
    try:
        byte = data[positions]
        value = byte.astype(np.int64)
        after = positions + 1
        more = np.flatnonzero(byte & 0x80)
        if more.size:
            value &= 0x7F
            shift = 7
            while more.size:
                if shift > _MAX_SHIFT:
                    raise Truncated("a varint is longer than 64 bits")
                byte = data[after[more]]
                value[more] |= (byte & 0x7F).astype(np.int64) << shift
                after[more] += 1
                more = more[byte > 0x7F]
                shift += 7
    except IndexError:
        raise Truncated("a varint extends past the end of the records") from None
    return (value >> 1) & 0x7FFF_FFFF_FFFF_FFFF ^ -(value & 1), after
