"""The checks of a leader before it appends a producer's batch.

`validate_batch` checks headers, sizes and the checksum of every batch. `validate_records` opens the batch and reads
every record, so only the features that need the records call it. `docs/formats/record-batch.md` lists the error codes
and the differences from Kafka.
"""

from collections.abc import Callable

from crc32c import crc32c

from ottla.errors import ErrorCode
from ottla.model import NO_TIMESTAMP
from ottla.records import compression
from ottla.records.format import (
    ATTRIBUTES_AT,
    CODEC_MASK,
    CONTROL_FLAG,
    HEADER,
    HEADER_SIZE,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD,
    MAGIC,
    MAX_INT64,
    MIN_INT64,
    MIN_RECORD_SIZE,
    TRANSACTIONAL_FLAG,
    Buffer,
    Codec,
)
from ottla.records.header import BatchHeader, iter_headers
from ottla.records.invalid import InvalidBatch, RejectedRecords
from ottla.records.reader import check_headers, iter_fields, no_pause, record_timestamp, view_payload

__all__ = ["InvalidBatch", "RejectedRecords", "validate_batch", "validate_records"]

MAX_RECORD_ERRORS = 1000
"""The most rejected records of one batch that the reply lists. A compressed batch can have a million records."""

_CLIENT_ATTRIBUTES = frozenset(Codec) | frozenset(codec | TRANSACTIONAL_FLAG for codec in Codec)
"""A producer may set a codec and the transactional flag. Only brokers set the other flags."""


def validate_batch(view: memoryview) -> BatchHeader:
    """Check the batch that a Produce request has for one partition, and return its header. Raises InvalidBatch.

    As in Kafka from Produce version 3 on, there must be exactly one batch. `replication/intake.py` checks timestamps,
    because the limits are topic settings.
    """
    size = len(view)
    if size < HEADER_SIZE:
        raise _incomplete(view)
    fields = HEADER.unpack_from(view)
    (
        base_offset,
        batch_length,
        _,
        magic,
        crc,
        attributes,
        last_offset_delta,
        _,
        _,
        producer_id,
        producer_epoch,
        base_sequence,
        record_count,
    ) = fields
    if batch_length + LOG_OVERHEAD != size or magic != MAGIC:
        raise _misframed(view, batch_length, magic)
    if crc32c(view[ATTRIBUTES_AT:]) != crc:
        raise InvalidBatch(ErrorCode.CORRUPT_MESSAGE, f"the batch does not match its checksum {crc:#010x}")
    if attributes not in _CLIENT_ATTRIBUTES:
        raise _bad_attributes(attributes)
    if base_offset != 0 or record_count < 1 or record_count != last_offset_delta + 1:
        raise _bad_offsets(base_offset, last_offset_delta, record_count)
    if producer_id < 0:
        if attributes & TRANSACTIONAL_FLAG:
            raise InvalidBatch(ErrorCode.INVALID_RECORD, "a transactional batch has no producer id")
    elif base_sequence < 0 or producer_epoch < 0:
        raise InvalidBatch(
            ErrorCode.INVALID_RECORD,
            f"producer {producer_id} sent sequence number {base_sequence} and epoch {producer_epoch}",
        )
    if record_count * MIN_RECORD_SIZE > size - HEADER_SIZE:
        _check_expansion(Codec(attributes & CODEC_MASK), size - HEADER_SIZE, record_count)
    return tuple.__new__(BatchHeader, fields)


def _check_expansion(codec: Codec, payload_size: int, record_count: int) -> None:
    """Reject a record count that is too high for the payload even with the best compression.

    The count decides how many offsets the batch takes. The leader does not open the batch to verify the count, so
    without this check a few bytes could claim 2^31 - 1 records.
    """
    room = min(compression.MAX_EXPANSION[codec] * payload_size, compression.DEFAULT_LIMIT)
    if record_count * MIN_RECORD_SIZE > room:
        raise InvalidBatch(
            ErrorCode.INVALID_RECORD,
            f"{record_count} records cannot fit in {payload_size} bytes (compression: {codec.kafka_name})",
        )


