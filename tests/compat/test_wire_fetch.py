"""Fetch, byte by byte: where it starts, how much it returns, how long it waits."""

import threading
import time
import uuid
from datetime import timedelta

import pytest
from kio.schema.errors import ErrorCode

from tests.compat import batches
from tests.compat.conftest import MakeTopic
from tests.compat.wire import TIMEOUT, connect
from tests.compat.wire_requests import fetch, fetch_one, fetch_topic, produce_one, topic_id_of

LONGER_THAN_PATIENCE_MS = round(2000 * TIMEOUT)
"""A fetch that waits for so long is answered in time only if something ends its wait."""


@pytest.mark.parametrize(
    ("offset", "expected"), [(0, [0, 5, 10]), (4, [0, 5, 10]), (5, [5, 10]), (7, [5, 10]), (14, [10])]
)
def test_an_offset_inside_a_batch_returns_the_whole_batch(
    bootstrap: str, topic: str, offset: int, expected: list[int]
) -> None:
    with connect(bootstrap) as connection:
        for _ in range(3):
            produce_one(connection, topic, batches.pack([b"v"] * 5))
        reply = fetch_one(connection, topic, offset)
        assert reply.error_code is ErrorCode.none
        assert [batch.base_offset for batch in batches.unpack(reply.records)] == expected
        assert (reply.high_watermark, reply.last_stable_offset, reply.log_start_offset) == (15, 15, 0)


def test_the_end_is_empty_and_beyond_is_out_of_range(bootstrap: str, topic: str) -> None:
    with connect(bootstrap) as connection:
        produce_one(connection, topic, batches.pack([b"v"] * 3))
        end = fetch_one(connection, topic, 3)
        assert (end.error_code, not end.records) == (ErrorCode.none, True)
        beyond = fetch_one(connection, topic, 4)
        assert (beyond.error_code, beyond.high_watermark) == (ErrorCode.offset_out_of_range, -1)
        assert fetch_one(connection, topic, -5).error_code is ErrorCode.offset_out_of_range


def test_the_first_batch_comes_whole_even_over_the_limit(bootstrap: str, topic: str) -> None:
    with connect(bootstrap) as connection:
        for _ in range(2):
            produce_one(connection, topic, batches.pack([b"x" * 10_000]))
        by_partition = fetch(connection, topics=[fetch_topic(topic, 0, max_bytes=100)])
        by_request = fetch(connection, topics=[fetch_topic(topic, 0)], max_bytes=100)
        for reply in (by_partition, by_request):
            [first] = batches.unpack(reply.responses[0].partitions[0].records)
            assert first.base_offset == 0


def test_the_limit_of_a_partition_counts(bootstrap: str, topic: str) -> None:
    with connect(bootstrap) as connection:
        for _ in range(10):
            produce_one(connection, topic, batches.pack([b"x" * 1000]))
        reply = fetch(connection, topics=[fetch_topic(topic, 0, max_bytes=3500)])
        assert len(batches.unpack(reply.responses[0].partitions[0].records)) == 3


def test_only_the_first_partition_may_exceed_the_limit(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=3)
    with connect(bootstrap) as connection:
        for partition in range(3):
            produce_one(connection, topic, batches.pack([b"x" * 5000]), partition=partition)
        asked = [{"partition": n, "fetch_offset": 0, "partition_max_bytes": 10_000_000} for n in range(3)]
        reply = fetch(connection, topics=[{"topic": topic, "partitions": asked}], max_bytes=100)
        whole = [len(batches.unpack(partition.records)) for partition in reply.responses[0].partitions]
        assert sorted(whole) == [0, 0, 1]


def test_a_fetch_at_the_end_waits_and_then_returns_empty(bootstrap: str, topic: str) -> None:
    with connect(bootstrap) as connection:
        started = time.monotonic()
        reply = fetch_one(connection, topic, 0, wait_ms=400)
        assert time.monotonic() - started >= 0.39
        assert not reply.records


def test_a_waiting_fetch_returns_as_soon_as_there_is_data(bootstrap: str, topic: str) -> None:
    with connect(bootstrap) as reader, connect(bootstrap) as writer:
        timer = threading.Timer(0.2, lambda: produce_one(writer, topic, batches.pack([b"news"])))
        timer.start()
        reply = fetch_one(reader, topic, 0, wait_ms=LONGER_THAN_PATIENCE_MS)
        assert [batch.record_count for batch in batches.unpack(reply.records)] == [1]
        timer.join()


