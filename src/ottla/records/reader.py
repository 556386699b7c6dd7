"""Reads the records of one batch."""

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

from ottla.errors import ErrorCode
from ottla.records import compression
from ottla.records.format import (
    HEADER_SIZE,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD,
    MAGIC,
    MAX_INT64,
    MIN_INT64,
    MIN_RECORD_SIZE,
    Buffer,
    Codec,
)
from ottla.records.header import BatchHeader, read_header
from ottla.records.invalid import InvalidBatch
from ottla.records.varint import ONE_BYTE, read_varint

_PAUSE_MASK = 127
"""Pause every 128 records, which take about half a millisecond."""


class Record(NamedTuple):
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


RecordFields: TypeAlias = tuple[int, int, int, int, int, int, int, int]
"""Timestamp delta, offset delta, then positions in the payload: key start, key length, value start, value length, start
of the headers, end of the record. A negative length means null. It is a plain tuple, which is the cheapest to create
for every record."""


def read_records(batch: Buffer, limit: int = compression.DEFAULT_LIMIT) -> list[Record]:
    """All records of the batch at the start of the buffer. Raises InvalidBatch if they are malformed."""
    header = read_batch_header(batch)
    payload = read_payload(batch, header, limit)
    base_offset = header.base_offset
    records = []
    for delta, offset_delta, key_start, key_length, value_start, value_length, headers_start, end in iter_fields(
        payload, header
    ):
        records.append(
            Record(
                base_offset + offset_delta,
                record_timestamp(header, delta),
                None if key_length < 0 else payload[key_start : key_start + key_length],
                None if value_length < 0 else payload[value_start : value_start + value_length],
                read_headers(payload, headers_start, end),
            )
        )
    return records


def no_pause() -> None:
    """For callers that need no pauses."""


def max_timestamp_record(
    batch: Buffer, limit: int = compression.DEFAULT_LIMIT, pause: Callable[[], None] = no_pause
) -> tuple[int, int]:
    """Offset and timestamp of the first record that has the batch's largest timestamp (KIP-734)."""
    offset, timestamp = None, MIN_INT64
    for next_offset, next_timestamp in _iter_times(batch, limit, pause):
        if offset is None or next_timestamp > timestamp:
            offset, timestamp = next_offset, next_timestamp
    if offset is None:
        raise InvalidBatch(ErrorCode.INVALID_RECORD, "the batch has no records")
    return offset, timestamp


def first_at_or_after(
    batch: Buffer,
    timestamp: int,
    *,
    start_offset: int = 0,
    limit: int = compression.DEFAULT_LIMIT,
    pause: Callable[[], None] = no_pause,
) -> tuple[int, int] | None:
    """Offset and timestamp of the first record from `start_offset` on that is not older than the timestamp."""
    for offset, found in _iter_times(batch, limit, pause):
        if found >= timestamp and offset >= start_offset:
            return offset, found
    return None


def _iter_times(batch: Buffer, limit: int, pause: Callable[[], None]) -> Iterator[tuple[int, int]]:
    header = read_batch_header(batch)
    for fields in iter_fields(view_payload(batch, header, limit), header, pause):
        yield header.base_offset + fields[1], record_timestamp(header, fields[0])


def record_timestamp(header: BatchHeader, delta: int) -> int:
    if header.attributes & LOG_APPEND_TIME_FLAG:
        return header.max_timestamp
    timestamp = header.base_timestamp + delta
    if not MIN_INT64 <= timestamp <= MAX_INT64:
        raise InvalidBatch(ErrorCode.INVALID_RECORD, f"timestamp {timestamp} does not fit in 64 bits")
    return timestamp


def read_batch_header(batch: Buffer) -> BatchHeader:
    """The header of a complete batch. Raises InvalidBatch if the batch is incomplete."""
    if len(batch) < HEADER_SIZE:
        raise InvalidBatch(ErrorCode.CORRUPT_MESSAGE, f"{len(batch)} bytes are not a record batch")
    header = read_header(batch)
    if header.magic != MAGIC:
        raise InvalidBatch(ErrorCode.CORRUPT_MESSAGE, f"magic {header.magic} is not {MAGIC}")
    if not HEADER_SIZE - LOG_OVERHEAD <= header.batch_length <= len(batch) - LOG_OVERHEAD:
        raise InvalidBatch(ErrorCode.CORRUPT_MESSAGE, f"batch length {header.batch_length} exceeds {len(batch)} bytes")
    return header


def read_payload(batch: Buffer, header: BatchHeader, limit: int = compression.DEFAULT_LIMIT) -> bytes:
    """The bytes of the records after the header, decompressed."""
    return bytes(view_payload(batch, header, limit))


