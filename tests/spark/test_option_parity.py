"""The options of Spark's own Kafka connector, one by one: the same rows in the same tasks and micro-batches, or an
error about the same thing.

`OTTLA_COMPAT_BOOTSTRAP=host:port` has both read from Apache Kafka instead.
"""

import json
import re
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.compat.deadlines import eventually
from tests.spark import topics
from tests.spark.sessions import CONNECTOR_JARS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not CONNECTOR_JARS, reason="OTTLA_SPARK_JARS does not say where the connector's jars are"),
    pytest.mark.timeout(240),
]

SOURCES = ("kafka", "ottla")
FIRST = 1_700_000_000_000
"""The timestamp of the first record; the others follow at a distance of a second."""
IMPATIENT = {"kafka.request.timeout.ms": "2000", "kafka.default.api.timeout.ms": "4000"}
EVERYTHING = {"subscribe": "A,B", "startingOffsets": "earliest"}

Options = Mapping[str, str]


class World(NamedTuple):
    """Topics that all tests read. In the options of a test, `A`, `B` and `C` stand for their names."""

    bootstrap: str
    names: Mapping[str, str]

    def options(self, options: Options) -> dict[str, str]:
        """Those that are empty are left out. Settings of Java's consumer that make it quicker are for both."""
        given = {"kafka.bootstrap.servers": self.bootstrap, "kafka.fetch.max.wait.ms": "10", **options}
        return {key: self._named(value) for key, value in given.items() if value}

    def _named(self, text: str) -> str:
        return re.sub(r"\b[ABC]\b", lambda letter: self.names[letter[0]], text)


_worlds: dict[str, World] = {}


@pytest.fixture
def world(bootstrap: str) -> World:
    """A: 90, 30 and no records in its partitions. B: 20, of which 5 were deleted. C: transactions, some aborted."""
    if bootstrap not in _worlds:
        prefix = uuid.uuid4().hex[:8].lower()
        names = {letter: f"parity-{prefix}-{letter.lower()}" for letter in "ABC"}
        topics.make_topic(bootstrap, 3, name=names["A"])
        topics.fill(bootstrap, names["A"], [(int(index % 4 == 3), b"%d" % index) for index in range(120)])
        topics.make_topic(bootstrap, 1, name=names["B"])
        topics.fill(bootstrap, names["B"], [(0, b"%d" % index) for index in range(20)])
        topics.delete_records(bootstrap, names["B"], 5)
        topics.make_topic(bootstrap, 2, name=names["C"])
        topics.transactions(bootstrap, names["C"], [True, False, True, False], rows=10, partitions=2)
        _worlds[bootstrap] = World(bootstrap, names)
    return _worlds[bootstrap]


def offsets(**by_topic: list[int]) -> str:
    """As JSON, for partitions from 0 on."""
    parts = [
        f'"{topic}":{{{",".join(f"{chr(34)}{index}{chr(34)}:{number}" for index, number in enumerate(numbers))}}}'
        for topic, numbers in by_topic.items()
    ]
    return f"{{{','.join(parts)}}}"


BETWEEN = {
    "subscribe": "A,B",
    "startingOffsets": offsets(A=[0, 0, 0], B=[5]),
    "endingOffsets": offsets(A=[90, 30, 0], B=[20]),
}
"""Everything, too. In a batch, Spark cuts for maxRecordsPerPartition only what has such bounds."""