def _incomplete(view: memoryview) -> InvalidBatch:
    """The same error code as for a wrong number of batches: Kafka counts an incomplete batch as no batch."""
    return InvalidBatch(ErrorCode.INVALID_RECORD, f"{len(view)} bytes are not a complete record batch")


def _misframed(view: memoryview, batch_length: int, magic: int) -> InvalidBatch:
    if magic in (0, 1):
        return InvalidBatch(ErrorCode.INVALID_RECORD, f"magic {magic}: only batches of magic {MAGIC} can be produced")
    if magic != MAGIC:
        return InvalidBatch(ErrorCode.CORRUPT_MESSAGE, f"magic {magic} is unknown")
    if batch_length < HEADER_SIZE - LOG_OVERHEAD:
        return InvalidBatch(ErrorCode.CORRUPT_MESSAGE, f"a batch length of {batch_length} is too small")
    end = batch_length + LOG_OVERHEAD
    if end > len(view):
        return InvalidBatch(ErrorCode.INVALID_RECORD, f"batch length {batch_length} exceeds {len(view)} bytes")
    if any(header.magic == MAGIC for _, header in iter_headers(view[end:])):
        return InvalidBatch(ErrorCode.INVALID_RECORD, "there must be exactly one batch per partition")
    return InvalidBatch(ErrorCode.CORRUPT_MESSAGE, f"{len(view) - end} bytes follow the batch")


def _bad_attributes(attributes: int) -> InvalidBatch:
    if attributes & CODEC_MASK > Codec.ZSTD:
        return InvalidBatch(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"codec {attributes & CODEC_MASK} is unknown")
    if attributes & CONTROL_FLAG:
        return InvalidBatch(ErrorCode.INVALID_RECORD, "clients may not write control records")
    if attributes & LOG_APPEND_TIME_FLAG:
        return InvalidBatch(ErrorCode.INVALID_TIMESTAMP, "clients may not set the timestamp type to LogAppendTime")
    return InvalidBatch(ErrorCode.INVALID_RECORD, f"clients may not set attributes {attributes & 0xFFFF:#06x}")


def _bad_offsets(base_offset: int, last_offset_delta: int, record_count: int) -> InvalidBatch:
    if base_offset != 0:
        return InvalidBatch(ErrorCode.INVALID_RECORD, f"the base offset must be 0, but it is {base_offset}")
    return InvalidBatch(
        ErrorCode.INVALID_RECORD, f"{record_count} records cannot have a last offset delta of {last_offset_delta}"
    )


def validate_records(
    batch: Buffer,
    header: BatchHeader,
    *,
    compacted: bool,
    timestamps: tuple[int, int] | None = None,
    limit: int = compression.DEFAULT_LIMIT,
    pause: Callable[[], None] = no_pause,
) -> None:
    """Check all records of a batch that passed `validate_batch`. Raises InvalidBatch.

    In `compacted` topics every record needs a key. `timestamps` are the lowest and the highest accepted timestamp; -1,
    which means no timestamp, is always accepted. Raises RejectedRecords for records that break one of these two rules.
    """
    payload = view_payload(batch, header, limit)
    lowest, highest = (MIN_INT64, MAX_INT64) if timestamps is None else timestamps
    rejected: list[tuple[int, int | None]] = []
    total = 0
    for index, (delta, offset_delta, _, key_length, _, _, headers_start, end) in enumerate(
        iter_fields(payload, header, pause)
    ):
        if offset_delta != index:
            raise InvalidBatch(ErrorCode.INVALID_RECORD, f"record {index} has offset delta {offset_delta}")
        timestamp = record_timestamp(header, delta)
        keyless = compacted and key_length < 0
        if keyless or not (lowest <= timestamp <= highest or timestamp == NO_TIMESTAMP):
            total += 1
            if total <= MAX_RECORD_ERRORS:
                rejected.append((index, None if keyless else timestamp))
        check_headers(payload, headers_start, end, pause)
    if total:
        raise RejectedRecords(rejected, total)
