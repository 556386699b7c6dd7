"""Transactional Produce requests on a connection that waits for their verification."""

from pathlib import Path

from ottla.errors import ErrorCode
from ottla.records.builder import NewRecord, build_batch
from ottla.wire.api.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.api.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tests.server.worlds import MemoryConnection, Running, asynchronous, running, settle, until

VERSION = 12
"""The first version in which the broker adds partitions to the transaction."""


class Producer:
    def __init__(self, world: Running, transactional_id: str) -> None:
        self.connection: MemoryConnection = world.connect()
        self._world = world
        self._id = transactional_id
        self._producer = (-1, -1)
        self._sequence = 0

    async def init(self) -> None:
        world = self._world
        find = FindCoordinatorRequest(coordinator_keys=[self._id], key_type=1)
        reply = await world.call(find, 6, FindCoordinatorResponse)
        assert reply.coordinators[0].error_code == ErrorCode.NONE
        await settle()
        request = InitProducerIdRequest(transactional_id=self._id, transaction_timeout_ms=60_000)
        found = await world.call(request, 5, InitProducerIdResponse)
        assert found.error_code == ErrorCode.NONE
        self._producer = (found.producer_id, found.producer_epoch)

    def send(self, topic: str, value: bytes) -> None:
        batch = build_batch(
            [NewRecord(None, value, (), self._world.clock.time_ms())],
            producer_id=self._producer[0],
            producer_epoch=self._producer[1],
            base_sequence=self._sequence,
            transactional=True,
        )
        self._sequence += 1
        data = PartitionProduceData(index=0, records=bytes(batch))
        request = ProduceRequest(
            transactional_id=self._id,
            acks=-1,
            timeout_ms=1000,
            topic_data=[TopicProduceData(name=topic, partition_data=[data])],
        )
        self.connection.request(request, VERSION)

    async def answers(self, count: int) -> list[ErrorCode]:
        await until(lambda: len(self.connection.frames()) >= count)
        replies = [self.connection.reply(index, ProduceResponse, VERSION) for index in range(count)]
        return [ErrorCode(reply.responses[0].partition_responses[0].error_code) for reply in replies]


def stored(world: Running, topic: str) -> bytes:
    found = world.broker.replicas.leader_of(topic, 0).read(0, 1 << 20)
    return b"" if found.file is None else found.file.read(found.size, found.position)


@asynchronous
async def test_a_batch_that_waits_for_its_verification_keeps_its_bytes(tmp_path: Path) -> None:
    """All connections share one receive buffer, and another request arrives before the coordinator's reply."""
    async with running(tmp_path) as world:
        await world.broker.metadata.create_topic("a", partitions=1)
        await world.broker.metadata.create_topic("b", partitions=1)
        first, second = Producer(world, "first"), Producer(world, "second")
        await first.init()
        await second.init()
        first.send("a", b"of the first")
        second.send("b", b"of the second")
        assert await first.answers(1) == [ErrorCode.NONE]
        assert await second.answers(1) == [ErrorCode.NONE]
        assert b"of the first" in stored(world, "a")
        assert b"of the second" in stored(world, "b")


@asynchronous
async def test_batches_do_not_overtake_one_that_is_verified(tmp_path: Path) -> None:
    async with running(tmp_path) as world:
        await world.broker.metadata.create_topic("a", partitions=1)
        producer = Producer(world, "t")
        await producer.init()
        for number in range(5):
            producer.send("a", b"%d" % number)
        assert await producer.answers(5) == [ErrorCode.NONE] * 5
        assert world.broker.replicas.leader_of("a", 0).log.end_offset == 5
