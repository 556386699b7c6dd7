"""The topic settings that apply to a producer's batch before the append."""

import struct
import tracemalloc
from collections.abc import Sequence

import pytest

from ottla.errors import ErrorCode, KafkaError
from ottla.records.builder import NewRecord, build_batch, seal
from ottla.records.compression import compress
from ottla.records.format import MAX_TIMESTAMP_AT, Codec
from ottla.records.header import BatchHeader
from ottla.records.reader import read_records
from ottla.records.validate import MAX_RECORD_ERRORS
from ottla.records.varint import encode_varint
from ottla.replication.intake import InspectionNeeded, inspect, prepare
from tests.manual_clock import NOW_MS
from tests.records.samples import patched, with_payload
from tests.replication.world import CLICKS, batch, expect, settings

HOUR_MS = 3_600_000
NOISE = bytes(i * i * 7919 % 251 for i in range(2000))
"""Bytes that no codec can compress much."""


def taken(sent: memoryview, **overrides: str) -> tuple[memoryview, BatchHeader]:
    """The batch after a topic with these settings (`_` for `.`) has processed it, checked as by a consumer."""
    config = settings({key.replace("_", "."): text for key, text in overrides.items()})
    try:
        stored, header = prepare(sent, config, NOW_MS)
    except InspectionNeeded:
        stored, header = prepare(inspect(sent, config, NOW_MS, CLICKS), config, NOW_MS, inspected=True)
    assert header.size == len(stored)
    copy = bytearray(stored)
    assert seal(copy) == header.crc == int.from_bytes(stored[17:21], "big"), "the checksum must fit the stored bytes"
    return stored, header


# Size


def test_max_message_bytes_is_the_size_of_the_batch() -> None:
    sent = batch(b"a" * 100)
    taken(sent, max_message_bytes=str(len(sent)))
    with expect(ErrorCode.MESSAGE_TOO_LARGE):
        taken(batch(b"a" * 100), max_message_bytes=str(len(sent) - 1))


def test_a_batch_has_to_fit_into_a_segment() -> None:
    large = 1 << 20
    with expect(ErrorCode.RECORD_LIST_TOO_LARGE):
        taken(batch(bytes(large)), max_message_bytes=str(2 * large), segment_bytes=str(large))


def test_the_limit_holds_for_what_was_sent_even_if_it_would_shrink() -> None:
    with expect(ErrorCode.MESSAGE_TOO_LARGE):
        taken(batch(bytes(10_000)), max_message_bytes="5000", compression_type="zstd")


def test_the_limit_holds_for_what_it_grows_to() -> None:
    sent = batch(bytes(10_000), codec=Codec.ZSTD)
    assert len(sent) < 200
    with expect(ErrorCode.MESSAGE_TOO_LARGE):
        taken(sent, max_message_bytes="5000", compression_type="uncompressed")


# Compression


@pytest.mark.parametrize("sent", Codec)
@pytest.mark.parametrize("name", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_recompressed_to_what_the_topic_asks_for(sent: Codec, name: str) -> None:
    records = [NewRecord(b"k%d" % i, NOISE, (("h", b"v"),), NOW_MS + i) for i in range(3)]
    original = build_batch(records, codec=sent, producer_id=7, producer_epoch=2, base_sequence=5)
    stored, header = taken(memoryview(bytearray(original)), compression_type=name)
    assert header.codec is Codec.named(name)
    assert read_records(stored) == read_records(original)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 2, 5)
    if sent is header.codec:
        assert bytes(stored) == bytes(original), "a batch that has the right codec is kept as it was sent"


@pytest.mark.parametrize("codec", Codec)
def test_kept_as_sent_by_default(codec: Codec) -> None:
    sent = batch(b"a", b"b", codec=codec)
    before = bytes(sent)
    stored, _ = taken(sent)
    assert bytes(stored) == before


@pytest.mark.parametrize(("name", "weak", "strong"), [("gzip", "1", "9"), ("zstd", "1", "19"), ("lz4", "1", "17")])
def test_the_level_of_the_topic_is_used(name: str, weak: str, strong: str) -> None:
    text = b" ".join(b"%d bottles of beer on the wall" % (i * 7 % 100) for i in range(2000))
    low, _ = taken(batch(text), compression_type=name, **{f"compression_{name}_level": weak})
    high, _ = taken(batch(text), compression_type=name, **{f"compression_{name}_level": strong})
    assert bytes(low) != bytes(high)
    assert read_records(low) == read_records(high)


def test_what_cannot_be_decompressed_cannot_be_recompressed() -> None:
    sent = bytearray(batch(NOISE, codec=Codec.GZIP))
    sent[100:200] = bytes(100)
    seal(sent)
    with expect(ErrorCode.CORRUPT_MESSAGE):
        taken(memoryview(sent), compression_type="zstd")


