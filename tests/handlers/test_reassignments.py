"""AlterPartitionReassignments and ListPartitionReassignments: partitions move between running brokers."""

import asyncio
from pathlib import Path

from ottla.cluster.image import DEFAULT_BROKER
from ottla.errors import ErrorCode
from ottla.records.builder import NewRecord, build_batch
from ottla.replication.partition import Partition
from ottla.wire.api.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.wire.api.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
)
from tests.handlers.brokers import TIMESTAMP, Brokers, ObservedServer, brokers
from tests.server.worlds import asynchronous, until


async def alter(
    cluster: Brokers, topic: str, targets: dict[int, list[int] | None], *, fixed: bool = False
) -> dict[int, ErrorCode]:
    partitions = [ReassignablePartition(partition_index=index, replicas=ids) for index, ids in targets.items()]
    request = AlterPartitionReassignmentsRequest(
        allow_replication_factor_change=not fixed, topics=[ReassignableTopic(name=topic, partitions=partitions)]
    )
    reply = await cluster.call(request, AlterPartitionReassignmentsResponse)
    assert reply.allow_replication_factor_change is not fixed
    [answer] = reply.responses
    return {result.partition_index: ErrorCode(result.error_code) for result in answer.partitions}


async def ongoing(
    cluster: Brokers, wanted: dict[str, list[int]] | None = None
) -> dict[tuple[str, int], tuple[list[int], list[int], list[int]]]:
    topics = None
    if wanted is not None:
        topics = [ListPartitionReassignmentsTopics(name=name, partition_indexes=ids) for name, ids in wanted.items()]
    reply = await cluster.call(ListPartitionReassignmentsRequest(topics=topics), ListPartitionReassignmentsResponse)
    return {
        (topic.name, it.partition_index): (it.replicas, it.adding_replicas, it.removing_replicas)
        for topic in reply.topics
        for it in topic.partitions
    }


@asynchronous
async def test_a_partition_moves_with_its_records(tmp_path: Path) -> None:
    async with brokers(tmp_path, 3) as cluster:
        await cluster.create("t", [1, 2], [1, 2])
        await cluster.produce("t", 20)
        assert await alter(cluster, "t", {0: [3, 2]}) == {0: ErrorCode.NONE}
        await cluster.state_becomes(lambda state: state.replicas == (3, 2) and state.leader == 3, "t")
        assert cluster.state("t").adding_replicas == cluster.state("t").removing_replicas == ()
        assert cluster.state("t", 1).replicas == (1, 2)
        moved = cluster.running[3].broker.replicas.leader_of("t", 0)
        assert moved.log.end_offset == moved.high_watermark == 20
        await until(lambda: cluster.running[1].broker.replicas.get("t", 0) is None)
        assert not (tmp_path / "broker1" / "t-0").exists()
        await cluster.produce("t", 1)


HELD = {"leader.replication.throttled.replicas": "*"}


async def throttle(cluster: Brokers, rate: int | None, side: str = "leader") -> None:
    """Have all brokers replicate at this rate, where a topic wants it."""
    values = {} if rate is None else {f"{side}.replication.throttled.rate": str(rate)}
    await cluster.running[cluster.any].broker.metadata.set_overrides(DEFAULT_BROKER, lambda _: values)
    await until(lambda: all(_rate(server, side) == rate for server in cluster.running.values()))


def _rate(server: ObservedServer, side: str) -> object:
    return server.broker.config.get(f"{side}.replication.throttled.rate")


async def begin_held(cluster: Brokers, target: list[int]) -> None:
    """A partition of 40 kB on brokers 1 and 2 begins to move, and cannot arrive."""
    await cluster.create("t", [1, 2], [1, 2], configs=HELD)
    await cluster.produce("t", 20, size=2000)
    await throttle(cluster, 1)
    for server in cluster.running.values():
        server.broker.reads.throttle.record(100_000)
    assert await alter(cluster, "t", {0: target}) == {0: ErrorCode.NONE}
    await cluster.state_becomes(lambda state: bool(state.adding_replicas), "t")


