"""Fetch, as a client sees it. A connection remembers the beginning of its last request, which must not show: the same
requests are sent through one connection, and through a new one each."""

import gc
import random
from pathlib import Path

import pytest

from ottla.errors import ErrorCode
from ottla.model import READ_COMMITTED, LeaderEpoch, Producer, TopicId
from ottla.records.builder import NewRecord, build_batch
from ottla.records.control import MARKER_SIZE, EndTransactionMarker
from ottla.replication.partition import Admission
from ottla.wire.api import FETCH
from ottla.wire.api.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.api.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ForgottenTopic
from tests.server.wire_client import encode_request
from tests.server.worlds import MemoryConnection, Running, asynchronous, running, settle, until

VERSIONS = range(4, FETCH.max_version + 1)
TIMESTAMP = 1_700_000_000_000


def append(world: Running, partition: int, size: int) -> None:
    record = NewRecord(None, bytes(size), (), TIMESTAMP)
    world.broker.replicas.leader_of("topic", partition).append(memoryview(build_batch([record])))


def append_in_transaction(world: Running, producer_id: int, size: int) -> None:
    partition = world.broker.replicas.leader_of("topic", 0)
    guard = partition.begin_verification(Producer(producer_id, 0), 0, supports_epoch_bump=False)
    record = NewRecord(None, bytes(size), (), TIMESTAMP)
    batch = build_batch([record], producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True)
    # Without sequence numbers, so that every batch is a new one.
    partition.append(memoryview(batch), Admission(guard, from_coordinator=True))


def end_transaction(world: Running, producer_id: int, *, committed: bool) -> None:
    marker = EndTransactionMarker(producer_id, 0, 0, committed)
    world.broker.replicas.leader_of("topic", 0).append_marker(marker, 0)


class Consumer:
    """Sends fetches, keeps their session, and notes the replies without what differs between two brokers."""

    def __init__(self, world: Running, topic_id: TopicId, version: int) -> None:
        self.version = version
        self.session_id = 0
        self.seen: list[bytes] = []
        self._world = world
        self._connection: MemoryConnection = world.connect()
        self._topic_id = topic_id
        self._taken = 0
        """Replies that were taken from the connection."""

    def connect_again(self) -> None:
        self._connection.close()
        self._connection = self._world.connect()
        self._taken = 0

    def hang_up(self) -> None:
        self._connection.close()

    def send(
        self,
        wanted: list[tuple[int, int]],
        epoch: int,
        *,
        max_bytes: int = 1000,
        max_wait_ms: int = 0,
        min_bytes: int = 1,
        isolation_level: int = 0,
        forgotten: tuple[int, ...] = (),
        last_fetched_epoch: int = -1,
    ) -> None:
        partitions = [
            FetchPartition(
                partition=index,
                fetch_offset=offset,
                partition_max_bytes=max_bytes,
                last_fetched_epoch=last_fetched_epoch,
            )
            for index, offset in wanted
        ]
        topics = [FetchTopic(topic="topic", topic_id=self._topic_id, partitions=partitions)] if wanted else []
        gone = [ForgottenTopic(topic="topic", topic_id=self._topic_id, partitions=list(forgotten))]
        request = FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=5000,
            isolation_level=isolation_level,
            session_id=self.session_id,
            session_epoch=epoch,
            topics=topics,
            forgotten_topics_data=gone if forgotten else [],
        )
        self._connection.push(encode_request(request, self.version, 1000 + len(self.seen)))

    @property
    def is_answered(self) -> bool:
        return len(self._connection.frames()) > self._taken

    def take(self) -> FetchResponse:
        assert self.is_answered
        response = self._connection.reply(self._taken, FetchResponse, self.version)
        frame = bytes(self._connection.frames()[self._taken])
        for differs in (self._topic_id, response.session_id.to_bytes(4) if response.session_id else b""):
            frame = frame.replace(differs, b"-") if differs else frame
        self.seen.append(frame)
        self._taken += 1
        self.session_id = response.session_id or self.session_id
        return response


async def new_consumer(world: Running, version: int) -> Consumer:
    topic = CreatableTopic(name="topic", num_partitions=3, replication_factor=1)
    reply = await world.call(CreateTopicsRequest(topics=[topic], timeout_ms=1000), 7, CreateTopicsResponse)
    return Consumer(world, reply.topics[0].topic_id, version)


async def wander(world: Running, version: int, seed: int, *, connect_again: bool) -> list[bytes]:
    """A consumer that mostly goes on with its session, and sometimes does anything else."""
    consumer, chance, epoch = await new_consumer(world, version), random.Random(seed), 0
    level = chance.choice([0, 1])
    for _ in range(250):
        if chance.random() < 0.5:
            append(world, chance.choice([0, 0, 1]), chance.choice([10, 100, 127, 400, 1500]))
        if chance.random() < 0.05:
            world.broker.replicas.leader_of("topic", 0).delete_records_before(-1)
        if chance.random() < 0.2:
            append_in_transaction(world, chance.choice([7, 8]), 50)
        if chance.random() < 0.15:
            end_transaction(world, chance.choice([7, 8]), committed=chance.random() < 0.7)
        wanted = [(chance.choice([0] * 6 + [1] * 3 + [7]), chance.choice([*range(30), -1, 9999]))]
        strange = chance.random()
        if strange < 0.05:
            wanted = []
        elif strange < 0.1:
            wanted.append((2, 0))
        epoch = chance.choice([epoch] * 15 + [0, -1, 77])
        forgotten = (1, 2, 7) if 0.1 < strange < 0.2 else ()
        if connect_again:
            consumer.connect_again()
        consumer.send(wanted, epoch, isolation_level=level, forgotten=forgotten)
        response = consumer.take()
        if epoch == 0 or response.error_code:
            epoch = 1 if response.session_id else 0
        elif epoch > 0:
            epoch += 1
    return consumer.seen