BATCHES: dict[str, Options] = {
    "subscribe": {"subscribe": "A"},
    "subscribe two": {"subscribe": " A , B "},
    "subscribe case": {"SUBSCRIBE": "A", "StartingOffsets": "EARLIEST"},
    "pattern": {"subscribePattern": "A|B"},
    "pattern, part of a name": {"subscribePattern": "arity-.*-[ab]"},
    "pattern, any": {"subscribePattern": "(A|B|C).*"},
    "assign": {"assign": '{"A":[0,2],"B":[0]}'},
    "earliest": {"subscribe": "A", "startingOffsets": "earliest", "endingOffsets": "latest"},
    "offsets": {"subscribe": "A", "startingOffsets": offsets(A=[17, -2, 0])},
    "offsets at the end": {"subscribe": "A", "startingOffsets": offsets(A=[90, 30, 0])},
    "ending offsets": {"subscribe": "A", "endingOffsets": offsets(A=[50, -1, 0])},
    "both offsets": {
        "assign": '{"A":[0,1]}',
        "startingOffsets": offsets(A=[10, 5]),
        "endingOffsets": offsets(A=[11, 5]),
    },
    "timestamp": {
        "subscribe": "A",
        "startingTimestamp": str(FIRST + 30_500),
        "startingOffsetsByTimestampStrategy": "latest",
    },
    "timestamps": {
        "assign": '{"A":[0,1]}',
        "startingOffsetsByTimestamp": offsets(A=[FIRST + 50_000, FIRST + 7000]),
    },
    "timestamps, latest": {
        "subscribe": "A",
        "startingOffsetsByTimestamp": offsets(A=[FIRST, FIRST + 10**9, FIRST]),
        "startingOffsetsByTimestampStrategy": "latest",
    },
    "timestamp before offsets": {
        "assign": '{"A":[0,1]}',
        "startingTimestamp": str(FIRST + 90_000),
        "startingOffsetsByTimestamp": offsets(A=[0, 0]),
        "startingOffsets": offsets(A=[1, 1]),
    },
    "ending timestamp": {"subscribe": "A", "endingTimestamp": str(FIRST + 60_000)},
    "ending timestamp, too young": {"subscribe": "A", "endingTimestamp": str(FIRST + 10**9)},
    "ending timestamps": {"subscribe": "A", "endingOffsetsByTimestamp": offsets(A=[FIRST + 9000, FIRST + 10**9, 0])},
    "headers": {"subscribe": "A", "includeHeaders": "true"},
    "committed": {"subscribe": "C", "kafka.isolation.level": "read_committed"},
    "uncommitted": {"subscribe": "C", "kafka.isolation.level": "read_uncommitted"},
    "more tasks": {"subscribe": "A,B", "minPartitions": "7"},
    "more tasks of one size": {"subscribe": "A", "minPartitions": "10"},
    "few tasks": {"subscribe": "A,B", "minPartitions": "2"},
    "as many tasks as records": {"subscribe": "B", "minPartitions": "100"},
    "small tasks": {**BETWEEN, "maxRecordsPerPartition": "20"},
    "small and more tasks": {**BETWEEN, "maxRecordsPerPartition": "25", "minPartitions": "12"},
    "small tasks are enough": {**BETWEEN, "maxRecordsPerPartition": "10", "minPartitions": "5"},
    "deleted records": {"subscribe": "B", "startingOffsets": offsets(B=[2]), "failOnDataLoss": "false"},
    "limits are for streams": {"subscribe": "A", "maxOffsetsPerTrigger": "10", "minOffsetsPerTrigger": "5"},
    "Java's consumer": {"subscribe": "A", "kafka.max.poll.records": "7", "kafkaConsumer.pollTimeoutMs": "60000"},
    "group": {"subscribe": "A", "groupIdPrefix": "mine", "kafka.group.id": "mine"},
    "retries": {"subscribe": "A", "fetchOffset.numRetries": "3", "fetchOffset.retryIntervalMs": "10"},
}

NOTHING = {"offsets at the end"}


class Read(NamedTuple):
    rows: list[tuple[Any, ...]]
    tasks: list[tuple[Any, ...]]
    """What each task has read: topic, partition, first and last offset."""


def read(spark: "SparkSession", source: str, options: Options) -> Read:
    frame = spark.read.format(source).options(**options).load()
    tasks: dict[int, list[Any]] = {}
    rows = frame.selectExpr("spark_partition_id() task", "*").collect()
    for row in rows:
        tasks.setdefault(row["task"], []).append((row["topic"], row["partition"], row["offset"]))
    return Read(
        sorted((tuple(row)[1:] for row in rows), key=lambda row: row[2:5]),
        sorted((*min(places), max(places)[2]) for places in tasks.values()),
    )


