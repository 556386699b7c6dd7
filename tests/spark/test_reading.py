"""Ranges read from a running broker are what a plain consumer reads."""

from collections.abc import Iterator
from typing import Any

import pytest

from ottla.model import TopicPartition
from ottla.spark.data_loss import DataLoss
from ottla.spark.planning import plan_batch
from ottla.spark.ranges import OffsetRange
from ottla.spark.reading import read_range
from ottla.spark.session import Session
from tests.spark import topics
from tests.spark.topics import Row


def plan(bootstrap: str, topic: str, **more: str) -> list[OffsetRange]:
    options = topics.parsed(bootstrap, topic, **more)
    with Session(options.read) as session:
        return session.run(plan_batch(session.client, options))


def read(bootstrap: str, topic: str, **more: str) -> list[Row]:
    options = topics.parsed(bootstrap, topic, includeHeaders="true", **more)

    def batches() -> Iterator[Any]:
        for each in plan(bootstrap, topic, **more):
            yield from read_range(each, options.read)

    return topics.rows_of(batches())


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec(bootstrap: str, codec: str) -> None:
    topic = topics.make_topic(bootstrap, 2)
    values = [(index % 2, None if index % 7 == 0 else b"value %d " % index * 20) for index in range(600)]
    topics.fill(bootstrap, topic, values, **{"compression.type": codec})
    assert read(bootstrap, topic) == topics.consume(bootstrap, topic, 2)


def test_an_empty_topic(bootstrap: str) -> None:
    topic = topics.make_topic(bootstrap, 3)
    assert plan(bootstrap, topic) == []


def test_a_skewed_topic_cut_into_tasks(bootstrap: str) -> None:
    topic = topics.make_topic(bootstrap, 3)
    topics.fill(bootstrap, topic, [(0 if index % 100 else 2, b"%d" % index) for index in range(2000)])
    pieces = plan(bootstrap, topic, minPartitions="8")
    assert len(pieces) >= 8
    assert {each.topic_partition.partition for each in pieces} == {0, 2}
    assert read(bootstrap, topic, minPartitions="8") == topics.consume(bootstrap, topic, 3)
    assert read(bootstrap, topic, maxRecordsPerPartition="130") == topics.consume(bootstrap, topic, 3)


def test_records_far_larger_than_a_fetch(bootstrap: str) -> None:
    topic = topics.make_topic(bootstrap, 1, {"max.message.bytes": "12000000"})
    sizes = [10, 9_000_000, 1, 2_000_000, 0]
    topics.fill(bootstrap, topic, [(0, b"x" * size) for size in sizes], **{"message.max.bytes": 12_000_000})
    rows = read(bootstrap, topic, **{"kafka.max.partition.fetch.bytes": "100000"})
    assert topics.digest(rows) == topics.digest(topics.consume(bootstrap, topic))


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_transactions(bootstrap: str, isolation: str) -> None:
    topic = topics.make_topic(bootstrap, 2)
    topics.transactions(bootstrap, topic, [True, False, False, True, False, True], partitions=2)
    topics.fill(bootstrap, topic, [(0, b"plain"), (1, b"plain")])
    rows = read(bootstrap, topic, **{"kafka.isolation.level": isolation, "kafka.max.partition.fetch.bytes": "300"})
    assert rows == topics.consume(bootstrap, topic, 2, isolation)
    aborted = [row for row in rows if (row.value or b"").endswith(b"False")]
    assert bool(aborted) == (isolation == "read_uncommitted")


def test_log_append_time(bootstrap: str) -> None:
    topic = topics.make_topic(bootstrap, 1, {"message.timestamp.type": "LogAppendTime"})
    topics.fill(bootstrap, topic, [(0, b"a"), (0, b"b")])
    assert read(bootstrap, topic) == topics.consume(bootstrap, topic)


def test_a_range_in_the_middle_of_batches(bootstrap: str) -> None:
    topic = topics.make_topic(bootstrap)
    topics.fill(bootstrap, topic, [(0, b"%d" % index) for index in range(500)], **{"batch.num.messages": 100})
    bounds = {"startingOffsets": f'{{"{topic}":{{"0":150}}}}', "endingOffsets": f'{{"{topic}":{{"0":333}}}}'}
    assert [row.offset for row in read(bootstrap, topic, **bounds)] == list(range(150, 333))


def test_timestamps_choose_the_range(bootstrap: str) -> None:
    topic = topics.make_topic(bootstrap)
    topics.fill(bootstrap, topic, [(0, b"%d" % index) for index in range(20)])
    bounds = {"startingTimestamp": "1700000004500", "endingTimestamp": "1700000010000"}
    assert [row.offset for row in read(bootstrap, topic, **bounds)] == list(range(5, 10))


def test_offsets_that_are_gone_are_a_loss(bootstrap: str) -> None:
    topic = topics.make_topic(bootstrap)
    topics.fill(bootstrap, topic, [(0, b"%d" % index) for index in range(50)])
    topics.delete_records(bootstrap, topic, 20)
    wanted = OffsetRange(TopicPartition(topic, 0), 5, 40)
    strict = topics.parsed(bootstrap, topic).read
    with pytest.raises(DataLoss, match="failOnDataLoss"):
        list(read_range(wanted, strict))
    lenient = topics.parsed(bootstrap, topic, failOnDataLoss="false").read
    assert [row.offset for row in topics.rows_of(read_range(wanted, lenient))] == list(range(20, 40))
    assert list(read_range(wanted._replace(end=15), lenient)) == []


def test_offsets_that_do_not_exist_yet_are_waited_for(bootstrap: str) -> None:
    topic = topics.make_topic(bootstrap)
    topics.fill(bootstrap, topic, [(0, b"a")])
    patience = {"kafkaConsumer.pollTimeoutMs": "100", "kafka.fetch.max.wait.ms": "10"}
    with pytest.raises(TimeoutError, match="high watermark is 1"):
        list(read_range(OffsetRange(TopicPartition(topic, 0), 1, 2), topics.parsed(bootstrap, topic, **patience).read))
