"""The fast path of Produce beside its slow twin: the same requests, to a broker that has it and to one that has not."""

import random
import struct
from pathlib import Path
from typing import NamedTuple

import pytest

from ottla.handlers.produce_again import ProduceAgain
from ottla.model import TopicId
from ottla.records.builder import NewRecord, build_batch
from ottla.wire.api import PRODUCE
from ottla.wire.api.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.api.produce import PartitionProduceData, ProduceRequest, TopicProduceData
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
FAST_VERSIONS = range(5, PRODUCE.max_version + 1)
TIMESTAMP = 1_700_000_000_000
PER_CONNECTION = 100
"""Requests, so that some are learned from on one connection and served on another."""


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


async def send_all(world: Running, samples: list[Sample]) -> tuple[list[bytes], list[bytes]]:
    """The replies, with names in place of the topics' ids, and what is in the logs afterwards."""
    ids = await create_topics(world)
    replies = []
    for start in range(0, len(samples), PER_CONNECTION):
        connection = world.connect()
        for number, sample in enumerate(samples[start : start + PER_CONNECTION], start):
            connection.push(sample.frame(number, ids))
            count = number + 1 - start
            await until(lambda: len(connection.frames()) >= count)  # noqa: B023 - it is called at once
        replies += [bytes(frame) for frame in connection.frames()]
    for name, topic_id in ids.items():
        replies = [reply.replace(topic_id, name.encode()) for reply in replies]
    logs = []
    for partition in sorted(world.broker.replicas, key=str):
        found = partition.read(0, 1 << 20)
        logs.append(b"" if found.file is None else found.file.read(found.size, found.position))
    return replies, logs


class Counted:
    """How many requests took the fast path."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.fast = 0
        serve = ProduceAgain.serve

        def counting(this: ProduceAgain, frame: memoryview) -> object:
            reply = serve(this, frame)
            self.fast += reply is not None
            return reply

        monkeypatch.setattr(ProduceAgain, "serve", counting)


def never_learn(*_: object) -> None:
    """In place of `ProduceAgain.learn`: every request takes the slow way."""


async def both_ways(directory: Path, monkeypatch: pytest.MonkeyPatch, samples: list[Sample]) -> tuple[int, list[bytes]]:
    """Asserts that both ways come to the same; returns how many took the fast one, and the replies."""
    counted = Counted(monkeypatch)
    async with running(directory / "fast") as world:
        fast = await send_all(world, samples)
    taken = counted.fast
    monkeypatch.setattr(ProduceAgain, "learn", never_learn)
    async with running(directory / "slow") as world:
        slow = await send_all(world, samples)
    assert counted.fast == taken
    assert fast == slow
    return taken, fast[0]


@pytest.mark.parametrize("seed", range(6))
@asynchronous
async def test_both_ways_answer_and_store_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    taken, _ = await both_ways(tmp_path, monkeypatch, random_samples(seed, 300))
    assert taken > 10


@pytest.mark.parametrize("version", VERSIONS)
@asynchronous
async def test_a_request_like_the_last_four_is_fast(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    """Whatever the size of its batch, which changes how long its length is, and whatever its partition."""
    sizes = (10, 100, 127, 128, 16_200, 16_383, 16_384, 70_000, 1)
    samples = [Sample(version, "plain", ((size % 2, a_batch(bytes(size))),)) for size in (1, 1, 1, *sizes)]
    taken, _ = await both_ways(tmp_path, monkeypatch, samples)
    assert taken == (len(sizes) - 1 if version in FAST_VERSIONS else 0)


@pytest.mark.parametrize("version", FAST_VERSIONS)
@pytest.mark.parametrize("acks", [1, -1])
@asynchronous
async def test_any_number_of_partitions_has_one_shape(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int, acks: int
) -> None:
    """Up to where the number itself takes another byte."""
    counts = (1, 2, 1, 126, 16)
    sample = Sample(version, "plain", (), acks=acks)
    samples = [
        sample._replace(partitions=tuple((number % 2, a_batch(bytes(100 * number))) for number in range(count)))
        for count in (3, 3, 3, 3, *counts, 127)
    ]
    taken, _ = await both_ways(tmp_path, monkeypatch, samples)
    assert taken == len(counts)


@asynchronous
async def test_what_is_refused_in_one_partition_is_stored_in_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the fast path too, where nothing can be undone: what went before is told, what comes after is tried."""
    good, bad = a_batch(b"x"), a_batch(b"x")[:-1] + b"?"
    for topic in ("plain", "synced"):
        samples = [Sample(12, topic, ((0, good), (1, good)), acks=-1)] * 5
        samples.append(Sample(12, topic, ((0, good), (1, bad), (0, good)), acks=-1))
        taken, replies = await both_ways(tmp_path / topic, monkeypatch, samples)
        monkeypatch.undo()
        assert taken == 2
        assert b"the batch does not have its checksum" in replies[-1]


@asynchronous
async def test_a_producer_of_two_topics_becomes_fast(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    samples = [Sample(12, topic, ((0, a_batch(b"x")),)) for _ in range(50) for topic in ("plain", "other")]
    taken, _ = await both_ways(tmp_path, monkeypatch, samples)
    assert taken > len(samples) / 2


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
