"""Produce, as a client sees it. A connection remembers the beginning of its last request, which must not show: the same
requests are sent through one connection, and through a new one each."""

import asyncio
import random
import struct
from pathlib import Path
from typing import NamedTuple

import pytest

from ottla.errors import ErrorCode
from ottla.model import TopicId
from ottla.records.builder import NewRecord, build_batch
from ottla.replication.partition import Appended, Partition
from ottla.wire.api import PRODUCE
from ottla.wire.api.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.api.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tests.server.wire_client import encode_request
from tests.server.worlds import MemoryConnection, Running, asynchronous, running, until

TOPICS = {
    "plain": {},
    "other": {},
    "stamped": {"message.timestamp.type": "LogAppendTime"},
    "synced": {"flush.messages": "1"},
    "keyed": {"cleanup.policy": "compact"},
}
VERSIONS = range(3, PRODUCE.max_version + 1)
"""Those below are refused as a whole."""
TIMESTAMP = 1_700_000_000_000


def a_batch(value: bytes, *, producer_id: int = -1, sequence: int = -1, transactional: bool = False) -> bytes:
    batch = build_batch(
        [NewRecord(None, value, (), TIMESTAMP)],
        producer_id=producer_id,
        producer_epoch=-1 if producer_id < 0 else 0,
        base_sequence=sequence,
        transactional=transactional,
    )
    return bytes(batch)


class Sample(NamedTuple):
    """One request, before it is known which id each broker gives to the topic."""

    version: int
    topic: str
    partitions: tuple[tuple[int, bytes | None], ...]
    acks: int = 1
    client_id: str = "a-producer"
    behind: bytes = b""

    def frame(self, correlation_id: int, ids: dict[str, TopicId]) -> bytes:
        topic = TopicProduceData(
            name=self.topic,
            topic_id=ids.get(self.topic, TopicId(b"n" * 16)),
            partition_data=[PartitionProduceData(index=index, records=data) for index, data in self.partitions],
        )
        request = ProduceRequest(acks=self.acks, timeout_ms=1000, topic_data=[topic])
        encoded = encode_request(request, self.version, correlation_id, client_id=self.client_id) + self.behind
        return struct.pack(">i", len(encoded) - 4) + encoded[4:]


