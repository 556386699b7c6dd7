"""Ranges read from a running broker are what a plain consumer reads."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.client.fetch import Fetched, Fetcher
from ottla.model import TopicPartition
from ottla.spark.bounds import BoundError
from ottla.spark.data_loss import DataLoss
from ottla.spark.options import parse_source_options
from ottla.spark.planning import plan_batch
from ottla.spark.ranges import OffsetRange
from ottla.spark.reading import read_range
from ottla.spark.selection import UnknownTopic
from ottla.spark.session import Session
from tests.compat.processes import BrokerProcess
from tests.spark import topics
from tests.spark.proxy import running_proxy
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


def test_no_more_is_fetched_than_a_range_needs(bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = topics.make_topic(bootstrap)
    topics.fill(bootstrap, topic, [(0, b"x" * 2000)] * 3000, **{"batch.size": 16_000})
    sizes: list[int] = []
    attempt = Fetcher._attempt

    async def watched(self: Fetcher, offset: int, max_bytes: int) -> Fetched:
        fetched = await attempt(self, offset, max_bytes)
        sizes.append(len(fetched.records))
        return fetched

    monkeypatch.setattr(Fetcher, "_attempt", watched)
    options = topics.parsed(bootstrap, topic).read
    wanted = OffsetRange(TopicPartition(topic, 0), 100, 1000)
    assert sum(batch.num_rows for batch in read_range(wanted, options)) == 900
    assert 900 * 2000 < sum(sizes) < 1200 * 2000
    assert len(sizes) == 2


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
    wanted = OffsetRange(TopicPartition(topic, 0), 0, 2)
    with pytest.raises(TimeoutError, match="high watermark is 1"):
        list(read_range(wanted, topics.parsed(bootstrap, topic, **patience).read))
    lenient = topics.parsed(bootstrap, topic, failOnDataLoss="false", **patience).read
    assert [row.offset for row in topics.rows_of(read_range(wanted, lenient))] == [0]


def test_a_range_that_ends_before_it_starts(bootstrap: str) -> None:
    topic = topics.make_topic(bootstrap)
    topics.fill(bootstrap, topic, [(0, b"v")] * 30)
    for bounds in (
        {"startingOffsets": f'{{"{topic}":{{"0":20}}}}', "endingOffsets": f'{{"{topic}":{{"0":10}}}}'},
        {"startingTimestamp": "1700000020000", "endingTimestamp": "1700000010000"},
    ):
        with pytest.raises(BoundError, match=f"{topic}-0 would be read from offset 20 to 10, but the end lies before"):
            plan(bootstrap, topic, **bounds)
    assert plan(bootstrap, topic, startingOffsets=f'{{"{topic}":{{"0":30}}}}') == []


def test_assigned_partitions_alone_are_read(bootstrap: str) -> None:
    first, second = topics.make_topic(bootstrap, 2), topics.make_topic(bootstrap)
    topics.fill(bootstrap, first, [(0, b"a"), (1, b"b")])
    topics.fill(bootstrap, second, [(0, b"c")])

    def assigned(text: str, **more: str) -> list[OffsetRange]:
        given = {"kafka.bootstrap.servers": bootstrap, "assign": text, **more}
        options = parse_source_options(given, streaming=False)
        with Session(options.read) as session:
            return session.run(plan_batch(session.client, options))

    wanted = f'{{"{first}":[1],"{second}":[0]}}'
    everything = sorted([OffsetRange(TopicPartition(first, 1), 0, 1), OffsetRange(TopicPartition(second, 0), 0, 1)])
    assert assigned(wanted) == everything
    assert assigned(wanted, startingOffsets=f'{{"{first}":{{"1":-2}},"{second}":{{"0":0}}}}') == everything
    with pytest.raises(BoundError, match="offsets must be given for every partition"):
        assigned(wanted, startingOffsets=f'{{"{first}":{{"0":0,"1":0}},"{second}":{{"0":0}}}}')
    with pytest.raises(UnknownTopic, match=f"partition {first}-9 does not exist"):
        assigned(f'{{"{first}":[1,9]}}')


def test_connections_that_break_while_a_range_is_read(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "data")
    with running_proxy(broker.bootstrap_servers) as proxy:
        broker.settings["advertised.listeners"] = f"PLAINTEXT://{proxy.address}"
        broker.start()
        try:
            topic = topics.make_topic(proxy.address)
            rows = [(0, b"%d" % index * 200) for index in range(3000)]
            topics.fill(proxy.address, topic, rows, **{"batch.size": 20_000})
            small = topics.parsed(proxy.address, topic, **{"kafka.max.partition.fetch.bytes": "50000"}).read
            batches = []
            before = proxy.connections
            for batch in read_range(OffsetRange(TopicPartition(topic, 0), 0, 3000), small):
                batches.append(batch)
                if len(batches) % 10 == 0:
                    proxy.cut()
            assert proxy.connections - before > 3
            expected = [row._replace(headers=()) for row in topics.consume(proxy.address, topic)]
            assert topics.rows_of(batches) == expected
        finally:
            broker.kill()