@pytest.mark.parametrize("name", BATCHES)
def test_batches(spark: "SparkSession", world: World, name: str) -> None:
    options = world.options(BATCHES[name])
    theirs, ours = (read(spark, source, options) for source in SOURCES)
    assert theirs.rows or name in NOTHING, "there is something to compare"
    assert ours == theirs


BATCH_ERRORS: dict[str, tuple[Options, str]] = {
    "no topics": ({}, "subscribe"),
    "two ways": ({"subscribe": "A", "subscribePattern": "A"}, "only one of"),
    "empty subscribe": ({"subscribe": " , "}, "subscribe"),
    "empty pattern": ({"subscribePattern": " "}, "empty"),
    "assign is no JSON": ({"assign": "A"}, "assign"),
    "assign is odd JSON": ({"assign": '{"A":0}'}, "topica"),
    "unknown topic": ({"subscribe": "no-such-topic", **IMPATIENT}, "topic"),
    "no brokers": ({"subscribe": "A", "kafka.bootstrap.servers": ""}, "kafka.bootstrap.servers"),
    "starts at the end": ({"subscribe": "A", "startingOffsets": "latest"}, "latest"),
    "one starts at the end": ({"subscribe": "B", "startingOffsets": offsets(B=[-1])}, "latest"),
    "ends at the start": ({"subscribe": "A", "endingOffsets": "earliest"}, "earliest"),
    "one ends at the start": ({"subscribe": "B", "endingOffsets": offsets(B=[-2])}, "earliest"),
    "offsets of some": ({"subscribe": "A", "startingOffsets": offsets(A=[1])}, "partition"),
    "offsets of others": ({"subscribe": "B", "startingOffsets": offsets(B=[5, 5])}, "partition"),
    "offsets are no JSON": ({"subscribe": "A", "startingOffsets": "first"}, "topica"),
    "timestamps of some": ({"subscribe": "A", "endingOffsetsByTimestamp": offsets(A=[1])}, "partition"),
    "timestamp too young": ({"subscribe": "A", "startingTimestamp": str(FIRST + 10**9)}, "timestamp"),
    "timestamps too young": (
        {"subscribe": "B", "startingOffsetsByTimestamp": offsets(B=[FIRST + 10**9])},
        "timestamp",
    ),
    "no strategy": (
        {"subscribe": "A", "startingOffsetsByTimestampStrategy": "guess", "startingTimestamp": "1"},
        "guess",
    ),
    "ends before it starts": (
        {"subscribe": "B", "startingOffsets": offsets(B=[15]), "endingOffsets": offsets(B=[10])},
        "offset",
    ),
    "deleted records": ({"subscribe": "B", "startingOffsets": offsets(B=[2])}, "failondataloss"),
    "no tasks": ({"subscribe": "A", "minPartitions": "0"}, "positive"),
    "no records": ({"subscribe": "A", "maxRecordsPerPartition": "0"}, "positive"),
    "a word for a number": ({"subscribe": "A", "minPartitions": "many"}, "many"),
    "more at least than at most": (
        {"subscribe": "A", "minOffsetsPerTrigger": "10", "maxOffsetsPerTrigger": "5"},
        "maxoffsetspertrigger",
    ),
    "offset reset": ({"subscribe": "A", "kafka.auto.offset.reset": "earliest"}, "startingoffsets"),
    "keys": ({"subscribe": "A", "kafka.key.deserializer": "x"}, "key"),
    "values": ({"subscribe": "A", "kafka.value.deserializer": "x"}, "value"),
    "commits": ({"subscribe": "A", "kafka.enable.auto.commit": "true"}, "enable.auto.commit"),
    "interceptors": ({"subscribe": "A", "kafka.interceptor.classes": "x"}, "interceptor.classes"),
    "no isolation": ({"subscribe": "A", "kafka.isolation.level": "some"}, "isolation.level"),
    "no boolean": ({"subscribe": "A", "failOnDataLoss": "maybe"}, "maybe"),
    "headers or not": ({"subscribe": "A", "includeHeaders": "maybe"}, "maybe"),
}