def random_samples(seed: int, count: int) -> list[Sample]:
    """Mostly requests that repeat an earlier one, with all that may go wrong in between."""
    chance = random.Random(seed)
    good = a_batch(b"x" * chance.randrange(200))
    transactional = a_batch(b"t", producer_id=7, sequence=0, transactional=True)
    bad = [None, b"", b"short", good[:-1], good + b"z", good + good, bytes(61), good[:20] + bytes(60)]
    kinds = [
        Sample(
            chance.choice(VERSIONS),
            chance.choice([*TOPICS, "absent", "__consumer_offsets"]),
            (),
            acks=chance.choice([1, 1, 1, -1, 7]),
            client_id=chance.choice(["a-producer", "another", ""]),
        )
        for _ in range(6)
    ]
    samples = []
    for number in range(count):
        repeated = a_batch(b"y", producer_id=7, sequence=number // 20)
        records = chance.choice([good] * 6 + [repeated] * 2 + [transactional] + bad)
        partitions: tuple[tuple[int, bytes | None], ...] = ((chance.choice([0, 0, 1, 2, -1]), records),)
        if chance.random() < 0.4:
            partitions += tuple((chance.choice([0, 1]), good) for _ in range(chance.choice([1, 1, 5])))
        if chance.random() < 0.4:
            partitions = partitions[::-1]
        behind = b"\0" if chance.random() < 0.05 else b""
        samples.append(chance.choice(kinds)._replace(partitions=partitions, behind=behind))
    return samples


async def create_topics(world: Running) -> dict[str, TopicId]:
    topics = [
        CreatableTopic(
            name=name,
            num_partitions=2,
            replication_factor=1,
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
        )
        for name, configs in TOPICS.items()
    ]
    reply = await world.call(CreateTopicsRequest(topics=topics, timeout_ms=1000), 7, CreateTopicsResponse)
    return {topic.name: topic.topic_id for topic in reply.topics}


async def send_all(world: Running, samples: list[Sample], per_connection: int) -> tuple[list[bytes], list[bytes]]:
    """The replies, with names in place of the topics' ids, and what is in the logs afterwards."""
    ids = await create_topics(world)
    replies = []
    for start in range(0, len(samples), per_connection):
        connection = world.connect()
        for number, sample in enumerate(samples[start : start + per_connection], start):
            connection.push(sample.frame(number, ids))
            count = number + 1 - start
            await until(lambda: len(connection.frames()) >= count)  # noqa: B023 - it is called at once
        replies += [bytes(frame) for frame in connection.frames()]
        connection.close()
    for name, topic_id in ids.items():
        replies = [reply.replace(topic_id, name.encode()) for reply in replies]
    logs = []
    for partition in sorted(world.broker.replicas, key=str):
        found = partition.read(0, 1 << 20)
        logs.append(b"" if found.file is None else found.file.read(found.size, found.position))
    return replies, logs


async def send_both_ways(directory: Path, samples: list[Sample]) -> list[bytes]:
    """Through one connection, and through one for each request; asserts that it makes no difference."""
    async with running(directory / "one") as world:
        one = await send_all(world, samples, len(samples))
    async with running(directory / "each") as world:
        each = await send_all(world, samples, 1)
    assert one == each
    return one[0]


@pytest.mark.parametrize("seed", range(6))
@asynchronous
async def test_what_a_connection_remembers_makes_no_difference(tmp_path: Path, seed: int) -> None:
    await send_both_ways(tmp_path, random_samples(seed, 300))


@pytest.mark.parametrize("version", VERSIONS)
@asynchronous
async def test_batches_and_numbers_of_partitions_of_any_size(tmp_path: Path, version: int) -> None:
    """Their lengths take one, two or three bytes in a flexible version."""
    sizes = (1, 10, 100, 127, 128, 16_200, 16_383, 16_384, 70_000, 1)
    samples = [Sample(version, "plain", ((size % 2, a_batch(bytes(size))),)) for size in sizes]
    samples += [
        Sample(version, "plain", tuple((number % 2, a_batch(bytes(number))) for number in range(count)))
        for count in (3, 3, 2, 126, 127, 128, 1)
    ]
    replies = await send_both_ways(tmp_path, samples)
    assert len(replies) == len(samples)


@pytest.mark.parametrize("topic", ["plain", "synced"])
@asynchronous
async def test_a_refused_batch_does_not_keep_the_others_of_its_request_out(tmp_path: Path, topic: str) -> None:
    good, bad = a_batch(b"x"), a_batch(b"x")[:-1] + b"?"
    samples = [Sample(12, topic, ((0, good), (1, bad), (0, good)), acks=-1)]
    async with running(tmp_path) as world:
        [reply], _ = await send_all(world, samples, 1)
        assert b"the batch does not match its checksum" in reply
        assert world.broker.replicas.leader_of(topic, 0).high_watermark == 2
        assert world.broker.replicas.leader_of(topic, 1).high_watermark == 0


@asynchronous
async def test_whatever_keeps_a_batch_from_being_stored_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exception that nobody expected must not be taken for success."""

    def append(*_: object) -> Appended:
        stored: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        stored.set_exception(ZeroDivisionError())
        return Appended(0, -1, 0, stored)

    async with running(tmp_path) as world:
        monkeypatch.setattr(Partition, "append", append)
        for count in (1, 2):
            sample = Sample(9, "plain", ((0, a_batch(b"x")),) * count, acks=-1)
            ids = {} if count > 1 else await create_topics(world)
            connection = world.connect()
            connection.push(sample.frame(0, ids))
            await until(lambda: bool(connection.frames()))  # noqa: B023 - it is called at once
            [topic] = connection.reply(0, ProduceResponse, 9).responses
            assert [it.error_code for it in topic.partition_responses] == [ErrorCode.UNKNOWN_SERVER_ERROR] * count
            assert {it.base_offset for it in topic.partition_responses} == {-1}


@asynchronous
async def test_a_topic_created_again_is_not_taken_for_the_old_one(tmp_path: Path) -> None:
    sample = Sample(13, "plain", ((0, a_batch(b"x")),))
    async with running(tmp_path) as world:
        ids = await create_topics(world)
        connection = world.connect()
        for number in range(5):
            connection.push(sample.frame(number, ids))
        await world.broker.metadata.delete_topic("plain")
        await world.broker.metadata.create_topic("plain")
        connection.push(sample.frame(5, ids))
        assert len(connection.frames()) == 6
        partition = world.broker.replicas.leader_of("plain", 0)
        assert partition.high_watermark == 0


@pytest.mark.parametrize("last", [a_batch(b"x"), b"nonsense"])
@asynchronous
async def test_without_acks_a_failure_in_one_of_several_partitions_is_told_by_hanging_up(
    tmp_path: Path, last: bytes
) -> None:
    async with running(tmp_path) as world:
        first = Sample(9, "plain", ((0, a_batch(b"x")), (1, a_batch(b"x"))), acks=0)
        connection = await silent(world, *[first] * 4, first._replace(partitions=((0, last), (1, a_batch(b"x")))))
        assert connection.taken == b""
        assert connection.is_open == (last != b"nonsense")
        assert world.broker.replicas.leader_of("plain", 1).high_watermark == 5


async def silent(world: Running, *samples: Sample) -> MemoryConnection:
    ids = await create_topics(world)
    connection = world.connect()
    for number, sample in enumerate(samples):
        connection.push(sample.frame(number, ids))
    return connection


@pytest.mark.parametrize("last", [a_batch(b"x"), b"nonsense"])
@asynchronous
async def test_without_acks_only_a_failure_is_told_by_hanging_up(tmp_path: Path, last: bytes) -> None:
    async with running(tmp_path) as world:
        first = Sample(9, "plain", ((0, a_batch(b"x")),), acks=0)
        connection = await silent(world, *[first] * 4, first._replace(partitions=((0, last),)))
        assert connection.taken == b""
        assert connection.is_open == (last != b"nonsense")
        assert world.broker.replicas.leader_of("plain", 0).high_watermark == (5 if connection.is_open else 4)
