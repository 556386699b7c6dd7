"""The 61 bytes in front of every batch, as a named tuple."""

from collections.abc import Iterator
from typing import NamedTuple

from ottla.records.format import (
    CODEC_MASK,
    CONTROL_FLAG,
    HEADER,
    HEADER_SIZE,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD,
    MAX_SEQUENCE,
    TRANSACTIONAL_FLAG,
    Buffer,
    Codec,
)


class BatchHeader(NamedTuple):
    """The fields in their order on disk, so that an unpacked struct is a header."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch, header included."""
        return LOG_OVERHEAD + self.batch_length

    @property
    def last_offset(self) -> int:
        """The last offset of the batch when it was produced. Compaction keeps it even if it removes the last record."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> Codec:
        return Codec(self.attributes & CODEC_MASK)

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL_FLAG != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL_FLAG != 0

    @property
    def log_append_time(self) -> bool:
        """Whether every record's timestamp is `max_timestamp`, the time at which the leader appended the batch."""
        return self.attributes & LOG_APPEND_TIME_FLAG != 0

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id >= 0

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record. Sequence numbers are 31 bits wide: after the largest comes 0."""
        if self.base_sequence < 0:
            return self.base_sequence
        return (self.base_sequence + self.last_offset_delta) & MAX_SEQUENCE


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header at a position, unchecked. Raises `struct.error` if fewer than 61 bytes are left."""
    return tuple.__new__(BatchHeader, HEADER.unpack_from(buffer, position))


def iter_headers(buffer: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    """The position and header of every complete batch. Ends at an incomplete batch or an invalid length."""
    position = 0
    last = len(buffer) - HEADER_SIZE
    while position <= last:
        header = read_header(buffer, position)
        end = position + header.size
        if header.batch_length < HEADER_SIZE - LOG_OVERHEAD or end > len(buffer):
            return
        yield position, header
        position = end