def view_payload(batch: Buffer, header: BatchHeader, limit: int = compression.DEFAULT_LIMIT) -> bytes | memoryview:
    """Like `read_payload`, but returns large data as a view instead of a copy."""
    try:
        codec = header.codec
    except ValueError as error:
        raise InvalidBatch(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, str(error)) from error
    data = memoryview(batch)[HEADER_SIZE : header.size]
    return bytes(data) if codec is Codec.NONE else compression.decompress_view(codec, data, limit)


def iter_fields(payload: Buffer, header: BatchHeader, pause: Callable[[], None] = no_pause) -> Iterator[RecordFields]:
    """Iterate over the records, with a check of every length. `read_headers` reads the record headers.

    `pause` is called every 128 records, so that a thread can let others run.
    """
    count = header.record_count
    size = len(payload)
    if count < 0 or count * MIN_RECORD_SIZE > size:
        raise InvalidBatch(ErrorCode.INVALID_RECORD, f"{count} records cannot fit in {size} bytes")
    last_offset_delta = header.last_offset_delta
    position = 0
    previous_delta = -1
    try:
        for number in range(count):
            if not number & _PAUSE_MASK:
                pause()
            length, start = read_varint(payload, position)
            end = start + length
            # Skip the record attributes, one unused byte at `start`.
            if (byte := payload[start + 1]) < 0x80:
                timestamp_delta, position = ONE_BYTE[byte], start + 2
            else:
                timestamp_delta, position = read_varint(payload, start + 1)
            if (byte := payload[position]) < 0x80:
                offset_delta, position = ONE_BYTE[byte], position + 1
            else:
                offset_delta, position = read_varint(payload, position)
            if (byte := payload[position]) < 0x80:
                key_length, key_start = ONE_BYTE[byte], position + 1
            else:
                key_length, key_start = read_varint(payload, position)
            position = key_start + key_length if key_length > 0 else key_start
            value_length, value_start = read_varint(payload, position)
            headers_start = value_start + value_length if value_length > 0 else value_start
            if headers_start >= end or end > size:
                raise InvalidBatch(ErrorCode.INVALID_RECORD, f"the fields of a record exceed its {length} bytes")
            if not previous_delta < offset_delta <= last_offset_delta:
                raise InvalidBatch(ErrorCode.INVALID_RECORD, f"offset delta {offset_delta} is out of order")
            yield (
                timestamp_delta,
                offset_delta,
                key_start,
                key_length,
                value_start,
                value_length,
                headers_start,
                end,
            )
            previous_delta = offset_delta
            position = end
    except IndexError:
        raise InvalidBatch(ErrorCode.INVALID_RECORD, "the last record is incomplete") from None
    if position != size:
        raise InvalidBatch(ErrorCode.INVALID_RECORD, f"{size - position} bytes follow the last record")


def read_headers(payload: Buffer, position: int, end: int) -> tuple[tuple[str, bytes | None], ...]:
    """The headers of one record. They must end exactly at the end of the record."""
    if position + 1 == end and payload[position] == 0:
        return ()
    return tuple(_iter_headers(payload, position, end))


def check_headers(payload: Buffer, position: int, end: int, pause: Callable[[], None] = no_pause) -> None:
    """Check like `read_headers`, but without storing the headers: a record can have millions of them."""
    if position + 1 == end and payload[position] == 0:
        return
    for number, _ in enumerate(_iter_headers(payload, position, end)):
        if not number & _PAUSE_MASK:
            pause()


def _iter_headers(payload: Buffer, position: int, end: int) -> Iterator[tuple[str, bytes | None]]:
    try:
        count, position = read_varint(payload, position)
        if not 0 <= count <= end - position:
            raise InvalidBatch(ErrorCode.INVALID_RECORD, f"a record cannot have {count} headers")
        for _ in range(count):
            key_length, start = read_varint(payload, position)
            position = start + key_length
            if key_length < 0 or position >= end:
                raise InvalidBatch(ErrorCode.INVALID_RECORD, f"a header key cannot have {key_length} bytes")
            key = str(payload[start:position], "utf-8")
            value_length, start = read_varint(payload, position)
            position = start + max(value_length, 0)
            yield key, None if value_length < 0 else bytes(payload[start:position])
    except IndexError:
        raise InvalidBatch(ErrorCode.INVALID_RECORD, "the last record header is incomplete") from None
    except UnicodeDecodeError as error:
        raise InvalidBatch(ErrorCode.INVALID_RECORD, f"a header key is not UTF-8: {error}") from error
    if position != end:
        raise InvalidBatch(ErrorCode.INVALID_RECORD, "the headers of a record do not end at the end of the record")
