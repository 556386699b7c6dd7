"""Where the records of batches lie. Each says with its length where the next one begins, so they must be walked."""

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
"""From so many batches on, walking all of them at once is faster than one after the other."""

_LONGEST_VARINT = 10
_NOWHERE = 1 << 40
"""Farther away than any buffer reaches."""


def _sizes() -> Positions:
    """Of a record with its length, by the first two bytes of it. A length that is negative or longer leads nowhere."""
    words = np.arange(1 << 16)
    first, second = words & 0xFF, words >> 8
    sizes = np.where(first < 0x80, 1 + (first >> 1), 2 + ((first & 0x7F | second << 7) >> 1))
    readable = (first & 1 == 0) & ((first < 0x80) | (second < 0x80))
    return np.where(readable, sizes, _NOWHERE)


_SIZES = _sizes()


def walk(data: Bytes, buffer: Buffer, payloads: Sequence[Payload], counts: Positions) -> tuple[Positions, Positions]:
    """Where each record begins, after its length, and where it ends. Raises InvalidBatch for what are no records."""
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
    """The same for many batches: the first record of each at once, then the second of those that have one, ...

    Only for lengths of one or two bytes. None when there are others, or when records do not fill their batch. A step
    is little more than one look at the sizes, as the cost of a step does not depend on how many batches there are.
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
    """Where a walk by steps has put the records, batch by batch."""
    ranks = np.empty_like(order)
    ranks[order] = np.arange(len(order))
    step = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    return firsts[step] + np.repeat(ranks, counts)


def _ends(starts: Positions, payloads: Sequence[Payload], counts: Positions) -> Positions:
    """Records lie without gaps: each ends where the next one starts, and the last with its batch."""
    ends = np.append(starts[1:], 0)
    ends[np.cumsum(counts) - 1] = [each.stop for each in payloads]
    return ends


def _walk_one(buffer: Buffer, payload: Payload) -> list[int]:
    """Where each record begins. A length is read as if it were not negative: that is checked for all at once."""
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
        raise InvalidBatch(ErrorCode.INVALID_RECORD, "the records end in the middle of one") from None
    return positions
