"""Queries that are killed, and brokers that go away under them."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.compat.deadlines import eventually
from tests.compat.processes import BrokerProcess
from tests.spark import tables, topics
from tests.spark.gate import SMALL_BATCHES, Gate
from tests.spark.query import QueryProcess, Settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1500)]

PARTITION_ROWS = 400
BATCH_ROWS = 100
"""Of each of the two partitions, in one micro-batch."""
HELD_PARTITION, HELD_OFFSET = 1, BATCH_ROWS + 80
"""In the middle of the second micro-batch of one task, while the other task comes to its end."""
PATIENCE = 600.0


def fill(bootstrap: str, topic: str) -> None:
    """Numbers, followed by enough to fill the buffers between processes."""
    rows = range(2 * PARTITION_ROWS)
    topics.fill(bootstrap, topic, [(index % 2, b"%d %s" % (index, b"x" * 4000)) for index in rows])


def numbers(bootstrap: str, topic: str) -> Counter[int]:
    """How often each number can be read by somebody who reads what is committed."""
    rows = topics.consume(bootstrap, topic, 2, "read_committed")
    return Counter(int((row.value or b"").split()[0]) for row in rows)


def assert_exact(found: Counter[int]) -> None:
    assert found == Counter(range(2 * PARTITION_ROWS))


def in_the_middle(bootstrap: str, sink: str) -> bool:
    """One task has written its rows of the second micro-batch; the other some of them."""
    finished = [row for row in topics.consume(bootstrap, sink, 2, "read_committed") if row.partition == 0]
    return len(finished) == 2 * BATCH_ROWS and topics.ends(bootstrap, sink, 2)[1] > BATCH_ROWS + 10


@pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once"])
def test_a_driver_killed_in_the_middle_of_a_batch(bootstrap: str, tmp_path: Path, delivery: str) -> None:
    source, sink = topics.make_topic(bootstrap, 2), topics.make_topic(bootstrap, 2)
    fill(bootstrap, source)
    path = tmp_path / "gate"
    settings = Settings(bootstrap, source, sink, str(tmp_path / "checkpoint"), delivery, limit=2 * BATCH_ROWS)
    path.touch()
    with QueryProcess(replace(settings, gate=(str(path), HELD_PARTITION, HELD_OFFSET))) as query:
        eventually(lambda: not query.running or in_the_middle(bootstrap, sink), PATIENCE, 0.5)
        assert query.running, query.said()
        query.kill()
    with QueryProcess(settings) as query:
        query.finish()
    found = numbers(bootstrap, sink)
    if delivery == "exactly-once":
        assert_exact(found)
    else:
        assert sorted(found) == list(range(2 * PARTITION_ROWS))
        again = range(2 * BATCH_ROWS, 4 * BATCH_ROWS, 2)
        assert {found[index] for index in again} == {2}, "what the finished task wrote is written again"


def gated_query(frame: "DataFrame", bootstrap: str, sink: str, gate: Gate, checkpoint: Path, **more: str) -> Any:
    """Runs until what is there is done, and stops for the gate."""
    gate.close()
    options = {"kafka.bootstrap.servers": bootstrap, "topic": sink, "checkpointLocation": str(checkpoint), **more}
    writer: Any = gate.across(frame).select("value", "partition").writeStream.format("ottla").options(**options)
    for key, value in SMALL_BATCHES.items():
        frame.sparkSession.conf.set(key, value)
    try:
        return writer.trigger(availableNow=True).start()
    finally:
        for key in SMALL_BATCHES:
            frame.sparkSession.conf.unset(key)


def test_a_broker_killed_in_the_middle_of_a_batch(spark: "SparkSession", tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "data")
    broker.start()
    try:
        bootstrap = broker.bootstrap_servers
        source, sink = topics.make_topic(bootstrap, 2), topics.make_topic(bootstrap, 2)
        fill(bootstrap, source)
        frame = tables.stream(spark, bootstrap, source, maxOffsetsPerTrigger=str(2 * BATCH_ROWS))
        gate = Gate(tmp_path / "gate", HELD_PARTITION, HELD_OFFSET)
        query = gated_query(frame, bootstrap, sink, gate, tmp_path / "checkpoint", delivery="exactly-once")
        eventually(lambda: not query.isActive or in_the_middle(bootstrap, sink), PATIENCE, 0.5)
        assert query.isActive, query.exception()
        broker.kill()
        broker.start()
        gate.open()
        assert query.awaitTermination(PATIENCE)
        assert_exact(numbers(bootstrap, sink))
    finally:
        broker.kill()


@pytest.mark.parametrize("fail", ["true", "false"])
def test_retention_overtakes_a_slow_query(spark: "SparkSession", bootstrap: str, tmp_path: Path, fail: str) -> None:
    source, sink = topics.make_topic(bootstrap, 2), topics.make_topic(bootstrap, 2)
    fill(bootstrap, source)
    limit = str(2 * BATCH_ROWS)
    frame = tables.stream(spark, bootstrap, source, maxOffsetsPerTrigger=limit, failOnDataLoss=fail)
    gate = Gate(tmp_path / "gate", HELD_PARTITION, HELD_OFFSET)
    query = gated_query(frame, bootstrap, sink, gate, tmp_path / "checkpoint")
    eventually(lambda: not query.isActive or in_the_middle(bootstrap, sink), PATIENCE, 0.5)
    topics.delete_records(bootstrap, source, 2 * BATCH_ROWS + 50, partition=1)
    gate.open()
    before, lost = range(2 * BATCH_ROWS), range(2 * BATCH_ROWS, 2 * BATCH_ROWS + 50)
    if fail == "true":
        complaint = f"{source}-1 no longer has the offsets from {lost.start} on .* set failOnDataLoss to false"
        with pytest.raises(Exception, match=complaint):
            query.awaitTermination(PATIENCE)
        written = {number // 2 for number in numbers(bootstrap, sink) if number % 2}
        assert written == set(before)
    else:
        assert query.awaitTermination(PATIENCE)
        expected = [
            *range(0, 2 * PARTITION_ROWS, 2),
            *(2 * index + 1 for index in range(PARTITION_ROWS) if index not in lost),
        ]
        assert numbers(bootstrap, sink) == Counter(expected)


def test_foreach_batch_is_exactly_once_by_name(spark: "SparkSession", bootstrap: str, tmp_path: Path) -> None:
    """The query dies after its function has written a batch, and before Spark notes it: the batch comes again."""
    source, sink = topics.make_topic(bootstrap, 2), topics.make_topic(bootstrap, 2)
    fill(bootstrap, source)
    calls: list[int] = []

    def write(batch: "DataFrame", batch_id: int) -> None:
        named = {"delivery": "exactly-once", "queryId": f"copy-{sink}", "batchId": str(batch_id), "topic": sink}
        writer = batch.select("value").write.format("ottla").options(**named)
        writer.option("kafka.bootstrap.servers", bootstrap).mode("append").save()
        calls.append(batch_id)
        if calls == [0, 1]:
            raise RuntimeError("the query dies")

    def run() -> None:
        frame = tables.stream(spark, bootstrap, source, maxOffsetsPerTrigger=str(PARTITION_ROWS))
        writer: Any = frame.writeStream.foreachBatch(write).option("checkpointLocation", str(tmp_path))
        writer.trigger(availableNow=True).start().awaitTermination()

    with pytest.raises(Exception, match="the query dies"):
        run()
    run()
    assert calls == [0, 1, 1]
    assert_exact(numbers(bootstrap, sink))


def test_a_stream_that_makes_no_sense_says_so(spark: "SparkSession", bootstrap: str, tmp_path: Path) -> None:
    topic = topics.make_topic(bootstrap)
    for options, complaint in (
        ({"endingOffsets": "latest"}, "OptionError: endingOffsets is only for batch queries; a stream has no end"),
        ({"maxOffsetPerTrigger": "5"}, "(?i)has no option 'maxOffsetPerTrigger'"),
        ({"subscribe": "no-such-topic"}, "topic no-such-topic does not exist"),
    ):
        frame = tables.stream(spark, bootstrap, topic, **options)
        with pytest.raises(Exception, match=complaint) as raised:
            frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).start().awaitTermination()
        assert "UnboundLocalError" not in str(raised.value)


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
