"""Produce, byte by byte: sequence numbers, limits, checksums and what a broker must refuse."""

import struct
import uuid
from datetime import timedelta

import pytest
from kio.schema.errors import ErrorCode

from tests.compat import batches
from tests.compat.confluent_client import produce, values
from tests.compat.conftest import MakeTopic
from tests.compat.wire import connect
from tests.compat.wire_requests import fetch_one, new_producer, produce_one, topic_id_of


def test_producer_ids_are_never_given_twice(bootstrap: str) -> None:
    with connect(bootstrap) as connection:
        ids = [new_producer(connection) for _ in range(20)]
    assert len(set(ids)) == 20
    assert {epoch for _, epoch in ids} == {0}


def test_a_repeated_sequence_is_answered_with_the_first_offset(bootstrap: str, topic: str) -> None:
    with connect(bootstrap) as connection:
        producer, epoch = new_producer(connection)
        sent = [
            batches.pack([b"a", b"b"], producer_id=producer, producer_epoch=epoch, sequence=2 * n) for n in range(4)
        ]
        assert [produce_one(connection, topic, batch).base_offset for batch in sent] == [0, 2, 4, 6]
        for batch, offset in zip(sent, [0, 2, 4, 6], strict=True):
            again = produce_one(connection, topic, batch)
            assert (again.error_code, again.base_offset) == (ErrorCode.none, offset)
        assert fetch_one(connection, topic, 0).high_watermark == 8


def test_a_gap_in_the_sequence_is_refused(bootstrap: str, topic: str) -> None:
    with connect(bootstrap) as connection:
        producer, epoch = new_producer(connection)
        first = batches.pack([b"a"], producer_id=producer, producer_epoch=epoch, sequence=0)
        gap = batches.pack([b"c"], producer_id=producer, producer_epoch=epoch, sequence=2)
        assert produce_one(connection, topic, first).error_code is ErrorCode.none
        assert produce_one(connection, topic, gap).error_code is ErrorCode.out_of_order_sequence_number
        assert fetch_one(connection, topic, 0).high_watermark == 1


def test_an_old_epoch_is_fenced(bootstrap: str, topic: str) -> None:
    with connect(bootstrap) as connection:
        producer, _ = new_producer(connection)
        newer = batches.pack([b"a"], producer_id=producer, producer_epoch=1, sequence=0)
        older = batches.pack([b"b"], producer_id=producer, producer_epoch=0, sequence=1)
        assert produce_one(connection, topic, newer).error_code is ErrorCode.none
        assert produce_one(connection, topic, older).error_code is ErrorCode.invalid_producer_epoch


def test_a_new_epoch_starts_at_sequence_zero(bootstrap: str, topic: str) -> None:
    with connect(bootstrap) as connection:
        producer, _ = new_producer(connection)
        old = batches.pack([b"a"], producer_id=producer, producer_epoch=0, sequence=0)
        wrong = batches.pack([b"b"], producer_id=producer, producer_epoch=1, sequence=1)
        right = batches.pack([b"b"], producer_id=producer, producer_epoch=1, sequence=0)
        assert produce_one(connection, topic, old).error_code is ErrorCode.none
        assert produce_one(connection, topic, wrong).error_code is ErrorCode.out_of_order_sequence_number
        assert produce_one(connection, topic, right).base_offset == 1


def test_sequences_are_kept_for_each_partition(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=2)
    with connect(bootstrap) as connection:
        producer, epoch = new_producer(connection)
        batch = batches.pack([b"a"], producer_id=producer, producer_epoch=epoch, sequence=0)
        assert [produce_one(connection, topic, batch, partition=n).base_offset for n in (0, 1)] == [0, 0]


def test_the_limit_is_the_size_of_the_whole_batch(bootstrap: str, make_topic: MakeTopic) -> None:
    fits = batches.pack([b"x" * 1000])
    topic = make_topic(config={"max.message.bytes": str(len(fits))})
    with connect(bootstrap) as connection:
        assert produce_one(connection, topic, fits).error_code is ErrorCode.none
        refused = produce_one(connection, topic, batches.pack([b"x" * 1001]))
        assert (refused.error_code, refused.base_offset) == (ErrorCode.message_too_large, -1)


@pytest.mark.parametrize(
    ("position", "replacement", "error"),
    [
        (-1, b"\xff", ErrorCode.corrupt_message),
        (17, b"\x00\x00\x00\x00", ErrorCode.corrupt_message),
        (8, struct.pack(">i", 10), ErrorCode.corrupt_message),
    ],
    ids=["flipped-byte", "wrong-checksum", "length-too-small"],
)
def test_a_damaged_batch_is_refused(
    bootstrap: str, topic: str, position: int, replacement: bytes, error: ErrorCode
) -> None:
    batch = bytearray(batches.pack([b"value"]))
    start = position % len(batch)
    batch[start : start + len(replacement)] = replacement
    with connect(bootstrap) as connection:
        assert produce_one(connection, topic, bytes(batch)).error_code is error
        assert produce_one(connection, topic, batches.pack([b"fine"])).base_offset == 0


def test_two_batches_in_one_request_are_refused(bootstrap: str, topic: str) -> None:
    both = batches.pack([b"a"]) + batches.pack([b"b"])
    with connect(bootstrap) as connection:
        assert produce_one(connection, topic, both).error_code is ErrorCode.invalid_record


def test_only_three_levels_of_acks_exist(bootstrap: str, topic: str) -> None:
    with connect(bootstrap) as connection:
        reply = produce_one(connection, topic, batches.pack([b"a"]), acks=2)
        assert reply.error_code is ErrorCode.invalid_required_acks


