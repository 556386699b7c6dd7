"""Changes to an existing batch: the fields that a leader sets on append, and recompression."""

import struct
from collections.abc import Callable

from ottla.records import compression
from ottla.records.builder import seal
from ottla.records.format import (
    ATTRIBUTES_AT,
    BATCH_LENGTH_AT,
    CODEC_MASK,
    HEADER_SIZE,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD,
    MAX_TIMESTAMP_AT,
    Buffer,
    Codec,
)
from ottla.records.header import BatchHeader
from ottla.records.reader import max_timestamp_record, no_pause, read_batch_header, view_payload

_PLACE = struct.Struct(">qii")
"""Base offset, batch length and leader epoch: the first three fields of a batch."""

_LENGTH = struct.Struct(">i")
_ATTRIBUTES = struct.Struct(">h")
_TIMESTAMP = struct.Struct(">q")


def assign(batch: memoryview | bytearray, header: BatchHeader, base_offset: int, leader_epoch: int) -> None:
    """Set base offset and leader epoch, which the checksum does not cover. The batch length between them stays."""
    _PLACE.pack_into(batch, 0, base_offset, header.batch_length, leader_epoch)


def stamp_log_append_time(view: memoryview | bytearray, position: int, header: BatchHeader, now_ms: int) -> BatchHeader:
    """Make `now_ms` the timestamp of every record (`message.timestamp.type=LogAppendTime`). The deltas stay."""
    attributes = header.attributes | LOG_APPEND_TIME_FLAG
    batch = memoryview(view)[position : position + header.size]
    _ATTRIBUTES.pack_into(batch, ATTRIBUTES_AT, attributes)
    _TIMESTAMP.pack_into(batch, MAX_TIMESTAMP_AT, now_ms)
    return header._replace(attributes=attributes, max_timestamp=now_ms, crc=seal(batch))


def correct_max_timestamp(
    view: memoryview | bytearray,
    position: int,
    header: BatchHeader,
    limit: int = compression.DEFAULT_LIMIT,
    pause: Callable[[], None] = no_pause,
) -> BatchHeader:
    """Set the maximum timestamp to that of the records. Kafka's leaders do so for every batch.

    Old versions of Sarama leave the field at -1. The base timestamp is the time of a record, so a maximum below the
    base is wrong. The time index and retention by time need the right maximum.
    """
    batch = memoryview(view)[position : position + header.size]
    _, timestamp = max_timestamp_record(batch, limit, pause)
    _TIMESTAMP.pack_into(batch, MAX_TIMESTAMP_AT, timestamp)
    return header._replace(max_timestamp=timestamp, crc=seal(batch))


def recompress(
    batch: Buffer, codec: Codec, level: int | None = None, limit: int = compression.DEFAULT_LIMIT
) -> bytearray:
    """The same batch with its records in another codec. Only the codec, the length and the checksum change."""
    header = read_batch_header(batch)
    payload = compression.compress(codec, view_payload(batch, header, limit), level)
    copy = bytearray(memoryview(batch)[:HEADER_SIZE])
    _LENGTH.pack_into(copy, BATCH_LENGTH_AT, HEADER_SIZE - LOG_OVERHEAD + len(payload))
    _ATTRIBUTES.pack_into(copy, ATTRIBUTES_AT, header.attributes & ~CODEC_MASK | codec)
    copy += payload
    seal(copy)
    return copy
