"""A transactional producer without a client: what its requests make the broker do, one step at a time."""

from ottla.errors import ErrorCode
from ottla.groups.commands import PartitionCommit, TxnCommit
from ottla.model import Producer, TopicPartition
from ottla.records.builder import NewRecord, build_batch
from ottla.records.header import iter_headers
from ottla.records.reader import read_records
from ottla.replication.partition import Admission, Partition
from ottla.txn.commands import PROTOCOL_1, PROTOCOL_2, AddPartitions, EndTxn, InitProducerId
from tests.coordinator.world import Broker

TIMEOUT_MS = 60_000


class TransactionalProducer:
    """Speaks protocol 2 unless told otherwise. Lives longer than its broker: give it the next one as `broker`."""

    def __init__(self, broker: Broker, transactional_id: str = "t", *, protocol: int = PROTOCOL_2) -> None:
        self.broker = broker
        self.transactional_id = transactional_id
        self.protocol = protocol
        self.producer = Producer(-1, -1)
        self._sequences: dict[TopicPartition, int] = {}

    async def init(self, timeout_ms: int = TIMEOUT_MS) -> ErrorCode:
        command = InitProducerId(self.transactional_id, timeout_ms)
        result = await self.broker.transactions.init_producer_id(command)
        if result.error is ErrorCode.NONE:
            self._become(Producer(result.producer_id, result.producer_epoch))
        return result.error

    def _become(self, producer: Producer) -> None:
        if producer != self.producer:
            self.producer = producer
            self._sequences.clear()

    async def send(self, value: bytes, partition: TopicPartition) -> ErrorCode:
        """What Produce does, and before it AddPartitionsToTxn if the protocol has that."""
        leader = self.broker.replicas.leader_of(*partition)
        sequence = self._sequences.get(partition, 0)
        adds = self.protocol == PROTOCOL_2
        guard = leader.begin_verification(self.producer, sequence, supports_epoch_bump=adds)
        if guard is not None:
            error = await self.add(partition) if not adds else ErrorCode.NONE
            if error is ErrorCode.NONE:
                refused = await self.broker.transactions.admit(
                    self.transactional_id, self.producer, [partition], add=adds
                )
                error = refused.get(partition, ErrorCode.NONE)
            if error is not ErrorCode.NONE:
                return error
        batch = build_batch(
            [NewRecord(None, value, (), self.broker.clock.time_ms())],
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.producer_epoch,
            base_sequence=sequence,
            transactional=True,
        )
        wait = leader.append(memoryview(batch), Admission(guard)).wait
        self._sequences[partition] = sequence + 1
        if wait is not None:
            await wait
        return ErrorCode.NONE

    async def add(self, *partitions: TopicPartition) -> ErrorCode:
        command = AddPartitions(self.transactional_id, self.producer, partitions, PROTOCOL_1)
        return (await self.broker.transactions.add_partitions(command)).errors[0]

    async def commit_offset(self, group: str, partition: TopicPartition, offset: int) -> ErrorCode:
        """TxnOffsetCommit, and before it AddOffsetsToTxn if the protocol has that."""
        topic_id = self.broker.metadata.image.topics[partition.topic].topic_id
        commit = TxnCommit(group, self.producer, [PartitionCommit(*partition, offset, topic_id=topic_id)])
        adds = self.protocol == PROTOCOL_2
        place = self.broker.groups.partition_of(group)
        if not adds:
            error = await self.add(place)
            if error is not ErrorCode.NONE:
                return error
        guard = self.broker.groups.begin_verification(commit, supports_epoch_bump=adds)
        if guard is not None:
            refused = await self.broker.transactions.admit(self.transactional_id, self.producer, [place], add=adds)
            if refused:
                return refused[place]
        return (await self.broker.groups.commit_txn(commit, guard)).errors[0]

    async def end(self, *, committed: bool) -> ErrorCode:
        command = EndTxn(self.transactional_id, self.producer, committed, self.protocol)
        result = await self.broker.transactions.end_txn(command)
        if result.error is ErrorCode.NONE and self.protocol == PROTOCOL_2:
            self._become(Producer(result.producer_id, result.producer_epoch))
        return result.error

    @property
    def state(self) -> str:
        return self.broker.transactions.describe(self.transactional_id).state


def committed_values(partition: Partition) -> list[bytes]:
    """What a reader of committed records makes of a partition, by the rules for clients: leave out the records of a
    producer from the beginning of a transaction that the broker calls aborted up to the next marker of its own."""
    values: list[bytes] = []
    offset = partition.log.log_start_offset
    while offset < partition.last_stable_offset:
        found, aborted = partition.read_committed(offset, 1 << 20)
        assert found.file is not None
        data = memoryview(found.file.read(found.size, found.position))
        waiting = sorted(aborted, key=lambda transaction: transaction.first_offset)
        skipped: set[int] = set()
        for position, header in iter_headers(data):
            while waiting and waiting[0].first_offset <= header.last_offset:
                skipped.add(waiting.pop(0).producer_id)
            if header.is_control:
                skipped.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in skipped):
                for record in read_records(data[position : position + header.size]):
                    assert record.value is not None
                    values.append(record.value)
        offset = found.next_offset
    return values
