"""Produce requests whose batches the broker must open before the append."""

import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from ottla.errors import ErrorCode
from ottla.records.builder import NewRecord, build_batch
from ottla.records.format import Codec
from ottla.wire.api.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.api.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tests.replication.world import ManualBackground, records_in
from tests.server.worlds import MemoryConnection, Running, asynchronous, running, settle, until

VERSION = 9
TOPICS = {
    "table": {"cleanup.policy": "compact"},
    "packed": {"compression.type": "zstd"},
    "plain": {},
}


class ManualThreads(ManualBackground):
    def close(self) -> None:
        pass


class World:
    def __init__(self, world: Running, threads: ManualThreads) -> None:
        self.running = world
        self.threads = threads
        self.connection = world.connect()

    def stored(self, topic: str, partition: int = 0) -> list[bytes | None]:
        read = self.running.broker.replicas.leader_of(topic, partition).read(0, 1 << 20)
        data = b"" if read.file is None else read.file.read(read.size, read.position)
        return [record.value for record in records_in(data)]


@contextlib.asynccontextmanager
async def world(path: Path, *, held: bool = True) -> AsyncIterator[World]:
    threads = ManualThreads(held=held)
    async with running(path, inspections=threads) as broker:
        topics = [
            CreatableTopic(
                name=name,
                num_partitions=2,
                replication_factor=1,
                configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
            )
            for name, configs in TOPICS.items()
        ]
        reply = await broker.call(CreateTopicsRequest(topics=topics, timeout_ms=1000), 4, CreateTopicsResponse)
        assert {topic.error_code for topic in reply.topics} == {ErrorCode.NONE}
        yield World(broker, threads)


def batch(*values: bytes, keyless: Sequence[int] = (), sequence: int = -1) -> bytes:
    records = [NewRecord(None if index in keyless else b"k", value) for index, value in enumerate(values)]
    producer_id, epoch = (-1, -1) if sequence < 0 else (7, 0)
    return bytes(
        build_batch(records, codec=Codec.GZIP, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
    )


def request(*parts: tuple[str, int, bytes], acks: int = 1) -> ProduceRequest:
    topics = [
        TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=index, records=records)])
        for topic, index, records in parts
    ]
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=topics)


def partition_answers(connection: MemoryConnection, index: int) -> list[PartitionProduceResponse]:
    reply = connection.reply(index, ProduceResponse, VERSION)
    return [answer for topic in reply.responses for answer in topic.partition_responses]


def codes(connection: MemoryConnection, index: int) -> list[int]:
    return [answer.error_code for answer in partition_answers(connection, index)]


@pytest.mark.parametrize("topic", ["table", "packed"])
@asynchronous
async def test_others_are_served_while_a_batch_is_opened(tmp_path: Path, topic: str) -> None:
    async with world(tmp_path) as it:
        it.connection.request(request((topic, 0, batch(b"slow"))), VERSION)
        await settle()
        assert it.threads.waiting == 1
        for _ in range(10):
            answer = await it.running.call(request(("plain", 0, batch(b"quick"))), VERSION, ProduceResponse)
            assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE
        assert it.connection.frames() == []
        assert it.stored(topic) == []
        await it.threads.finish_all()
        assert codes(it.connection, 0) == [ErrorCode.NONE]
        assert it.stored(topic) == [b"slow"]


@pytest.mark.parametrize("acks", [0, 1, -1])
@pytest.mark.parametrize("idempotent", [False, True])
@asynchronous
async def test_batches_are_appended_in_the_order_in_which_they_were_sent(
    tmp_path: Path, acks: int, idempotent: bool
) -> None:
    """Also from the fifth request on, and if requests arrive while the first batch is being opened."""
    async with world(tmp_path) as it:
        sent = [b"%d" % number for number in range(20)]
        for number, value in enumerate(sent):
            records = batch(value, sequence=number if idempotent else -1)
            it.connection.request(request(("table", 0, records), acks=acks), VERSION)
        await settle()
        assert it.threads.waiting == 1, "the second batch must wait for the first"
        while it.threads.waiting:
            await it.threads.finish_one()
        assert it.stored("table") == sent
        assert it.connection.is_open
        assert len(it.connection.frames()) == (0 if acks == 0 else len(sent))


@asynchronous
async def test_only_one_of_several_partitions_has_to_be_opened(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        for round_ in range(8):
            parts = [("plain", 0, batch(b"a")), ("table", 0, batch(b"b")), ("plain", 1, batch(b"c"))]
            it.connection.request(request(*parts), VERSION)
            await settle()
            assert len(it.stored("plain", 1)) == round_ + 1
            await it.threads.finish_all()
            answers = partition_answers(it.connection, round_)
            assert [(answer.error_code, answer.base_offset) for answer in answers] == [(0, round_)] * 3
        assert it.stored("table") == [b"b"] * 8


@asynchronous
async def test_several_partitions_of_one_topic(tmp_path: Path) -> None:
    async with world(tmp_path, held=False) as it:
        for round_ in range(8):
            good, bad = batch(b"a"), batch(b"b", keyless=[0])
            data = [PartitionProduceData(index=0, records=good), PartitionProduceData(index=1, records=bad)]
            both = TopicProduceData(name="table", partition_data=data)
            it.connection.request(ProduceRequest(acks=1, timeout_ms=1000, topic_data=[both]), VERSION)
            await until(lambda round_=round_: len(it.connection.frames()) == round_ + 1)  # type: ignore[misc]
            assert codes(it.connection, round_) == [ErrorCode.NONE, ErrorCode.INVALID_RECORD]
        assert it.stored("table", 0) == [b"a"] * 8
        assert it.stored("table", 1) == []


@asynchronous
async def test_a_refused_batch_with_acks_0_ends_the_connection(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        it.connection.request(request(("table", 0, batch(b"a", keyless=[0])), acks=0), VERSION)
        await settle()
        await it.threads.finish_all()
        assert not it.connection.is_open


@asynchronous
async def test_the_reply_names_the_records_without_a_key(tmp_path: Path) -> None:
    async with world(tmp_path, held=False) as it:
        for round_ in range(8):
            sent = request(("table", 0, batch(b"a", b"b", b"c", b"d", keyless=[1, 3])))
            it.connection.request(sent, VERSION)
            await until(lambda round_=round_: len(it.connection.frames()) == round_ + 1)  # type: ignore[misc]
            [answer] = partition_answers(it.connection, round_)
            assert answer.error_code == ErrorCode.INVALID_RECORD
            text = "Compacted topic cannot accept message without key in topic partition table-0"
            assert [(error.batch_index, error.batch_index_error_message) for error in answer.record_errors] == [
                (1, text),
                (3, text),
            ]


@asynchronous
async def test_a_topic_that_is_gone_when_the_batch_is_open(tmp_path: Path) -> None:
    async with world(tmp_path) as it:
        it.connection.request(request(("table", 0, batch(b"a"))), VERSION)
        await settle()
        await it.running.broker.metadata.delete_topic("table")
        await it.threads.finish_all()
        assert codes(it.connection, 0) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
