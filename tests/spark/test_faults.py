"""Queries that are killed, and brokers that go away under them."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Self

import pytest

from tests.compat.processes import BrokerProcess
from tests.spark import tables, topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 6000

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark"), pytest.mark.timeout(300)]


class Query:
    """The program in `query.py`, in a process group of its own, so that its Java and Python processes die with it."""

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "tests.spark.query", *arguments]
        self._process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.running:
            self.kill()

    def wait(self) -> int:
        return self._process.wait(240)

    def kill(self) -> None:
        """-9, all of it: driver, Java and workers."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(30)

    @property
    def running(self) -> bool:
        return self._process.poll() is None


@pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once"])
def test_a_query_killed_again_and_again(bootstrap: str, tmp_path: Path, delivery: str) -> None:
    source, sink = topics.make_topic(bootstrap, 2), topics.make_topic(bootstrap, 2)
    topics.fill(bootstrap, source, [(index % 2, b"%d" % index) for index in range(ROWS)])
    arguments = (bootstrap, source, sink, str(tmp_path / "checkpoint"), delivery)
    for kills in range(2):
        with Query(*arguments) as query:
            started = topics.count(bootstrap, sink, 2)
            deadline = time.monotonic() + 120
            while query.running and topics.count(bootstrap, sink, 2) < started + 700 * (kills + 1):
                assert time.monotonic() < deadline, "the query wrote nothing"
                time.sleep(0.05)
            assert query.running, "the query ended before it could be killed"
    with Query(*arguments) as query:
        assert query.wait() == 0
    found = Counter(int(row.value or b"") for row in topics.consume(bootstrap, sink, 2, "read_committed"))
    assert sorted(found) == list(range(ROWS))
    if delivery == "exactly-once":
        assert set(found.values()) == {1}


def test_a_broker_that_is_killed_and_comes_back(spark: "SparkSession", tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "data")
    broker.start()
    try:
        bootstrap = broker.bootstrap_servers
        source, sink = topics.make_topic(bootstrap, 2), topics.make_topic(bootstrap, 2)
        topics.fill(bootstrap, source, [(index % 2, b"%d" % index) for index in range(ROWS)])
        frame = tables.stream(spark, bootstrap, source, maxOffsetsPerTrigger="500").select("value")
        writer = frame.writeStream.format("ottla").option("kafka.bootstrap.servers", bootstrap).option("topic", sink)
        writer = writer.option("delivery", "exactly-once").option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.trigger(availableNow=True).start()
        deadline = time.monotonic() + 120
        while query.isActive and len(query.recentProgress) < 2:
            assert time.monotonic() < deadline, "the query made no progress"
            time.sleep(0.05)
        broker.kill()
        broker.start()
        assert query.awaitTermination(200)
        found = topics.consume(bootstrap, sink, 2, "read_committed")
        assert sorted(int(row.value or b"") for row in found) == list(range(ROWS))
    finally:
        broker.kill()


def test_retention_overtakes_a_slow_query(spark: "SparkSession", bootstrap: str, tmp_path: Path) -> None:
    source, sink = topics.make_topic(bootstrap), topics.make_topic(bootstrap)
    topics.fill(bootstrap, source, [(0, b"%d" % index) for index in range(100)])

    def run(**more: str) -> list[int]:
        frame = tables.stream(spark, bootstrap, source, maxOffsetsPerTrigger="60", **more).select("value")
        return tables.run_to_topic(frame, bootstrap, sink, tmp_path)

    assert run() == [60, 40]
    topics.fill(bootstrap, source, [(0, b"%d" % index) for index in range(100, 200)])
    topics.delete_records(bootstrap, source, 130)
    with pytest.raises(Exception, match="failOnDataLoss"):
        run()
    run(failOnDataLoss="false")
    values = sorted(int(row.value or b"") for row in topics.consume(bootstrap, sink))
    assert values == [*range(100), *range(130, 200)]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "zstd"])
def test_every_codec_through_spark(spark: "SparkSession", bootstrap: str, codec: str) -> None:
    topic = topics.make_topic(bootstrap, 3)
    rows = [(index % 3, b"value %d " % index * 30) for index in range(5000)]
    topics.fill(bootstrap, topic, rows, **{"compression.type": codec})
    frame = tables.table(spark, bootstrap, topic, minPartitions="7")
    assert topics.digest(tables.collected(frame)) == topics.digest(topics.consume(bootstrap, topic, 3))


def test_huge_records_and_transactions_through_spark(spark: "SparkSession", bootstrap: str) -> None:
    topic = topics.make_topic(bootstrap, 2, {"max.message.bytes": "12000000"})
    topics.fill(bootstrap, topic, [(0, b"x" * 9_000_000), (1, b"")], **{"message.max.bytes": 12_000_000})
    topics.transactions(bootstrap, topic, [True, False, True], partitions=2)
    for level in ("read_committed", "read_uncommitted"):
        frame = tables.table(spark, bootstrap, topic, **{"kafka.isolation.level": level})
        expected = topics.consume(bootstrap, topic, 2, level)
        assert topics.digest(tables.collected(frame)) == topics.digest(expected)
