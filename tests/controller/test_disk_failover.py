"""A leader with a broken disk leaves its partitions to who can serve them."""

from pathlib import Path

import pytest

from ottla.errors import ErrorCode
from ottla.records.builder import NewRecord, build_batch
from ottla.wire.api.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tests.handlers.brokers import TIMESTAMP, Brokers, brokers
from tests.replication.world import WatchedDisk
from tests.server.worlds import asynchronous


async def append(cluster: Brokers, leader: int) -> ErrorCode:
    data = PartitionProduceData(index=0, records=bytes(build_batch([NewRecord(None, b"x", timestamp=TIMESTAMP)])))
    topic = TopicProduceData(topic_id=cluster.image.topics["t"].topic_id, partition_data=[data])
    reply = await cluster.call(ProduceRequest(acks=-1, timeout_ms=9_000, topic_data=[topic]), ProduceResponse, leader)
    return ErrorCode(reply.responses[0].partition_responses[0].error_code)


@asynchronous
async def test_a_log_that_cannot_be_made_is_led_by_another_and_made_later(tmp_path: Path) -> None:
    disk = WatchedDisk()
    async with brokers(tmp_path, 1) as cluster:
        await cluster.start(2, disk=disk)
        disk.break_("make_directory", "/t-0")
        await cluster.create("t", [2, 1])
        await cluster.state_becomes(lambda state: (state.leader, state.isr) == (1, (1,)), "t")
        await cluster.produce("t", 3)
        disk.repair()
        await cluster.state_becomes(lambda state: set(state.isr) == {1, 2}, "t")


@asynchronous
async def test_after_a_failed_sync_another_leads(tmp_path: Path) -> None:
    disk = WatchedDisk()
    async with brokers(tmp_path, 1) as cluster:
        await cluster.start(2, disk=disk)
        await cluster.create("t", [2, 1], configs={"flush.messages": "1"})
        await cluster.produce("t", 2)
        disk.break_("sync", "/t-0/")
        assert await append(cluster, 2) == ErrorCode.KAFKA_STORAGE_ERROR
        await cluster.state_becomes(lambda state: (state.leader, state.isr) == (1, (1,)), "t")
        await cluster.produce("t", 1)


@pytest.mark.parametrize("replicas", [pytest.param([2, 1], id="leader"), pytest.param([1, 2], id="follower")])
@asynchronous
async def test_what_cannot_be_written_is_left_to_another_until_it_can(tmp_path: Path, replicas: list[int]) -> None:
    disk = WatchedDisk()
    async with brokers(tmp_path, 1) as cluster:
        await cluster.start(2, disk=disk)
        await cluster.create("t", replicas)
        await cluster.produce("t", 2)
        disk.break_("write", "/t-0/")
        await append(cluster, replicas[0])
        await cluster.state_becomes(lambda state: (state.leader, state.isr) == (1, (1,)), "t")
        await cluster.produce("t", 1)
        disk.repair()
        await cluster.state_becomes(lambda state: set(state.isr) == {1, 2}, "t")


@asynchronous
async def test_who_alone_has_it_keeps_it(tmp_path: Path) -> None:
    disk = WatchedDisk()
    async with brokers(tmp_path, 1) as cluster:
        await cluster.start(2, disk=disk)
        disk.break_("make_directory", "/t-0")
        disk.break_("make_directory", "/u-0")
        await cluster.create("t", [2])
        await cluster.create("u", [2, 1])
        await cluster.state_becomes(lambda state: state.leader == 1, "u")
        assert cluster.state("t").leader == 2