def failure(work: Callable[[], object]) -> str:
    try:
        found = work()
    except Exception as error:  # Py4J wraps whatever the JVM throws.
        return str(error).lower()
    raise AssertionError(f"no error, but {found}")


@pytest.mark.parametrize("name", BATCH_ERRORS)
@pytest.mark.parametrize("source", SOURCES)
def test_errors_of_batches(spark: "SparkSession", world: World, name: str, source: str) -> None:
    options, word = BATCH_ERRORS[name]
    assert word in failure(lambda: read(spark, source, world.options(options)))


STREAMS: dict[str, Options] = {
    "from the end": {"subscribe": "A"},
    "earliest": EVERYTHING,
    "latest": {"subscribe": "A", "startingOffsets": "latest"},
    "offsets": {"subscribe": "A", "startingOffsets": offsets(A=[17, -2, -1])},
    "pattern": {"subscribePattern": "A|B", "startingOffsets": "earliest"},
    "assign": {"assign": '{"A":[1],"B":[0]}', "startingOffsets": "earliest"},
    "timestamp": {"assign": '{"A":[0,1]}', "startingTimestamp": str(FIRST + 30_500)},
    "timestamps, latest": {
        "subscribe": "A",
        "startingOffsetsByTimestamp": offsets(A=[FIRST + 40_000, FIRST + 10**9, 0]),
        "startingOffsetsByTimestampStrategy": "latest",
    },
    "at most": {**EVERYTHING, "maxOffsetsPerTrigger": "31"},
    "at most, little": {**EVERYTHING, "subscribe": "A", "maxOffsetsPerTrigger": "60", "minPartitions": "5"},
    "at least and at most": {**EVERYTHING, "minOffsetsPerTrigger": "10", "maxOffsetsPerTrigger": "50"},
    "small tasks": {**EVERYTHING, "maxRecordsPerPartition": "25"},
    "committed": {"subscribe": "C", "startingOffsets": "earliest", "kafka.isolation.level": "read_committed"},
    "headers": {**EVERYTHING, "includeHeaders": "true"},
    "deleted records": {"subscribe": "B", "startingOffsets": offsets(B=[2]), "failOnDataLoss": "false"},
}


class Streamed(NamedTuple):
    rows: list[tuple[Any, ...]]
    batches: list[int]
    """How many rows each micro-batch has."""
    end: object
    """Where the query has come to, by topic and partition."""


@contextmanager
def running(
    spark: "SparkSession", source: str, options: Options, checkpoint: Path, **trigger: Any
) -> Iterator[tuple["StreamingQuery", Callable[[], list[tuple[Any, ...]]]]]:
    """A query, and what it has read so far."""
    name = f"parity_{uuid.uuid4().hex}"
    frame = spark.readStream.format(source).options(**options).load()
    writer = frame.writeStream.format("memory").queryName(name)
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(**trigger).start()
    try:
        yield query, lambda: sorted((tuple(row) for row in spark.table(name).collect()), key=lambda row: row[2:5])
    finally:
        query.stop()


def stream(spark: "SparkSession", source: str, options: Options, checkpoint: Path) -> Streamed:
    with running(spark, source, options, checkpoint, availableNow=True) as (query, rows):
        query.awaitTermination()
        progress = query.recentProgress
        counts = [each["numInputRows"] for each in progress if each["numInputRows"]]
        end = json.loads(progress[-1]["sources"][0]["endOffset"])
        return Streamed(rows(), counts, end)


