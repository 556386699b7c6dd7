"""Consumers read from the replica in their rack (KIP-392)."""

import asyncio
from pathlib import Path

import pytest

from ottla.errors import ErrorCode
from ottla.server.broker import StartupError
from ottla.wire.api.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from ottla.wire.api.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from tests.handlers.brokers import Brokers, brokers
from tests.server.worlds import asynchronous, until

SELECTOR = {"replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"}


async def fetch(
    cluster: Brokers,
    broker_id: int,
    offset: int = 0,
    rack: str = "",
    *,
    epoch: int = -1,
    version: int = 17,
    max_wait_ms: int = 0,
) -> PartitionData:
    topic = cluster.image.topics["t"]
    wanted = FetchPartition(fetch_offset=offset, partition_max_bytes=1 << 20, current_leader_epoch=epoch)
    request = FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=1 << 20,
        rack_id=rack,
        session_epoch=-1,
        topics=[FetchTopic(topic="t", topic_id=topic.topic_id, partitions=[wanted])],
    )
    reply = await cluster.call(request, FetchResponse, broker_id, version)
    [answer] = reply.responses[0].partitions
    return answer


async def racked(cluster: Brokers) -> None:
    """A topic with replicas in racks a, b and b; its leader is in a."""
    for broker_id, rack in ((1, "a"), (2, "b"), (3, "b")):
        await cluster.start(broker_id, {"broker.rack": rack})
    await cluster.create("t", [1, 2, 3])
    await cluster.produce("t", 5)
    for broker_id in (2, 3):
        await _committed(cluster, broker_id, 5)


async def _committed(cluster: Brokers, broker_id: int, offset: int) -> None:
    replica = cluster.running[broker_id].broker.replicas.replica_of("t", 0)
    await until(lambda: replica.high_watermark == offset)


@asynchronous
async def test_the_leader_names_the_replica_in_the_rack(tmp_path: Path) -> None:
    async with brokers(tmp_path, 0, SELECTOR) as cluster:
        await racked(cluster)
        sent_on = await fetch(cluster, 1, 0, "b", max_wait_ms=5000)
        assert sent_on.preferred_read_replica in (2, 3)
        assert (sent_on.error_code, sent_on.high_watermark) == (0, 5)
        assert not sent_on.records
        at_the_end = await fetch(cluster, 1, 5, "b", max_wait_ms=5000)
        assert at_the_end.preferred_read_replica in (2, 3)
        for rack in ("", "a", "c"):
            answer = await fetch(cluster, 1, 0, rack)
            assert answer.preferred_read_replica == -1
            assert answer.records
        assert (await fetch(cluster, 1, 0, "b", version=10)).preferred_read_replica == -1
        assert (await fetch(cluster, 1, 6, "b")).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


@asynchronous
async def test_without_a_selector_the_rack_means_nothing(tmp_path: Path) -> None:
    async with brokers(tmp_path, 0) as cluster:
        await racked(cluster)
        answer = await fetch(cluster, 1, 0, "b")
        assert answer.preferred_read_replica == -1
        assert answer.records


@asynchronous
async def test_only_a_replica_in_sync_that_has_the_offset_is_named(tmp_path: Path) -> None:
    async with brokers(tmp_path, 0, SELECTOR) as cluster:
        await racked(cluster)
        partition = cluster.running[1].broker.replicas.leader_of("t", 0)
        followers = partition.followers
        assert followers is not None
        cluster.running[3].broker.replicas.replica_of("t", 0).log.delete_records_before(3)
        await until(lambda: not followers.has(3, 2))
        assert (await fetch(cluster, 1, 2, "b")).preferred_read_replica == 2
        await cluster.stop(2)
        await cluster.state_becomes(lambda state: 2 not in state.isr, "t")
        assert (await fetch(cluster, 1, 2, "b")).preferred_read_replica == -1
        # In a new epoch, a follower has to fetch before its leader knows what it has.
        await until(lambda: partition.followers is not None and partition.followers.has(3, 3))
        assert (await fetch(cluster, 1, 3, "b")).preferred_read_replica == 3


@asynchronous
async def test_a_follower_serves_what_is_committed(tmp_path: Path) -> None:
    async with brokers(tmp_path, 0, SELECTOR) as cluster:
        await racked(cluster)
        leader, follower = await fetch(cluster, 1, 2), await fetch(cluster, 2, 2, "b", epoch=0)
        assert follower.records == leader.records
        assert follower.records
        assert (follower.high_watermark, follower.preferred_read_replica) == (5, -1)
        assert (await fetch(cluster, 2, 6, "b")).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert (await fetch(cluster, 2, 0, "b", epoch=1)).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
        assert (await fetch(cluster, 2, 0, version=10)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (await fetch(cluster, 2, 0, version=11)).error_code == ErrorCode.NONE, "as Kafka, with or without a rack"


@asynchronous
async def test_a_long_poll_at_a_follower_ends_with_the_high_watermark(tmp_path: Path) -> None:
    async with brokers(tmp_path, 0, SELECTOR) as cluster:
        await racked(cluster)
        replica = cluster.running[2].broker.replicas.replica_of("t", 0)
        waiting = asyncio.ensure_future(fetch(cluster, 2, 5, "b", max_wait_ms=15_000))
        await until(lambda: bool(replica.waiters))
        await cluster.produce("t", 1)
        answer = await waiting
        assert answer.high_watermark == 6
        assert answer.records


@asynchronous
async def test_offsets_are_listed_by_leaders_only(tmp_path: Path) -> None:
    async with brokers(tmp_path, 0, SELECTOR) as cluster:
        await racked(cluster)
        for broker_id, code in ((1, ErrorCode.NONE), (2, ErrorCode.NOT_LEADER_OR_FOLLOWER)):
            assert (await _latest(cluster, broker_id, 11))[0] is code
        leader = cluster.running[1].broker.replicas.leader_of("t", 0)
        leader.high_watermark, leader.epoch_start = 3, 5
        assert await _latest(cluster, 1, 11) == (ErrorCode.OFFSET_NOT_AVAILABLE, -1)
        assert await _latest(cluster, 1, 4) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
        assert await _latest(cluster, 1, 11, replica_id=2) == (ErrorCode.NONE, 5)


async def _latest(cluster: Brokers, broker_id: int, version: int, replica_id: int = -1) -> tuple[ErrorCode, int]:
    topic = ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(timestamp=-1)])
    request = ListOffsetsRequest(replica_id=replica_id, topics=[topic])
    reply = await cluster.call(request, ListOffsetsResponse, broker_id, version)
    [answer] = reply.topics[0].partitions
    return ErrorCode(answer.error_code), answer.offset


@asynchronous
async def test_a_selector_of_another_kind_is_refused(tmp_path: Path) -> None:
    async with brokers(tmp_path, 0) as cluster:
        with pytest.raises(StartupError, match=r"com\.example\.Nearest"):
            await cluster.start(1, {"replica.selector.class": "com.example.Nearest"})
