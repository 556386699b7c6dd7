"""Select, check and decompress the batches of a fetched or stored piece of log that a reader sees."""

import heapq
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from crc32c import crc32c

from ottla.errors import ErrorCode
from ottla.records import compression
from ottla.records.control import read_marker
from ottla.records.format import ATTRIBUTES_AT, HEADER_SIZE, LOG_OVERHEAD, MAGIC, Buffer, Codec
from ottla.records.header import BatchHeader, read_header
from ottla.records.invalid import InvalidBatch

EXPANSION_LIMIT = (1 << 31) - 1
"""Arrow's binary columns have 32-bit offsets, and Kafka has the same limit."""


class Aborted(NamedTuple):
    """An aborted transaction: its producer id and its first offset."""

    producer_id: int
    first_offset: int


class Payload(NamedTuple):
    """The decompressed records of one batch: bytes `start` to `stop` of a buffer that other batches may share."""

    header: BatchHeader
    buffer: Buffer
    start: int
    stop: int

    @property
    def size(self) -> int:
        return self.stop - self.start


class AbortedFilter:
    """Tracks, batch by batch, which producers have an aborted transaction at the current offset.

    A transaction is active from its first offset, which the list of aborted transactions gives, to its marker.
    """

    def __init__(self, aborted: Iterable[tuple[int, int]]) -> None:
        self._coming = [(first_offset, producer_id) for producer_id, first_offset in aborted]
        heapq.heapify(self._coming)
        self._producers: set[int] = set()

    def drops(self, header: BatchHeader, batch: Buffer) -> bool:
        """Whether readers skip the batch: aborted, or a control batch. Call this for every batch, in order."""
        while self._coming and self._coming[0][0] <= header.last_offset:
            self._producers.add(heapq.heappop(self._coming)[1])
        if header.is_control:
            marker = read_marker(batch, header)
            if marker is not None and not marker.committed:
                self._producers.discard(header.producer_id)
            return True
        return header.is_transactional and header.producer_id in self._producers


class Stretch(NamedTuple):
    """The batches that a reader sees of a piece of log, and the offset at which the next piece begins."""

    payloads: Sequence[Payload]
    next_offset: int


def read_stretch(records: Buffer, start: int, end: int, aborted: AbortedFilter | None = None) -> Stretch:
    """The batches with offsets from `start` up to, but not including, `end`.

    Only the first and the last batch may contain offsets outside this range. After compaction, offsets may have gaps
    and batches may be empty. Without a filter, the result includes records of aborted transactions. It never includes
    markers. Raises InvalidBatch.
    """
    view = memoryview(records)
    payloads: list[Payload] = []
    position, next_offset = 0, start
    while next_offset < end and position + HEADER_SIZE <= len(view):
        header = read_header(view, position)
        batch = view[position : position + header.size]
        if header.batch_length >= HEADER_SIZE - LOG_OVERHEAD and len(batch) < header.size:
            break
        if header.last_offset >= start:
            if header.base_offset >= end:
                next_offset = end
                break
            check_batch(header, batch)
            dropped = aborted.drops(header, batch) if aborted else header.is_control
            if header.record_count and not dropped:
                payloads.append(_payload(header, view, position))
            next_offset = header.next_offset
        position += header.size
    return Stretch(payloads, next_offset)


def check_batch(header: BatchHeader, batch: Buffer) -> None:
    """Raise InvalidBatch unless `batch` is a complete batch of the current format."""
    if header.magic != MAGIC:
        reason = (
            f"the batch at offset {header.base_offset} has message format {header.magic}; only {MAGIC} is supported"
        )
        raise InvalidBatch(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, reason)
    if header.batch_length < HEADER_SIZE - LOG_OVERHEAD:
        reason = f"the batch at offset {header.base_offset} has an invalid length of {header.batch_length} bytes"
        raise InvalidBatch(ErrorCode.CORRUPT_MESSAGE, reason)
    if crc32c(memoryview(batch)[ATTRIBUTES_AT:]) != header.crc:
        reason = f"the batch at offset {header.base_offset} is corrupt: its CRC does not match"
        raise InvalidBatch(ErrorCode.CORRUPT_MESSAGE, reason)


def _payload(header: BatchHeader, view: memoryview, position: int) -> Payload:
    start, stop = position + HEADER_SIZE, position + header.size
    try:
        codec = header.codec
    except ValueError as error:
        raise InvalidBatch(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, str(error)) from error
    if codec is Codec.NONE:
        return Payload(header, view, start, stop)
    data = compression.decompress(codec, view[start:stop], EXPANSION_LIMIT)
    return Payload(header, data, 0, len(data))