@asynchronous
async def test_what_is_under_way_is_listed_and_cancelled(tmp_path: Path) -> None:
    async with brokers(tmp_path, 3) as cluster:
        await begin_held(cluster, [3, 2])
        moving = {("t", 0): ([3, 2, 1], [3], [1])}
        assert await ongoing(cluster) == moving
        assert await ongoing(cluster, {"t": [0, 1, 7], "absent": [0]}) == moving
        assert await ongoing(cluster, {"t": [1]}) == await ongoing(cluster, {}) == {}
        await until(lambda: cluster.running[3].broker.replicas.get("t", 0) is not None)
        assert await alter(cluster, "t", {0: None, 1: None}) == {
            0: ErrorCode.NONE,
            1: ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
        }
        assert await ongoing(cluster) == {}
        await cluster.state_becomes(lambda state: state.replicas == (2, 1), "t")
        await until(lambda: cluster.running[3].broker.replicas.get("t", 0) is None)
        await cluster.produce("t", 1)


@asynchronous
async def test_a_move_survives_the_controller(tmp_path: Path) -> None:
    async with brokers(tmp_path, 4) as cluster:
        await begin_held(cluster, [3, 2])
        assert cluster.image.controller_id == 1
        await cluster.stop(1)
        await until(lambda: cluster.image.controller_id not in (-1, 1))
        assert await ongoing(cluster) == {("t", 0): ([3, 2, 1], [3], [1])}
        await throttle(cluster, None)
        await cluster.state_becomes(lambda state: state.replicas == (3, 2) and not state.removing_replicas, "t")
        assert await ongoing(cluster) == {}


@asynchronous
async def test_a_throttled_leader_sends_no_faster(tmp_path: Path) -> None:
    async with brokers(tmp_path, 3) as cluster:
        await begin_held(cluster, [3, 2])
        arrived = await _replica(cluster, 3)
        await asyncio.sleep(0.3)
        assert arrived.log.end_offset == 0
        await throttle(cluster, 10_000_000)
        await cluster.state_becomes(lambda state: state.replicas == (3, 2), "t")
        assert arrived.log.end_offset == 20


@asynchronous
async def test_a_throttled_follower_fetches_no_faster(tmp_path: Path) -> None:
    small = {"replica.fetch.max.bytes": "4000"}
    async with brokers(tmp_path, 2, small) as cluster:
        await cluster.create("t", [1], configs={"follower.replication.throttled.replicas": "0:2"})
        await cluster.produce("t", 20, size=2000)
        await throttle(cluster, 1, "follower")
        assert await alter(cluster, "t", {0: [1, 2]}) == {0: ErrorCode.NONE}
        arrived = await _replica(cluster, 2)
        await until(lambda: arrived.log.end_offset > 0)
        first = arrived.log.end_offset
        await asyncio.sleep(0.5)
        assert arrived.log.end_offset == first < 20
        await throttle(cluster, None, "follower")
        await cluster.state_becomes(lambda state: state.isr == (1, 2) and not state.adding_replicas, "t")


async def _replica(cluster: Brokers, broker_id: int) -> Partition:
    replicas = cluster.running[broker_id].broker.replicas
    await until(lambda: replicas.get("t", 0) is not None)
    partition = replicas.get("t", 0)
    assert partition is not None
    return partition


@asynchronous
async def test_what_is_refused(tmp_path: Path) -> None:
    async with brokers(tmp_path, 2) as cluster:
        await cluster.create("t", [1], [1])
        assert await alter(cluster, "t", {0: [1, 3], 1: [], 2: [1]}) == {
            0: ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            1: ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            2: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
        assert await alter(cluster, "absent", {0: [1]}) == {0: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert await alter(cluster, "t", {0: [1, 2]}, fixed=True) == {0: ErrorCode.INVALID_REPLICATION_FACTOR}


@asynchronous
async def test_a_log_that_begins_within_a_batch_moves(tmp_path: Path) -> None:
    async with brokers(tmp_path, 2) as cluster:
        await cluster.create("t", [1])
        leader = cluster.running[1].broker.replicas.leader_of("t", 0)
        leader.append(memoryview(build_batch([NewRecord(None, b"x", timestamp=TIMESTAMP)] * 10)))
        leader.delete_records_before(7)
        assert await alter(cluster, "t", {0: [2]}) == {0: ErrorCode.NONE}
        await cluster.state_becomes(lambda state: state.replicas == (2,) and state.leader == 2, "t")
        moved = cluster.running[2].broker.replicas.leader_of("t", 0).log
        assert (moved.log_start_offset, moved.end_offset) == (7, 10)