@pytest.mark.parametrize("version", VERSIONS)
@asynchronous
async def test_what_a_connection_remembers_makes_no_difference(tmp_path: Path, version: int) -> None:
    async with running(tmp_path / "one") as world:
        one = await wander(world, version, version, connect_again=False)
    async with running(tmp_path / "each") as world:
        assert await wander(world, version, version, connect_again=True) == one


@asynchronous
async def test_a_fetch_waits_for_records_or_for_its_time_to_run_out(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        consumer = await new_consumer(world, 12)
        append(world, 0, 10)
        for offset, sizes in ((1, [10]), (2, [50, 50]), (4, [])):
            consumer.send([(0, offset)], -1, max_wait_ms=500)
            assert not consumer.is_answered
            for size in sizes:
                append(world, 0, size)
            if sizes:
                await settle()
            else:
                await world.clock.advance(0.6)
            [partition] = consumer.take().responses[0].partitions
            assert partition.high_watermark == offset + len(sizes)


@asynchronous
async def test_an_unknown_isolation_level_is_refused_however_often_it_is_sent(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        consumer = await new_consumer(world, 12)
        append(world, 0, 10)
        for _ in range(20):
            consumer.send([(0, 0)], -1, isolation_level=7)
            response = consumer.take()
            assert response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
            assert response.responses[0].partitions[0].records == b""


@asynchronous
async def test_a_consumer_whose_history_differs_is_told_where(tmp_path: Path) -> None:
    """Kafka 4.3 looks at `last_fetched_epoch` of every reader, not only of followers."""
    async with running(tmp_path) as world:
        consumer = await new_consumer(world, 12)
        append(world, 0, 10)
        world.broker.replicas.leader_of("topic", 0).lead(LeaderEpoch(1))
        append(world, 0, 10)
        for offset, last_epoch, diverging, error in (
            (2, 0, (0, 1), ErrorCode.NONE),
            (1, 0, (-1, -1), ErrorCode.NONE),
            (2, 1, (-1, -1), ErrorCode.NONE),
            (2, 5, (-1, -1), ErrorCode.OFFSET_OUT_OF_RANGE),
        ):
            consumer.send([(0, offset)], -1, last_fetched_epoch=last_epoch)
            [partition] = consumer.take().responses[0].partitions
            assert (partition.diverging_epoch.epoch, partition.diverging_epoch.end_offset) == diverging
            assert partition.error_code == error


@asynchronous
async def test_a_waiting_fetch_keeps_the_next_request_waiting(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        consumer = await new_consumer(world, 12)
        append(world, 0, 10)
        consumer.send([(0, 1)], -1, max_wait_ms=500)
        consumer.send([(0, 0)], -1, max_wait_ms=500)
        assert not consumer.is_answered
        append(world, 0, 10)
        await until(lambda: consumer.is_answered)
        assert [len(consumer.take().responses[0].partitions) for _ in range(2)] == [1, 1]


@asynchronous
async def test_a_client_that_goes_away_just_before_its_answer(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with running(tmp_path) as world:
        consumer = await new_consumer(world, 12)
        append(world, 0, 10)
        consumer.send([(0, 1)], -1, max_wait_ms=500)
        append(world, 0, 10)
        consumer.hang_up()
        await settle()
        assert not consumer.is_answered
        assert not world.broker.replicas.leader_of("topic", 0).waiters
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


@asynchronous
async def test_a_fetch_that_has_waited_leaves_no_garbage(tmp_path: Path) -> None:
    """What refers to itself stays until the collector finds it, which costs more than all the rest of a long-poll."""
    async with running(tmp_path) as world:
        consumer = await new_consumer(world, 12)
        append(world, 0, 10)
        gc.collect()
        gc.disable()
        try:
            for offset in range(1, 3):
                consumer.send([(0, offset)], -1, max_wait_ms=500)
                append(world, 0, 10)
                await settle()
                consumer.take()
            assert gc.collect() == 0
        finally:
            gc.enable()


@asynchronous
async def test_a_reader_of_committed_records_waits_for_the_end_of_a_transaction(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        consumer = await new_consumer(world, 12)
        append(world, 0, 10)
        consumer.send([(0, 1)], -1, max_wait_ms=500, isolation_level=READ_COMMITTED)
        append_in_transaction(world, 7, 50)
        append(world, 0, 10)
        await settle()
        assert not consumer.is_answered, "it may not even be told that there is something it cannot have yet"
        end_transaction(world, 7, committed=False)
        await settle()
        [partition] = consumer.take().responses[0].partitions
        assert (partition.high_watermark, partition.last_stable_offset) == (4, 4)
        aborted = partition.aborted_transactions
        assert aborted is not None
        assert [(it.producer_id, it.first_offset) for it in aborted] == [(7, 1)]
        assert partition.records is not None
        assert len(partition.records) > 2 * MARKER_SIZE


@asynchronous
async def test_a_reader_of_committed_records_waits_for_enough_of_them(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        consumer = await new_consumer(world, 12)
        consumer.send([(0, 0)], -1, max_wait_ms=500, min_bytes=400, isolation_level=READ_COMMITTED)
        append_in_transaction(world, 7, 100)
        end_transaction(world, 7, committed=True)
        await settle()
        assert not consumer.is_answered
        append_in_transaction(world, 8, 500)
        await settle()
        assert not consumer.is_answered
        end_transaction(world, 8, committed=True)
        await settle()
        [partition] = consumer.take().responses[0].partitions
        assert partition.last_stable_offset == 4
