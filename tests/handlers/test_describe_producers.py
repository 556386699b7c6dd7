"""DescribeProducers: each partition once, and a bound on the producers in one reply."""

from pathlib import Path

import pytest

from ottla.errors import ErrorCode
from ottla.handlers import describe_producers
from ottla.records.builder import NewRecord, build_batch
from ottla.wire.api.describe_producers import DescribeProducersRequest, DescribeProducersResponse, TopicRequest
from tests.server.worlds import Running, asynchronous, running


def produce(world: Running, partition: int, producers: int) -> None:
    for producer_id in range(producers):
        batch = build_batch([NewRecord(None, b"v")], producer_id=producer_id, producer_epoch=0, base_sequence=0)
        world.broker.replicas.leader_of("clicks", partition).append(memoryview(batch))


async def described(world: Running, *partitions: list[int]) -> list[tuple[int, int, int]]:
    """Index, error and number of producers of each partition that the reply has."""
    request = DescribeProducersRequest(
        topics=[TopicRequest(name="clicks", partition_indexes=indexes) for indexes in partitions]
    )
    reply = await world.call(request, 0, DescribeProducersResponse)
    return [
        (answer.partition_index, answer.error_code, len(answer.active_producers))
        for topic in reply.topics
        for answer in topic.partitions
    ]


@asynchronous
async def test_a_partition_is_described_once(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await world.broker.metadata.create_topic("clicks", partitions=2)
        produce(world, 0, 10)
        assert await described(world, [0] * 10_000, [1, 0, 7]) == [
            (0, ErrorCode.NONE, 10),
            (1, ErrorCode.NONE, 0),
            (7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0),
        ]


@asynchronous
async def test_a_reply_has_only_so_many_producers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(describe_producers, "MAX_PRODUCERS", 10)
    async with running(tmp_path) as world:
        await world.broker.metadata.create_topic("clicks", partitions=3)
        for partition, producers in enumerate((8, 5, 20)):
            produce(world, partition, producers)
        assert await described(world, [0, 1, 2]) == [
            (0, ErrorCode.NONE, 8),
            (1, ErrorCode.INVALID_REQUEST, 0),
            (2, ErrorCode.INVALID_REQUEST, 0),
        ]
        assert await described(world, [2]) == [(2, ErrorCode.NONE, 20)], "a partition alone is always described"