# Time


def test_create_time_keeps_the_producers_timestamps() -> None:
    stored, header = taken(batch(timestamp=NOW_MS - 5000))
    assert not header.log_append_time
    assert [record.timestamp for record in read_records(stored)] == [NOW_MS - 5000]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_log_append_time_is_the_brokers_clock(codec: Codec) -> None:
    stored, header = taken(batch(b"a", b"b", timestamp=1, codec=codec), message_timestamp_type="LogAppendTime")
    assert header.log_append_time
    assert header.max_timestamp == NOW_MS
    assert [record.timestamp for record in read_records(stored)] == [NOW_MS, NOW_MS]


def test_log_append_time_after_recompression() -> None:
    stored, header = taken(batch(timestamp=1), message_timestamp_type="LogAppendTime", compression_type="zstd")
    assert header.codec is Codec.ZSTD
    assert [record.timestamp for record in read_records(stored)] == [NOW_MS]


def test_log_append_time_asks_nobody_for_a_plausible_timestamp() -> None:
    bounds = {"message_timestamp_before_max_ms": "1", "message_timestamp_after_max_ms": "1"}
    taken(batch(timestamp=NOW_MS + HOUR_MS), message_timestamp_type="LogAppendTime", **bounds)


def test_a_timestamp_may_be_an_hour_ahead_by_default() -> None:
    taken(batch(timestamp=NOW_MS + HOUR_MS))
    with expect(ErrorCode.INVALID_TIMESTAMP):
        taken(batch(timestamp=NOW_MS + HOUR_MS + 1))


def test_a_timestamp_may_be_as_old_as_it_likes_by_default() -> None:
    taken(batch(timestamp=0))


def test_the_bounds_of_the_topic() -> None:
    bounds = {"message_timestamp_before_max_ms": "1000", "message_timestamp_after_max_ms": "2000"}
    taken(batch(timestamp=NOW_MS - 1000), **bounds)
    taken(batch(timestamp=NOW_MS + 2000), **bounds)
    with expect(ErrorCode.INVALID_TIMESTAMP):
        taken(batch(timestamp=NOW_MS - 1001), **bounds)
    with expect(ErrorCode.INVALID_TIMESTAMP):
        taken(batch(timestamp=NOW_MS + 2001), **bounds)


def test_a_record_without_a_timestamp_is_not_an_old_one() -> None:
    _, header = taken(batch(timestamp=-1), message_timestamp_before_max_ms="1000")
    assert header.max_timestamp == -1


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.SNAPPY])
def test_saramas_missing_max_timestamp_is_filled_in(codec: Codec) -> None:
    """Old versions of that client leave the field at -1. The time index and retention need it."""
    records = [NewRecord(None, b"v", (), NOW_MS + ahead) for ahead in (0, 30, 10)]
    sent = patched(build_batch(records, codec=codec), MAX_TIMESTAMP_AT, ">q", -1)
    stored, header = taken(memoryview(sent))
    assert header.max_timestamp == NOW_MS + 30
    assert struct.unpack_from(">q", stored, MAX_TIMESTAMP_AT) == (NOW_MS + 30,)
    assert [record.timestamp for record in read_records(stored)] == [NOW_MS, NOW_MS + 30, NOW_MS + 10]


def test_a_missing_max_timestamp_does_not_get_around_the_bounds() -> None:
    records = [NewRecord(None, b"v", (), NOW_MS + 2 * HOUR_MS)]
    sent = patched(build_batch(records), MAX_TIMESTAMP_AT, ">q", -1)
    with expect(ErrorCode.INVALID_TIMESTAMP):
        taken(memoryview(sent))


# Compacted topics


@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_a_compacted_topic_wants_keys(policy: str, codec: Codec) -> None:
    taken(batch(b"a", key=b"k", codec=codec), cleanup_policy=policy)
    taken(batch(b"a", key=b"", codec=codec), cleanup_policy=policy)
    with expect(ErrorCode.INVALID_RECORD):
        taken(batch(b"a", codec=codec), cleanup_policy=policy)


def test_other_topics_do_without_keys() -> None:
    taken(batch(b"a"), cleanup_policy="delete")


# Opening a batch


def keyed(*keys: bytes | None, timestamps: Sequence[int] | None = None, codec: Codec = Codec.NONE) -> memoryview:
    times = timestamps or [NOW_MS] * len(keys)
    records = [NewRecord(key, b"v", (), time) for key, time in zip(keys, times, strict=True)]
    return memoryview(build_batch(records, codec=codec))