@pytest.mark.parametrize("name", STREAMS)
def test_streams(spark: "SparkSession", world: World, tmp_path: Path, name: str) -> None:
    options = world.options(STREAMS[name])
    theirs, ours = (stream(spark, source, options, tmp_path / source) for source in SOURCES)
    assert ours == theirs


STREAM_ERRORS: dict[str, tuple[Options, str]] = {
    "ending offsets": ({**EVERYTHING, "endingOffsets": "latest"}, "ending"),
    "ending timestamps": ({"subscribe": "B", "endingOffsetsByTimestamp": offsets(B=[5])}, "ending"),
    "two ways": ({**EVERYTHING, "assign": '{"A":[0]}'}, "only one of"),
    "unknown topic": ({"subscribe": "no-such-topic", **IMPATIENT}, "topic"),
    "offsets of some": ({"subscribe": "A", "startingOffsets": offsets(A=[1])}, "partition"),
    "timestamp too young": ({"subscribe": "B", "startingTimestamp": str(FIRST + 10**9)}, "timestamp"),
    "deleted records": ({"subscribe": "B", "startingOffsets": offsets(B=[2])}, "failondataloss"),
    "more at least than at most": (
        {**EVERYTHING, "minOffsetsPerTrigger": "10", "maxOffsetsPerTrigger": "5"},
        "maxoffsetspertrigger",
    ),
    "no delay": ({**EVERYTHING, "minOffsetsPerTrigger": "10", "maxTriggerDelay": "soon"}, "soon"),
    "offset reset": ({**EVERYTHING, "kafka.auto.offset.reset": "earliest"}, "startingoffsets"),
    "interceptors": ({**EVERYTHING, "kafka.interceptor.classes": "x"}, "interceptor.classes"),
}


@pytest.mark.parametrize("name", STREAM_ERRORS)
@pytest.mark.parametrize("source", SOURCES)
def test_errors_of_streams(spark: "SparkSession", world: World, tmp_path: Path, name: str, source: str) -> None:
    options, word = STREAM_ERRORS[name]
    assert word in failure(lambda: stream(spark, source, world.options(options), tmp_path / source))


@pytest.mark.parametrize("source", SOURCES)
def test_small_batches_wait_but_not_the_first(
    spark: "SparkSession", bootstrap: str, tmp_path: Path, source: str
) -> None:
    topic = topics.make_topic(bootstrap)
    limits = {"startingOffsets": "earliest", "minOffsetsPerTrigger": "50", "maxTriggerDelay": "10m"}
    options = topics.options(bootstrap, topic, **limits)
    topics.fill(bootstrap, topic, [(0, b"first")] * 30)
    with running(spark, source, options, tmp_path, processingTime="0 seconds") as (query, rows):

        def batches(*wanted: int) -> bool:
            assert query.isActive, query.exception()
            return [each["numInputRows"] for each in query.recentProgress if each["numInputRows"]] == list(wanted)

        eventually(lambda: batches(30), 60, 0.2)
        topics.fill(bootstrap, topic, [(0, b"few")] * 20)
        time.sleep(3)
        assert batches(30)
        topics.fill(bootstrap, topic, [(0, b"many")] * 40)
        eventually(lambda: batches(30, 60), 60, 0.2)
        assert len(rows()) == 90


@pytest.mark.parametrize("source", SOURCES)
def test_small_batches_do_not_wait_forever(spark: "SparkSession", bootstrap: str, tmp_path: Path, source: str) -> None:
    topic = topics.make_topic(bootstrap)
    limits = {"startingOffsets": "earliest", "minOffsetsPerTrigger": "50", "maxTriggerDelay": "3s"}
    options = topics.options(bootstrap, topic, **limits)
    topics.fill(bootstrap, topic, [(0, b"first")] * 30)
    with running(spark, source, options, tmp_path, processingTime="0 seconds") as (_, rows):
        eventually(lambda: len(rows()) == 30, 60, 0.2)
        topics.fill(bootstrap, topic, [(0, b"few")])
        eventually(lambda: len(rows()) == 31, 60, 0.2)
