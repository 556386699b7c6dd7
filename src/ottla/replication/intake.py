"""How a leader checks the records of a Produce request and makes them conform to the topic's settings.

`prepare` is part of every append and runs on the event loop: it looks at the batch header only. Some settings need the
records themselves: keys on a compacted topic, another `compression.type`. Opening a batch can take 128 MB of memory and
seconds of computing, so `prepare` raises InspectionNeeded then, and `inspect` opens the batch in a thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.env.background import Pauses
from ottla.errors import ErrorCode, KafkaError
from ottla.records.compression import DEFAULT_LIMIT
from ottla.records.format import Codec
from ottla.records.header import read_header
from ottla.records.invalid import InvalidBatch, RejectedRecords
from ottla.records.rewrite import correct_max_timestamp, recompress, stamp_log_append_time
from ottla.records.validate import validate_batch, validate_records

if TYPE_CHECKING:
    from ottla.config.topic import TopicConfig
    from ottla.model import TopicPartition
    from ottla.records.header import BatchHeader

_LEVEL_OF = {
    Codec.GZIP: "compression_gzip_level",
    Codec.LZ4: "compression_lz4_level",
    Codec.ZSTD: "compression_zstd_level",
}

_SHOWN_ERRORS = 3
"""Record errors that Kafka repeats in the message of the partition."""


class InspectionNeeded(Exception):  # noqa: N818 - the name says what to do
    """The batch must be opened before it can be appended. Nothing was appended. Call `Partition.inspect` first."""


def prepare(
    records: memoryview, config: TopicConfig, now_ms: int, *, inspected: bool = False
) -> tuple[memoryview, BatchHeader]:
    """The one batch to append, and its header. Raises KafkaError, and InspectionNeeded unless it was `inspected`."""
    try:
        header = validate_batch(records)
    except InvalidBatch as error:
        raise KafkaError(error.code, str(error)) from None
    _, _, _, _, _, _, _, base_timestamp, max_timestamp, _, _, _, _ = header
    if (
        # Fast path, for nearly every batch: nothing below would refuse or change it.
        config.takes_batches_as_they_are
        and len(records) <= config.largest_batch
        and base_timestamp <= max_timestamp <= now_ms + config.message_timestamp_after_max_ms
        and base_timestamp >= now_ms - config.message_timestamp_before_max_ms
    ):
        return records, header
    _check_size(header, config)
    if not inspected and _must_be_opened(header, config, now_ms):
        raise InspectionNeeded
    if header.size > config.segment_bytes:
        raise KafkaError(
            ErrorCode.RECORD_LIST_TOO_LARGE, f"{header.size} bytes do not fit into a segment of {config.segment_bytes}"
        )
    if config.log_append_time:
        header = stamp_log_append_time(records, 0, header, now_ms)
    return records, header


def _must_be_opened(header: BatchHeader, config: TopicConfig, now_ms: int) -> bool:
    return (
        config.compacted
        or (config.compression_type != "producer" and Codec.named(config.compression_type) is not header.codec)
        or _has_implausible_timestamps(header, config, now_ms)
    )


def _has_implausible_timestamps(header: BatchHeader, config: TopicConfig, now_ms: int) -> bool:
    """Whether the records have to be looked at, because the header says what cannot be or must not be.

    Some clients never set the maximum timestamp. Kafka does not trust it, and checks the timestamp of each record.
    """
    lowest, highest = _timestamp_bounds(config, now_ms)
    return not config.log_append_time and (
        header.max_timestamp < header.base_timestamp
        or header.max_timestamp > highest
        or 0 <= header.base_timestamp < lowest
    )


def _timestamp_bounds(config: TopicConfig, now_ms: int) -> tuple[int, int]:
    return now_ms - config.message_timestamp_before_max_ms, now_ms + config.message_timestamp_after_max_ms


def inspect(
    records: memoryview, config: TopicConfig, now_ms: int, topic_partition: TopicPartition, pauses: Pauses | None = None
) -> memoryview:
    """Open a batch and make it conform to the topic's settings. Raises KafkaError.

    Blocking: made to run in a thread. The records may be changed in place.
    """
    pause = pauses or Pauses()
    bounds = None if config.log_append_time else _timestamp_bounds(config, now_ms)
    try:
        header = validate_batch(records)
        _check_size(header, config)
        implausible = _has_implausible_timestamps(header, config, now_ms)
        if config.compacted or implausible:
            validate_records(records, header, compacted=config.compacted, timestamps=bounds, pause=pause)
        if config.compression_type != "producer":
            records, header = _recompressed(records, header, config)
        if implausible:
            # The time index and retention depend on the maximum timestamp.
            correct_max_timestamp(records, 0, header, pause=pause)
    except RejectedRecords as rejected:
        raise _record_errors(rejected, topic_partition, bounds) from None
    except InvalidBatch as error:
        raise KafkaError(error.code, str(error)) from None
    return records


def _record_errors(
    refusal: RejectedRecords, topic_partition: TopicPartition, bounds: tuple[int, int] | None
) -> KafkaError:
    """Kafka's words for records that it rejects (KIP-467)."""
    no_key = f"Compacted topic cannot accept message without key in topic partition {topic_partition}"
    errors = []
    for index, timestamp in refusal.rejected:
        if timestamp is None or bounds is None:
            errors.append((index, no_key))
        else:
            text = f"Timestamp {timestamp} of message with offset {index} is out of range. "
            text += f"The timestamp should be within [{bounds[0]}, {bounds[1]}]"
            errors.append((index, text))
    message = "One or more records have been rejected due to "
    if refusal.code is ErrorCode.INVALID_TIMESTAMP:
        message += "invalid timestamp"
    else:
        shown = ", ".join(
            f"RecordError(batchIndex={index}, message='{text}')" for index, text in errors[:_SHOWN_ERRORS]
        )
        message += f"{refusal.total} record errors in total, and only showing the first three errors at most: [{shown}]"
    return KafkaError(refusal.code, message, errors)


def _check_size(header: BatchHeader, config: TopicConfig) -> None:
    """Holds for the batch as it was sent and, as in Kafka, once more for what recompression made of it."""
    if header.size > config.max_message_bytes:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"a batch of {header.size} bytes; max.message.bytes is {config.max_message_bytes}",
        )


def _recompressed(records: memoryview, header: BatchHeader, config: TopicConfig) -> tuple[memoryview, BatchHeader]:
    """The batch in the codec of the topic; as it was sent when it is in that codec already."""
    codec = Codec.named(config.compression_type)
    if codec is header.codec:
        return records, header
    limit = config.max_message_bytes if codec is Codec.NONE else DEFAULT_LIMIT
    records = memoryview(recompress(records, codec, _level(config, codec), min(limit, DEFAULT_LIMIT)))
    header = read_header(records)
    _check_size(header, config)
    return records, header


def _level(config: TopicConfig, codec: Codec) -> int | None:
    attribute = _LEVEL_OF.get(codec)
    return None if attribute is None else int(getattr(config, attribute))