@pytest.mark.parametrize(
    ("sent", "overrides"),
    [
        pytest.param(keyed(b"k"), {"cleanup.policy": "compact"}, id="compacted"),
        pytest.param(keyed(b"k"), {"compression.type": "zstd"}, id="other codec"),
        pytest.param(memoryview(patched(bytes(keyed(b"k")), MAX_TIMESTAMP_AT, ">q", -1)), {}, id="no max timestamp"),
        pytest.param(keyed(b"k", timestamps=[NOW_MS + 2 * HOUR_MS]), {}, id="in the future"),
        pytest.param(keyed(b"k"), {"cleanup.policy": "compact", "message.timestamp.type": "LogAppendTime"}, id="both"),
    ],
)
def test_a_batch_is_not_opened_on_the_event_loop(sent: memoryview, overrides: dict[str, str]) -> None:
    before = bytes(sent)
    with pytest.raises(InspectionNeeded):
        prepare(sent, settings(overrides), NOW_MS)
    assert bytes(sent) == before


@pytest.mark.parametrize(
    "overrides",
    [
        {},
        {"message.timestamp.type": "LogAppendTime"},
        {"compression.type": "uncompressed"},
        {"max.message.bytes": "10000"},
    ],
)
def test_other_batches_need_not_be_opened(overrides: dict[str, str]) -> None:
    prepare(keyed(None), settings(overrides), NOW_MS)


def test_a_batch_that_is_too_large_is_refused_before_it_is_opened() -> None:
    with expect(ErrorCode.MESSAGE_TOO_LARGE):
        prepare(keyed(b"k" * 1000), settings({"cleanup.policy": "compact", "max.message.bytes": "1000"}), NOW_MS)


def rejection(sent: memoryview, **overrides: str) -> KafkaError:
    with pytest.raises(KafkaError) as refused:
        taken(sent, **overrides)
    return refused.value


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_every_record_without_a_key_is_named(codec: Codec) -> None:
    """Apache Kafka 4.3.1 returns these texts (KIP-467)."""
    error = rejection(keyed(b"a", None, b"b", None, codec=codec), cleanup_policy="compact")
    text = "Compacted topic cannot accept message without key in topic partition clicks-0"
    assert error.code is ErrorCode.INVALID_RECORD
    assert error.record_errors == [(1, text), (3, text)]
    assert error.message == (
        "One or more records have been rejected due to 2 record errors in total, and only showing the first three"
        f" errors at most: [RecordError(batchIndex=1, message='{text}'), RecordError(batchIndex=3, message='{text}')]"
    )


def test_only_so_many_records_are_named() -> None:
    error = rejection(keyed(*[None] * 5000), cleanup_policy="compact")
    assert [index for index, _ in error.record_errors] == list(range(MAX_RECORD_ERRORS))
    assert error.message is not None
    assert "due to 5000 record errors in total" in error.message


def test_every_record_with_a_bad_timestamp_is_named() -> None:
    late = NOW_MS + 2 * HOUR_MS
    error = rejection(keyed(b"a", b"b", b"c", timestamps=[late, NOW_MS, late + 1]), cleanup_policy="compact")
    assert error.code is ErrorCode.INVALID_TIMESTAMP
    assert error.message == "One or more records have been rejected due to invalid timestamp"
    assert [index for index, _ in error.record_errors] == [0, 2]
    assert error.record_errors[1][1].startswith(
        f"Timestamp {late + 1} of message with offset 2 is out of range. The timestamp should be within ["
    )


def test_a_maximum_timestamp_that_no_record_has_is_corrected() -> None:
    """Kafka does not trust the header either."""
    sent = patched(bytes(keyed(b"a", b"b")), MAX_TIMESTAMP_AT, ">q", NOW_MS + 2 * HOUR_MS)
    _, header = taken(memoryview(sent))
    assert header.max_timestamp == NOW_MS


def test_headers_are_checked_without_being_kept() -> None:
    """A record with millions of headers compresses to a few bytes. As objects they would take gigabytes."""
    count = 200_000
    headers = encode_varint(count) + b"\x00\x01" * count
    body = b"\x00\x00\x00" + encode_varint(1) + b"k" + encode_varint(-1) + headers
    empty = build_batch([NewRecord(b"k", None, (), NOW_MS)], codec=Codec.ZSTD)
    sent = with_payload(empty, compress(Codec.ZSTD, encode_varint(len(body)) + body))
    assert len(sent) < 1000
    tracemalloc.start()
    taken(memoryview(sent), cleanup_policy="compact")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 5 * len(body)


# Errors that do not depend on the topic


def test_the_error_of_a_malformed_batch_reaches_the_producer() -> None:
    with expect(ErrorCode.INVALID_RECORD):
        taken(memoryview(b""))
    two = bytearray(batch(b"a")) + bytearray(batch(b"b"))
    with expect(ErrorCode.INVALID_RECORD):
        taken(memoryview(two))
