"""Reads the key and the position of each record of a batch. Compaction needs no other part of most records.

Compaction reads every record of a partition, so the loop usually makes no function calls. It returns lists, which can
be compared and put into a dictionary without another loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ottla.errors import ErrorCode
from ottla.records.builder import seal
from ottla.records.compression import compress
from ottla.records.format import DELETE_HORIZON_FLAG, HEADER, HEADER_SIZE, LOG_APPEND_TIME_FLAG, LOG_OVERHEAD, Codec
from ottla.records.invalid import InvalidBatch
from ottla.records.reader import read_payload
from ottla.records.varint import ONE_BYTE, encode_varint, read_varint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.records.format import Buffer
    from ottla.records.header import BatchHeader

_NULL = 1
"""The length byte of a null value: zigzag encodes -1 as 1."""

_UNUSED_TIMESTAMP = -1


class KeyedRecords(NamedTuple):
    payload: bytes
    """The records' bytes, not compressed."""
    keys: list[bytes | None]
    deltas: list[int]
    """Offset deltas."""
    bounds: list[int]
    """The start of each record in the payload, and the end of the last record."""
    tombstones: list[int]
    """Indexes of the records without a value."""


def read_keys(batch: Buffer, header: BatchHeader) -> KeyedRecords:
    """Raises InvalidBatch."""
    payload = read_payload(batch, header)
    size = len(payload)
    keys: list[bytes | None] = []
    deltas: list[int] = []
    bounds = [0]
    tombstones: list[int] = []
    position = 0
    try:
        for number in range(header.record_count):
            if (byte := payload[position]) < 0x80:
                length, position = ONE_BYTE[byte], position + 1
            elif not byte & 1 and (second := payload[position + 1]) < 0x80:
                # Most lengths of more than one byte have two bytes and are not negative.
                length, position = (byte & 0x7F | second << 7) >> 1, position + 2
            else:
                length, position = read_varint(payload, position)
            end = position + length
            # Skip one byte of unused attributes, and the timestamp delta.
            position += 1
            while payload[position] >= 0x80:
                position += 1
            position += 1
            if (byte := payload[position]) < 0x80:
                delta, position = ONE_BYTE[byte], position + 1
            else:
                delta, position = read_varint(payload, position)
            if (byte := payload[position]) < 0x80:
                length, position = ONE_BYTE[byte], position + 1
            else:
                length, position = read_varint(payload, position)
            if length >= 0:
                keys.append(payload[position : position + length])
                position += length
            else:
                keys.append(None)
            deltas.append(delta)
            if payload[position] == _NULL:
                tombstones.append(number)
            if not position < end <= size:
                raise InvalidBatch(ErrorCode.INVALID_RECORD, "the fields of a record exceed its length")
            bounds.append(end)
            position = end
    except IndexError:
        raise InvalidBatch(ErrorCode.INVALID_RECORD, "the last record is incomplete") from None
    if position != size:
        raise InvalidBatch(ErrorCode.INVALID_RECORD, f"{size - position} bytes follow the last record")
    return KeyedRecords(payload, keys, deltas, bounds, tombstones)


def rebuild(
    header: BatchHeader, records: KeyedRecords, kept: Sequence[int], delete_horizon_ms: int | None = None
) -> bytearray:
    """The batch with only the `kept` records, whose bytes stay the same.

    Offsets, sequence numbers and codec stay the same. The maximum timestamp becomes that of the kept records. A delete
    horizon replaces the base timestamp (KIP-534). Only then do the records change, because their timestamps are
    relative to the base timestamp.
    """
    parts = [records.payload[records.bounds[number] : records.bounds[number + 1]] for number in kept]
    header = _with_largest_timestamp(header, parts)
    if delete_horizon_ms is not None:
        shift = header.base_timestamp - delete_horizon_ms
        parts = [_shift_timestamp(part, shift) for part in parts]
        header = header._replace(attributes=header.attributes | DELETE_HORIZON_FLAG, base_timestamp=delete_horizon_ms)
    payload = b"".join(parts)
    if header.codec is not Codec.NONE:
        payload = compress(header.codec, payload)
    return _assemble(header._replace(record_count=len(kept)), payload)


def empty(header: BatchHeader) -> bytearray:
    """The batch without records. It keeps its offsets, producer, sequence numbers and maximum timestamp."""
    attributes = header.attributes & ~DELETE_HORIZON_FLAG
    header = header._replace(attributes=attributes - header.codec, base_timestamp=_UNUSED_TIMESTAMP, record_count=0)
    return _assemble(header, b"")


def _assemble(header: BatchHeader, payload: bytes) -> bytearray:
    batch = bytearray(HEADER_SIZE + len(payload))
    HEADER.pack_into(batch, 0, *header._replace(batch_length=len(batch) - LOG_OVERHEAD))
    batch[HEADER_SIZE:] = payload
    seal(batch)
    return batch


def _with_largest_timestamp(header: BatchHeader, parts: Sequence[bytes]) -> BatchHeader:
    if header.attributes & LOG_APPEND_TIME_FLAG:
        return header
    before = header.max_timestamp - header.base_timestamp
    largest = None
    for part in parts:
        delta = _timestamp_delta(part)[0]
        if delta == before:
            return header
        if largest is None or delta > largest:
            largest = delta
    assert largest is not None, "a batch is rebuilt with at least one record"
    return header._replace(max_timestamp=header.base_timestamp + largest)


def _timestamp_delta(record: bytes) -> tuple[int, int, int]:
    """The timestamp delta, and the positions of its first byte and after its last byte."""
    _, start = read_varint(record, 0)
    delta, end = read_varint(record, start + 1)
    return delta, start + 1, end


def _shift_timestamp(record: bytes, shift: int) -> bytes:
    delta, start, end = _timestamp_delta(record)
    body = record[start - 1 : start] + encode_varint(delta + shift) + record[end:]
    return encode_varint(len(body)) + body
