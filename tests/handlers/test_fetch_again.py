"""The fast path of Fetch beside its slow twin: the same requests, to a broker that has it and to one that has not."""

import gc
import random
from pathlib import Path

import pytest

from ottla.handlers.fetch_again import FetchAgain
from ottla.model import READ_COMMITTED, Producer, TopicId
from ottla.records.builder import NewRecord, build_batch
from ottla.records.control import MARKER_SIZE, EndTransactionMarker
from ottla.replication.partition import Admission
from ottla.wire.api import FETCH
from ottla.wire.api.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.api.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ForgottenTopic
from tests.server.wire_client import encode_request
from tests.server.worlds import MemoryConnection, Running, asynchronous, running, settle, until

FAST_VERSIONS = range(7, FETCH.max_version + 1)
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

    def another(self) -> "Consumer":
        return Consumer(self._world, self._topic_id, self.version)

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
    ) -> None:
        partitions = [
            FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=max_bytes)
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
        return len(self._connection.frames()) > len(self.seen)

    def take(self) -> FetchResponse:
        assert self.is_answered
        response = self._connection.reply(len(self.seen), FetchResponse, self.version)
        frame = bytes(self._connection.frames()[len(self.seen)])
        for differs in (self._topic_id, response.session_id.to_bytes(4) if response.session_id else b""):
            frame = frame.replace(differs, b"-") if differs else frame
        self.seen.append(frame)
        self.session_id = response.session_id or self.session_id
        return response


class Counted:
    """How many requests took the fast path."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.fast = 0
        serve = FetchAgain.serve

        def counting(this: FetchAgain, frame: memoryview) -> object:
            reply = serve(this, frame)
            self.fast += reply is not None
            return reply

        monkeypatch.setattr(FetchAgain, "serve", counting)


def never_learn(*_: object) -> None:
    """In place of `FetchAgain.learn`: every request takes the slow way."""


async def new_consumer(world: Running, version: int) -> Consumer:
    topic = CreatableTopic(name="topic", num_partitions=3, replication_factor=1)
    reply = await world.call(CreateTopicsRequest(topics=[topic], timeout_ms=1000), 7, CreateTopicsResponse)
    return Consumer(world, reply.topics[0].topic_id, version)


async def wander(world: Running, version: int, seed: int) -> list[bytes]:
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
        consumer.send(wanted, epoch, isolation_level=level, forgotten=forgotten)
        response = consumer.take()
        if epoch == 0 or response.error_code:
            epoch = 1 if response.session_id else 0
        elif epoch > 0:
            epoch += 1
    return consumer.seen


@pytest.mark.parametrize("version", FAST_VERSIONS)
@asynchronous
async def test_both_ways_answer_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int) -> None:
    counted = Counted(monkeypatch)
    async with running(tmp_path / "fast") as world:
        fast = await wander(world, version, version)
    taken = counted.fast
    assert taken > 10
    monkeypatch.setattr(FetchAgain, "learn", never_learn)
    async with running(tmp_path / "slow") as world:
        slow = await wander(world, version, version)
    assert counted.fast == taken
    assert fast == slow


async def poll(world: Running) -> list[bytes]:
    consumer = await new_consumer(world, 12)
    append(world, 0, 10)
    for _ in range(4):
        consumer.send([(0, 0)], -1, max_wait_ms=500)
        consumer.take()
    for offset, sizes in ((1, [10]), (2, [50, 50]), (4, [])):
        consumer.send([(0, offset)], -1, max_wait_ms=500)
        assert not consumer.is_answered
        for size in sizes:
            append(world, 0, size)
        if sizes:
            await settle()
        else:
            await world.clock.advance(0.6)
        consumer.take()
    return consumer.seen


@asynchronous
async def test_both_ways_wait_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For the first record, for two that are appended together, and in vain."""
    counted = Counted(monkeypatch)
    async with running(tmp_path / "fast") as world:
        fast = await poll(world)
    assert counted.fast == 3
    monkeypatch.setattr(FetchAgain, "learn", never_learn)
    async with running(tmp_path / "slow") as world:
        assert await poll(world) == fast


@asynchronous
async def test_a_waiting_fetch_keeps_the_next_request_waiting(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        consumer = await new_consumer(world, 12)
        append(world, 0, 10)
        for _ in range(4):
            consumer.send([(0, 0)], -1, max_wait_ms=500)
            consumer.take()
        consumer.send([(0, 1)], -1, max_wait_ms=500)
        consumer.send([(0, 0)], -1, max_wait_ms=500)
        assert not consumer.is_answered
        append(world, 0, 10)
        await until(lambda: consumer.is_answered)
        assert [len(consumer.take().responses[0].partitions) for _ in range(2)] == [1, 1]


@asynchronous
async def test_what_one_connection_has_learned_all_know(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Counted(monkeypatch)
    async with running(tmp_path) as world:
        first = await new_consumer(world, 12)
        append(world, 0, 10)
        for _ in range(5):
            first.send([(0, 0)], -1)
            first.take()
        assert counted.fast == 1
        second = first.another()
        for _ in range(3):
            second.send([(0, 0)], -1)
            second.take()
        assert counted.fast == 3
        assert second.seen == first.seen[:3]


@asynchronous
async def test_a_client_that_goes_away_just_before_its_answer(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with running(tmp_path) as world:
        consumer = await new_consumer(world, 12)
        append(world, 0, 10)
        for _ in range(4):
            consumer.send([(0, 0)], -1, max_wait_ms=500)
            consumer.take()
        consumer.send([(0, 1)], -1, max_wait_ms=500)
        append(world, 0, 10)
        consumer.hang_up()
        await settle()
        assert not consumer.is_answered
        assert not world.broker.replicas.leader_of("topic", 0).waiters
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


@pytest.mark.parametrize("learned", [True, False], ids=["fast", "slow"])
@asynchronous
async def test_a_fetch_that_has_waited_leaves_no_garbage(tmp_path: Path, learned: bool) -> None:
    """What refers to itself stays until the collector finds it, which costs more than all the rest of a long-poll."""
    async with running(tmp_path) as world:
        consumer = await new_consumer(world, 12)
        append(world, 0, 10)
        for _ in range(4 if learned else 0):
            consumer.send([(0, 0)], -1, max_wait_ms=500)
            consumer.take()
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


@pytest.mark.parametrize("learned", [True, False], ids=["fast", "slow"])
@asynchronous
async def test_a_reader_of_committed_records_waits_for_the_end_of_a_transaction(tmp_path: Path, learned: bool) -> None:
    async with running(tmp_path) as world:
        consumer = await new_consumer(world, 12)
        append(world, 0, 10)
        for _ in range(4 if learned else 0):
            consumer.send([(0, 0)], -1, max_wait_ms=500, isolation_level=READ_COMMITTED)
            consumer.take()
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
