"""Locate the records of batches. The position of a record follows from the length of the previous one."""

from collections.abc import Sequence
from itertools import chain

import numpy as np

from ottla.errors import ErrorCode
from ottla.records.format import Buffer
from ottla.records.invalid import InvalidBatch
from ottla.records.varint import read_varint
from ottla.spark.batches import Payload
from ottla.spark.varints import Bytes, Positions, read_varints, two_byte_words

MANY_BATCHES = 16
"""From this number of batches on, walking all of them in parallel is faster than one after the other."""

_LONGEST_VARINT = 10
_NOWHERE = 1 << 40
"""A size that leads past the end of every buffer."""


def _sizes() -> Positions:
    """Size of a record, length field included, by its first two bytes. Negative and longer lengths give _NOWHERE."""
    words = np.arange(1 << 16)
    first, second = words & 0xFF, words >> 8
    sizes = np.where(first < 0x80, 1 + (first >> 1), 2 + ((first & 0x7F | second << 7) >> 1))
    readable = (first & 1 == 0) & ((first < 0x80) | (second < 0x80))
    return np.where(readable, sizes, _NOWHERE)


_SIZES = _sizes()


def walk(data: Bytes, buffer: Buffer, payloads: Sequence[Payload], counts: Positions) -> tuple[Positions, Positions]:
    """The start of each record, after its length field, and its end. Raises InvalidBatch."""
    if counts.sum() >= MANY_BATCHES * counts.max():
        found = walk_together(data, payloads, counts)
        if found is not None:
            return found
    starts = np.array(list(chain.from_iterable(_walk_one(buffer, each) for each in payloads)), np.int64)
    lengths, bodies = read_varints(data, starts)
    ends = _ends(starts, payloads, counts)
    if (lengths < 0).any() or (bodies + lengths != ends).any():
        raise InvalidBatch(ErrorCode.INVALID_RECORD, "records do not fill their batch")
    return bodies, ends


def walk_together(data: Bytes, payloads: Sequence[Payload], counts: Positions) -> tuple[Positions, Positions] | None:
    """The same for many batches. Each step advances one record in every batch that has one left.

    Supports only lengths of one or two bytes. Returns None for other lengths, and if records do not fill their batch. A
    step is little more than one table lookup, and its cost hardly depends on the number of batches.
    """
    order = np.argsort(-counts, kind="stable")
    steps = np.arange(int(counts.max()))
    lanes = len(counts) - np.searchsorted(counts[order][::-1], steps, side="right")
    firsts = np.cumsum(lanes) - lanes
    words = two_byte_words(data)
    walked = np.empty(int(counts.sum()), np.int64)
    at = np.array([each.start for each in payloads], np.int64)[order]
    try:
        for first, width in zip(firsts.tolist(), lanes.tolist(), strict=True):
            at = at[:width]
            walked[first : first + width] = at
            at = at + _SIZES.take(words[at])
    except IndexError:
        return None
    starts = walked[_places(order, counts, firsts)]
    ends = _ends(starts, payloads, counts)
    if (starts + _SIZES.take(words[starts]) != ends).any():
        return None
    return starts + 1 + (data[starts] >> 7), ends


def _places(order: Positions, counts: Positions, firsts: Positions) -> Positions:
    """The index in the order of the walk of each record in batch order."""
    ranks = np.empty_like(order)
    ranks[order] = np.arange(len(order))
    step = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    return firsts[step] + np.repeat(ranks, counts)


def _ends(starts: Positions, payloads: Sequence[Payload], counts: Positions) -> Positions:
    """Records have no gaps: each ends at the start of the next one, and the last at the end of its batch."""
    ends = np.append(starts[1:], 0)
    ends[np.cumsum(counts) - 1] = [each.stop for each in payloads]
    return ends


def _walk_one(buffer: Buffer, payload: Payload) -> list[int]:
    """The start of each record. Negative lengths are read as positive; `walk` rejects them for all records at once."""
    position = payload.start
    positions: list[int] = []
    append = positions.append
    try:
        for _ in range(payload.header.record_count):
            append(position)
            byte = buffer[position]
            if byte < 0x80:
                position += (byte >> 1) + 1
            elif (second := buffer[position + 1]) < 0x80:
                position += ((byte & 0x7F | second << 7) >> 1) + 2
            else:
                length, size = read_varint(bytes(buffer[position : position + _LONGEST_VARINT]), 0)
                position += size + abs(length)
    except IndexError:
        raise InvalidBatch(ErrorCode.INVALID_RECORD, "the data ends in the middle of a record") from None
    return positions
