"""Apache Kafka itself: its broker read and written, and its data directory read as files."""

import uuid
from collections.abc import Iterator

import pyarrow as pa
import pytest

from bench import brokers, kafka
from bench.brokers import Broker
from bench.measurement import KAFKA
from ottla.spark.log_files import plan_directory, read_segment
from ottla.spark.planning import plan_batch
from ottla.spark.reading import read_range
from ottla.spark.selection import Selection
from ottla.spark.session import Session
from ottla.spark.sink_options import parse_sink_options
from ottla.spark.writing import BatchMarker, write_exactly_once
from tests.compat.deadlines import eventually
from tests.spark import topics
from tests.spark.topics import Row

pytestmark = [pytest.mark.spark, pytest.mark.skipif(kafka.missing() is not None, reason=str(kafka.missing()))]

LEVELS = ("read_uncommitted", "read_committed")


@pytest.fixture(scope="module")
def apache() -> Iterator[Broker]:
    settings = {"replica.high.watermark.checkpoint.interval.ms": "200", "log.segment.bytes": "1048576"}
    with brokers.start(KAFKA, settings) as broker:
        yield broker


def fetched(bootstrap: str, topic: str, level: str) -> list[Row]:
    options = topics.parsed(bootstrap, topic, includeHeaders="true", **{"kafka.isolation.level": level})
    with Session(options.read) as session:
        plan = session.run(plan_batch(session.client, options))
    return topics.rows_of(batch for each in plan for batch in read_range(each, options.read))


def stored(root: str, topic: str, level: str) -> list[Row]:
    plan = plan_directory(root, Selection(topics=(topic,)), committed=level == "read_committed")
    return topics.rows_of(batch for segment in plan for batch in read_segment(segment, headers=True))


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_fetched_and_stored_rows_are_those_of_a_consumer(apache: Broker, codec: str) -> None:
    topic = topics.make_topic(apache.bootstrap, 2)
    rows = [(index % 2, b"%d " % index * 400) for index in range(2000)]
    topics.fill(apache.bootstrap, topic, rows, **{"compression.type": codec})
    topics.transactions(apache.bootstrap, topic, [True, False, True, False], partitions=2)
    root = str(apache.directory / "data")
    for level in LEVELS:
        expected = topics.consume(apache.bootstrap, topic, 2, level)
        assert fetched(apache.bootstrap, topic, level) == expected
        eventually(lambda expected=expected, level=level: stored(root, topic, level) == expected)  # type: ignore[misc]


def test_rows_are_written_exactly_once(apache: Broker) -> None:
    topic = topics.make_topic(apache.bootstrap, 2)
    options = parse_sink_options(
        {"kafka.bootstrap.servers": apache.bootstrap, "topic": topic, "delivery": "exactly-once"}
    )
    marker = BatchMarker(uuid.uuid4().hex, 77, 0)
    rows = pa.RecordBatch.from_pydict({"value": [b"a", b"b"]})
    assert write_exactly_once(iter([rows]), options, marker) == 2
    assert write_exactly_once(iter([rows]), options, marker) == 0
    assert write_exactly_once(iter([rows]), options, marker._replace(batch_id=1)) == 2
    assert len(topics.consume(apache.bootstrap, topic, 2, "read_committed")) == 4
