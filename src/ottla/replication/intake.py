"""What a leader does with the records of a Produce request before they are appended: check them, and make them
conform to the topic's settings. The batch header is always checked; records are looked at only where a setting asks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.errors import ErrorCode, KafkaError
from ottla.records.format import Codec
from ottla.records.header import read_header
from ottla.records.invalid import InvalidBatch
from ottla.records.rewrite import correct_max_timestamp, recompress, stamp_log_append_time
from ottla.records.validate import validate_batch, validate_records

if TYPE_CHECKING:
    from ottla.config.topic import TopicConfig
    from ottla.records.header import BatchHeader

_LEVEL_OF = {
    Codec.GZIP: "compression_gzip_level",
    Codec.LZ4: "compression_lz4_level",
    Codec.ZSTD: "compression_zstd_level",
}


def prepare(records: memoryview, config: TopicConfig, now_ms: int) -> tuple[memoryview, BatchHeader]:
    """The one batch to append, and its header. Raises KafkaError; the view may be another than the one given."""
    try:
        header = validate_batch(records)
        if (
            # Fast path, for nearly every batch: `_conform` would find nothing to refuse and nothing to change.
            config.takes_batches_as_they_are
            and len(records) <= config.largest_batch
            and header.base_timestamp <= header.max_timestamp <= now_ms + config.message_timestamp_after_max_ms
            and header.base_timestamp >= now_ms - config.message_timestamp_before_max_ms
        ):
            return records, header
        return _conform(records, header, config, now_ms)
    except InvalidBatch as error:
        raise KafkaError(error.code, str(error)) from None


def _conform(
    records: memoryview, header: BatchHeader, config: TopicConfig, now_ms: int
) -> tuple[memoryview, BatchHeader]:
    _check_size(header, config)
    if config.compacted:
        validate_records(records, header, compacted=True)
    if config.compression_type != "producer":
        records, header = _recompressed(records, header, config)
    if header.size > config.segment_bytes:
        raise KafkaError(
            ErrorCode.RECORD_LIST_TOO_LARGE, f"{header.size} bytes do not fit into a segment of {config.segment_bytes}"
        )
    if config.log_append_time:
        header = stamp_log_append_time(records, 0, header, now_ms)
    else:
        if header.max_timestamp < header.base_timestamp:
            # Some clients never set it, and the time index rests on it.
            header = correct_max_timestamp(records, 0, header)
        _check_timestamps(header, config, now_ms)
    return records, header


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
    records = memoryview(recompress(records, codec, _level(config, codec)))
    header = read_header(records)
    _check_size(header, config)
    return records, header


def _level(config: TopicConfig, codec: Codec) -> int | None:
    attribute = _LEVEL_OF.get(codec)
    return None if attribute is None else int(getattr(config, attribute))


def _check_timestamps(header: BatchHeader, config: TopicConfig, now_ms: int) -> None:
    if header.max_timestamp > now_ms + config.message_timestamp_after_max_ms:
        raise KafkaError(
            ErrorCode.INVALID_TIMESTAMP,
            f"timestamp {header.max_timestamp} is more than message.timestamp.after.max.ms ahead of the broker's clock",
        )
    if 0 <= header.base_timestamp < now_ms - config.message_timestamp_before_max_ms:
        raise KafkaError(
            ErrorCode.INVALID_TIMESTAMP,
            f"timestamp {header.base_timestamp} is more than message.timestamp.before.max.ms behind the broker's clock",
        )