def test_without_acks_there_is_no_reply(bootstrap: str, topic: str) -> None:
    with connect(bootstrap) as connection:
        partition = {"index": 0, "records": batches.pack([b"silent"])}
        fields = {"acks": 0, "timeout": timedelta(seconds=10), "transactional_id": None}
        connection.send("produce", 9, **fields, topic_data=[{"name": topic, "partition_data": [partition]}])
        assert produce_one(connection, topic, batches.pack([b"loud"])).base_offset == 1


def test_an_unknown_partition_is_refused(bootstrap: str, topic: str) -> None:
    with connect(bootstrap) as connection:
        refused = produce_one(connection, topic, batches.pack([b"a"]), partition=9)
        assert refused.error_code is ErrorCode.unknown_topic_or_partition


def test_version_13_names_topics_by_id(bootstrap: str, topic: str) -> None:
    with connect(bootstrap) as connection:
        topic_id = topic_id_of(connection, topic)
        assert produce_one(connection, topic_id, batches.pack([b"a"]), version=13).base_offset == 0
        unknown = produce_one(connection, uuid.uuid4(), batches.pack([b"a"]), version=13)
        assert unknown.error_code is ErrorCode.unknown_topic_id


@pytest.mark.parametrize("version", range(3, 13))
def test_every_version_stores_the_batch(bootstrap: str, topic: str, version: int) -> None:
    with connect(bootstrap) as connection:
        reply = produce_one(connection, topic, batches.pack([b"a", b"b"]), version=version)
        assert (reply.error_code, reply.base_offset) == (ErrorCode.none, 0)
        assert [b.record_count for b in batches.unpack(fetch_one(connection, topic, 0).records)] == [2]


def test_log_append_time_is_told_to_the_producer(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(config={"message.timestamp.type": "LogAppendTime"})
    with connect(bootstrap) as connection:
        reply = produce_one(connection, topic, batches.pack([b"a"], timestamps=[1000]))
        assert reply.log_append_time is not None
        [stored] = batches.unpack(fetch_one(connection, topic, 0).records)
        assert stored.attributes & 0x08
        assert stored.max_timestamp == int(reply.log_append_time.timestamp() * 1000)


@pytest.mark.parametrize("codec", sorted(batches.CODECS))
def test_batches_are_kept_in_the_codec_they_came_in(bootstrap: str, topic: str, codec: str) -> None:
    produce(bootstrap, topic, values(30), compression_type=codec, linger_ms=50)
    with connect(bootstrap) as connection:
        stored = batches.unpack(fetch_one(connection, topic, 0).records)
    assert {batch.codec for batch in stored} == {batches.CODECS[codec]}


@pytest.mark.parametrize(("wanted", "sent"), [("gzip", "lz4"), ("uncompressed", "zstd"), ("zstd", "none")])
def test_a_topic_may_ask_for_its_own_codec(bootstrap: str, make_topic: MakeTopic, wanted: str, sent: str) -> None:
    topic = make_topic(config={"compression.type": wanted})
    produce(bootstrap, topic, values(30), compression_type=sent, linger_ms=50)
    with connect(bootstrap) as connection:
        stored = batches.unpack(fetch_one(connection, topic, 0).records)
    assert {batch.codec for batch in stored} == {batches.CODECS.get(wanted, 0)}
    assert sum(batch.record_count for batch in stored) == 30


def test_a_record_without_a_key_is_refused_on_a_compacted_topic(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(config={"cleanup.policy": "compact"})
    with connect(bootstrap) as connection:
        assert produce_one(connection, topic, batches.pack([b"no key"])).error_code is ErrorCode.invalid_record


def test_a_timestamp_far_in_the_future_is_refused(bootstrap: str, topic: str) -> None:
    with connect(bootstrap) as connection:
        reply = produce_one(connection, topic, batches.pack([b"a"], timestamps=[4_000_000_000_000]))
        assert reply.error_code is ErrorCode.invalid_timestamp


@pytest.mark.parametrize("version", [7, 8, 9, 12])
def test_a_compacted_topic_names_the_records_without_a_key(bootstrap: str, make_topic: MakeTopic, version: int) -> None:
    topic = make_topic(config={"cleanup.policy": "compact"})
    with connect(bootstrap) as connection:
        keys = [b"a", None, b"b", None]
        answer = produce_one(connection, topic, batches.pack([b"v"] * 4, keys=keys), version=version)
        assert (answer.error_code, answer.base_offset) == (ErrorCode.invalid_record, -1)
        if version >= 8:
            text = f"Compacted topic cannot accept message without key in topic partition {topic}-0"
            errors = [(error.batch_index, error.batch_index_error_message) for error in answer.record_errors]
            assert errors == [(1, text), (3, text)]
            shown = ", ".join(f"RecordError(batchIndex={index}, message='{text}')" for index in (1, 3))
            assert answer.error_message == (
                "One or more records have been rejected due to 2 record errors in total, and only showing the first"
                f" three errors at most: [{shown}]"
            )


def test_timestamps_out_of_range_are_named(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(config={"message.timestamp.after.max.ms": "1000"})
    late = 4_000_000_000_000
    with connect(bootstrap) as connection:
        sent = batches.pack([b"v"] * 3, timestamps=[late, 1_700_000_000_000, late + 1])
        answer = produce_one(connection, topic, sent)
        assert answer.error_code is ErrorCode.invalid_timestamp
        assert answer.error_message == "One or more records have been rejected due to invalid timestamp"
        assert [error.batch_index for error in answer.record_errors] == [0, 2]
        [first, second] = [error.batch_index_error_message for error in answer.record_errors]
        assert first.startswith(f"Timestamp {late} of message with offset 0 is out of range. The timestamp should be ")
        assert second.startswith(f"Timestamp {late + 1} of message with offset 2 is out of range.")
        assert produce_one(connection, topic, batches.pack([b"v"])).base_offset == 0
