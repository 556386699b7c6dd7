"""A topic's settings, applied to what producers send before it is appended."""

import struct

import pytest

from ottla.errors import ErrorCode
from ottla.records.builder import NewRecord, build_batch, seal
from ottla.records.format import MAX_TIMESTAMP_AT, Codec
from ottla.records.header import BatchHeader
from ottla.records.reader import read_records
from ottla.replication.intake import prepare
from tests.manual_clock import NOW_MS
from tests.records.samples import patched
from tests.replication.world import batch, expect, settings

HOUR_MS = 3_600_000
NOISE = bytes(i * i * 7919 % 251 for i in range(2000))
"""Bytes that no codec makes much smaller."""


def taken(sent: memoryview, **overrides: str) -> tuple[memoryview, BatchHeader]:
    """What a topic with these settings (`_` for `.`) makes of a batch, checked as a consumer would."""
    stored, header = prepare(sent, settings({key.replace("_", "."): text for key, text in overrides.items()}), NOW_MS)
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
    """Old versions of that client leave the field at -1; the time index and retention rest on it."""
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


# What is wrong whatever the topic says


def test_the_error_of_a_malformed_batch_reaches_the_producer() -> None:
    with expect(ErrorCode.INVALID_RECORD):
        taken(memoryview(b""))
    two = bytearray(batch(b"a")) + bytearray(batch(b"b"))
    with expect(ErrorCode.INVALID_RECORD):
        taken(memoryview(two))
