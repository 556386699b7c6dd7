"""Three brokers, and leaders that die under a task that reads and one that writes."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from ottla.client.client import Client
from ottla.model import TopicPartition
from ottla.spark.ranges import OffsetRange
from ottla.spark.reading import read_range
from ottla.spark.session import Session
from ottla.spark.sink_options import parse_sink_options
from ottla.spark.writing import BatchMarker, write_exactly_once
from tests.nemesis.cluster import Cluster
from tests.spark import topics

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

ROWS = 2000
SMALL_FETCHES = {"kafka.max.partition.fetch.bytes": "50000"}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path, 3)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.close()


def kill_leader(cluster: Cluster, topic: str) -> None:
    async def leader(client: Client) -> int:
        return await client.retry("leader", lambda: client.leader(TopicPartition(topic, 0), refresh=True), [topic])

    with Session(topics.parsed(cluster.bootstrap_servers, topic).read) as session:
        number = session.run(leader(session.client))
    cluster.nodes[number - 1].kill()


def test_a_range_is_read_to_its_end(cluster: Cluster) -> None:
    bootstrap = cluster.bootstrap_servers
    topic = topics.make_topic(bootstrap, replicas=3)
    topics.fill(bootstrap, topic, [(0, b"%d" % index * 200) for index in range(ROWS)], **{"batch.size": 20_000})
    expected = [row._replace(headers=()) for row in topics.consume(bootstrap, topic)]
    batches = []
    for batch in read_range(
        OffsetRange(TopicPartition(topic, 0), 0, ROWS), topics.parsed(bootstrap, topic, **SMALL_FETCHES).read
    ):
        batches.append(batch)
        if len(batches) == 5:
            kill_leader(cluster, topic)
    assert len(batches) > 10
    assert topics.rows_of(batches) == expected


def test_a_transaction_is_written_whole(cluster: Cluster) -> None:
    bootstrap = cluster.bootstrap_servers
    topic = topics.make_topic(bootstrap, replicas=3)
    options = parse_sink_options({"kafka.bootstrap.servers": bootstrap, "topic": topic, "delivery": "exactly-once"})
    marker = BatchMarker(uuid.uuid4().hex, 0, 0)

    def rows(kill: bool) -> Iterator[pa.RecordBatch]:
        for first in range(0, ROWS, 100):
            yield pa.RecordBatch.from_pydict({"value": [b"%d" % index for index in range(first, first + 100)]})
            if kill and first == ROWS // 2:
                kill_leader(cluster, topic)

    assert write_exactly_once(rows(kill=True), options, marker) == ROWS
    assert write_exactly_once(rows(kill=False), options, marker) == 0
    found = topics.consume(bootstrap, topic, isolation="read_committed")
    assert [int(row.value or b"") for row in found] == list(range(ROWS))
