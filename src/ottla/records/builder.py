"""Builds the bytes of one batch from records."""

from collections.abc import Iterable
from typing import NamedTuple

from crc32c import crc32c

from ottla.model import NO_LEADER_EPOCH, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, NO_TIMESTAMP
from ottla.records import compression
from ottla.records.format import (
    ATTRIBUTES_AT,
    CONTROL_FLAG,
    CRC_AT,
    HEADER,
    HEADER_SIZE,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD,
    MAGIC,
    TRANSACTIONAL_FLAG,
    Codec,
)
from ottla.records.varint import encode_varint


class NewRecord(NamedTuple):
    """A record that has no offset yet."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp: int = NO_TIMESTAMP


def build_batch(
    records: Iterable[NewRecord],
    *,
    base_offset: int = 0,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    leader_epoch: int = NO_LEADER_EPOCH,
    transactional: bool = False,
    control: bool = False,
    log_append_time: int | None = None,
) -> bytearray:
    """One batch with offsets from `base_offset` on. `log_append_time`, if given, is the timestamp of every record."""
    records = list(records)
    if not records:
        raise ValueError("a batch needs at least one record")
    base_timestamp = records[0].timestamp
    max_timestamp = max(record.timestamp for record in records) if log_append_time is None else log_append_time
    attributes = (
        codec
        | (LOG_APPEND_TIME_FLAG if log_append_time is not None else 0)
        | (TRANSACTIONAL_FLAG if transactional else 0)
        | (CONTROL_FLAG if control else 0)
    )
    payload = b"".join(encode_record(record, base_timestamp, delta) for delta, record in enumerate(records))
    if codec is not Codec.NONE:
        payload = compression.compress(codec, payload, level)
    batch = bytearray(HEADER_SIZE + len(payload))
    HEADER.pack_into(
        batch,
        0,
        base_offset,
        len(batch) - LOG_OVERHEAD,
        leader_epoch,
        MAGIC,
        0,
        attributes,
        len(records) - 1,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        len(records),
    )
    batch[HEADER_SIZE:] = payload
    seal(batch)
    return batch


def seal(batch: bytearray | memoryview) -> int:
    """Store the checksum of a batch that fills the buffer, and return it."""
    crc = crc32c(memoryview(batch)[ATTRIBUTES_AT:])
    batch[CRC_AT:ATTRIBUTES_AT] = crc.to_bytes(4, "big")
    return crc


def encode_record(record: NewRecord, base_timestamp: int, offset_delta: int) -> bytes:
    key, value, headers, timestamp = record
    parts = [b"\x00", encode_varint(timestamp - base_timestamp), encode_varint(offset_delta)]
    _append_nullable(parts, key)
    _append_nullable(parts, value)
    parts.append(encode_varint(len(headers)))
    for name, header_value in headers:
        _append_nullable(parts, name.encode())
        _append_nullable(parts, header_value)
    body = b"".join(parts)
    return encode_varint(len(body)) + body


def _append_nullable(parts: list[bytes], data: bytes | None) -> None:
    if data is None:
        parts.append(encode_varint(-1))
    else:
        parts.append(encode_varint(len(data)))
        parts.append(data)