def test_a_waiting_fetch_waits_for_enough_bytes(bootstrap: str, topic: str) -> None:
    batch = batches.pack([b"x" * 100])
    with connect(bootstrap) as reader, connect(bootstrap) as writer:
        produce_one(writer, topic, batch)
        timer = threading.Timer(0.3, lambda: produce_one(writer, topic, batch))
        timer.start()
        reply = fetch_one(reader, topic, 0, wait_ms=LONGER_THAN_PATIENCE_MS, min_bytes=2 * len(batch))
        assert len(batches.unpack(reply.records)) == 2
        timer.join()


def test_too_few_bytes_are_returned_when_the_wait_is_over(bootstrap: str, topic: str) -> None:
    with connect(bootstrap) as connection:
        produce_one(connection, topic, batches.pack([b"x"]))
        started = time.monotonic()
        reply = fetch_one(connection, topic, 0, wait_ms=300, min_bytes=100_000)
        assert time.monotonic() - started >= 0.29
        assert len(batches.unpack(reply.records)) == 1


def test_an_error_ends_the_wait(bootstrap: str, topic: str) -> None:
    with connect(bootstrap) as connection:
        reply = fetch_one(connection, topic, 99, wait_ms=LONGER_THAN_PATIENCE_MS)
        assert reply.error_code is ErrorCode.offset_out_of_range
        reply = fetch_one(connection, topic + "-missing", 0, wait_ms=LONGER_THAN_PATIENCE_MS)
        assert reply.error_code is ErrorCode.unknown_topic_or_partition


def test_other_requests_wait_behind_a_long_poll_on_the_same_connection(bootstrap: str, topic: str) -> None:
    with connect(bootstrap) as connection:
        slow = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}
        from_now = {"max_wait": timedelta(milliseconds=300), "min_bytes": 1, "session_epoch": -1}
        connection.send("fetch", 11, **from_now, topics=[{"topic": topic, "partitions": [slow]}])
        connection.send("metadata", 9, topics=[])
        assert connection.receive("fetch", 11).error_code is ErrorCode.none
        assert connection.receive("metadata", 9).brokers


@pytest.mark.parametrize("version", range(4, 13))
def test_every_version_by_name(bootstrap: str, topic: str, version: int) -> None:
    with connect(bootstrap) as connection:
        produce_one(connection, topic, batches.pack([b"a", b"b"]))
        fields = {"topics": [fetch_topic(topic, 0)], "max_wait": timedelta(milliseconds=0), "min_bytes": 1}
        session = {"session_id": 0, "session_epoch": -1} if version >= 7 else {}
        reply = connection.call("fetch", version, **fields, **session)
        [partition] = reply.responses[0].partitions
        assert [batch.record_count for batch in batches.unpack(partition.records)] == [2]


@pytest.mark.parametrize("version", range(13, 19))
def test_every_version_by_topic_id(bootstrap: str, topic: str, version: int) -> None:
    with connect(bootstrap) as connection:
        produce_one(connection, topic, batches.pack([b"a", b"b"]))
        asked = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1_000_000}]
        known, unknown = topic_id_of(connection, topic), uuid.uuid4()
        both = [{"topic_id": known, "partitions": asked}, {"topic_id": unknown, "partitions": asked}]
        reply = fetch(connection, version, topics=both)
        answers = {answer.topic_id: answer.partitions[0] for answer in reply.responses}
        assert [batch.record_count for batch in batches.unpack(answers[known].records)] == [2]
        assert answers[unknown].error_code is ErrorCode.unknown_topic_id


def test_a_wrong_leader_epoch_is_refused(bootstrap: str, topic: str) -> None:
    with connect(bootstrap) as connection:
        produce_one(connection, topic, batches.pack([b"a"]))
        asked = {"partition": 0, "current_leader_epoch": 1000, "fetch_offset": 0, "partition_max_bytes": 1000}
        reply = fetch(connection, topics=[{"topic": topic, "partitions": [asked]}])
        assert reply.responses[0].partitions[0].error_code is ErrorCode.unknown_leader_epoch


def test_offsets_before_the_log_start_are_out_of_range(bootstrap: str, topic: str) -> None:
    with connect(bootstrap) as connection:
        produce_one(connection, topic, batches.pack([b"v"] * 10))
        cut = {"name": topic, "partitions": [{"partition_index": 0, "offset": 6}]}
        connection.call("delete_records", 2, topics=[cut], timeout=timedelta(milliseconds=5000))
        before = fetch_one(connection, topic, 5)
        assert before.error_code is ErrorCode.offset_out_of_range
        after = fetch_one(connection, topic, 6)
        assert (after.error_code, after.log_start_offset) == (ErrorCode.none, 6)
        assert [batch.base_offset for batch in batches.unpack(after.records)] == [0]
