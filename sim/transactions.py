"""Exactly once: group members that copy records in transactions, and a read_committed reader."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

from ottla.client.client import TRANSACTION
from ottla.client.failures import ClientError, check
from ottla.client.fetch import Fetched, Fetcher, FetchSettings
from ottla.client.offsets import READ_COMMITTED
from ottla.errors import ErrorCode, KafkaError
from ottla.model import TopicPartition
from ottla.records.builder import NewRecord, build_batch
from ottla.records.control import read_marker
from ottla.records.header import iter_headers
from ottla.records.reader import read_records
from ottla.wire.api.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from ottla.wire.api.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from ottla.wire.api.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.api.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from ottla.wire.api.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from sim.clients import PASSING, SimClient
from sim.inspection import log_end
from sim.loop import EPOCH_MS
from sim.members import GROUP, Member, Work
from sim.plan import COPIES, COPY_PARTITIONS, TOPIC
from sim.transaction_checks import Fate, Transaction

if TYPE_CHECKING:
    from ottla.wire.schema import Request, Response
    from sim.cluster import Cluster
    from sim.group_checks import Seat
    from sim.history import History

T = TypeVar("T")
R = TypeVar("R", bound="Response")

_TIMEOUT_MS = 4000
_RETRY_SECONDS = 4.0
_ABORT_CHANCE = 0.15

_PASSING = PASSING | {ErrorCode.CONCURRENT_TRANSACTIONS}
_OVER = {
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.TRANSACTION_ABORTABLE,
    ErrorCode.UNKNOWN_PRODUCER_ID,
}
"""The transaction was ended for the producer: it timed out, or another producer with the same id started."""


class TransactionalProducer:
    """One producer id and epoch, for one transaction after the other. After an error it is not used again.

    In protocol 1, requests of one transaction cannot be told from those of the next: a request without a response may
    still arrive and count for the next transaction. So only records, which have sequence numbers, are sent again. In
    protocol 2 (KIP-890) each transaction has its own epoch, and every request may be sent again.
    """

    def __init__(self, owner: SimClient, transactional_id: str, protocol: int) -> None:
        self._owner = owner
        self._client = owner.client
        self._id = transactional_id
        self._protocol = protocol
        self._coordinator: int | None = None
        self._producer_id = self._epoch = -1
        self._sequences: dict[int, int] = {}

    def __str__(self) -> str:
        return f"{self._id}, producer {self._producer_id}, epoch {self._epoch}"

    def _version(self, first: int, second: int) -> int:
        return first if self._protocol == 1 else second

    async def begin(self) -> None:
        """Initialize the producer. The coordinator ends the open transaction of a predecessor before this returns."""
        request = InitProducerIdRequest(transactional_id=self._id, transaction_timeout_ms=_TIMEOUT_MS)

        async def attempt() -> None:
            reply = await self._ask(request, InitProducerIdResponse, 5)
            check(reply.error_code, f"{self._id}: InitProducerId")
            self._producer_id, self._epoch = reply.producer_id, reply.producer_epoch

        await self._persist(attempt, again=True)

    async def add(self, partitions: Iterable[int]) -> None:
        if self._protocol != 1:
            return
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._id,
            v3_and_below_producer_id=self._producer_id,
            v3_and_below_producer_epoch=self._epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=COPIES, partitions=list(partitions))],
        )

        async def attempt() -> None:
            reply = await self._ask(request, AddPartitionsToTxnResponse, 3)
            for result in reply.results_by_topic_v3_and_below[0].results_by_partition:
                check(result.partition_error_code, f"{self._id}: AddPartitionsToTxn")

        await self._persist(attempt, again=False)

    async def send(self, index: int, values: Sequence[bytes]) -> None:
        sequence = self._sequences.get(index, 0)
        self._sequences[index] = sequence + len(values)
        now_ms = EPOCH_MS + round(self._owner.loop.time() * 1000)
        batch = build_batch(
            [NewRecord(None, value, timestamp=now_ms) for value in values],
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            base_sequence=sequence,
            transactional=True,
        )
        data = TopicProduceData(name=COPIES, partition_data=[PartitionProduceData(index=index, records=bytes(batch))])
        request = ProduceRequest(transactional_id=self._id, acks=-1, timeout_ms=1500, topic_data=[data])

        async def attempt() -> None:
            leader = await self._client.leader(TopicPartition(COPIES, index))
            reply = await self._client.call(leader, request, ProduceResponse, highest=self._version(11, 12))
            check(reply.responses[0].partition_responses[0].error_code, f"{self._id}: Produce to {index}")

        await self._persist(attempt, again=True)

    async def send_offsets(self, seat: Seat, works: Sequence[Work]) -> None:
        if self._protocol == 1:
            await self._persist(self._add_offsets, again=False)
        wanted = [
            TxnOffsetCommitRequestPartition(
                partition_index=work.partition.partition, committed_offset=work.next_offset, committed_metadata=""
            )
            for work in works
        ]
        request = TxnOffsetCommitRequest(
            transactional_id=self._id,
            group_id=GROUP,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            generation_id=seat.generation,
            member_id=seat.member_id,
            topics=[TxnOffsetCommitRequestTopic(name=TOPIC, partitions=wanted)],
        )

        async def attempt() -> None:
            coordinator = await self._client.coordinator(GROUP)
            reply = await self._client.call(coordinator, request, TxnOffsetCommitResponse, highest=self._version(4, 5))
            for answer in reply.topics[0].partitions:
                check(answer.error_code, f"{self._id}: TxnOffsetCommit")

        await self._persist(attempt, again=self._protocol != 1)

    async def _add_offsets(self) -> None:
        request = AddOffsetsToTxnRequest(
            transactional_id=self._id, producer_id=self._producer_id, producer_epoch=self._epoch, group_id=GROUP
        )
        reply = await self._ask(request, AddOffsetsToTxnResponse, 4)
        check(reply.error_code, f"{self._id}: AddOffsetsToTxn")

    async def end(self, *, committed: bool) -> None:
        request = EndTxnRequest(
            transactional_id=self._id,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            committed=committed,
        )

        async def attempt() -> None:
            reply = await self._ask(request, EndTxnResponse, self._version(4, 5))
            check(reply.error_code, f"{self._id}: EndTxn")
            if self._protocol != 1:
                self._producer_id, self._epoch = reply.producer_id, reply.producer_epoch
                self._sequences.clear()

        await self._persist(attempt, again=self._protocol != 1)

    async def _ask(self, request: Request, response: type[R], highest: int) -> R:
        if self._coordinator is None:
            self._coordinator = await self._client.coordinator(self._id, TRANSACTION)
        return await self._client.call(self._coordinator, request, response, highest=highest)

    async def _persist(self, attempt: Callable[[], Awaitable[T]], *, again: bool) -> T:
        """Retry until success, a permanent error or the timeout. `again`: also retry if there was no response."""
        give_up = self._owner.loop.time() + _RETRY_SECONDS
        while True:
            try:
                return await attempt()
            except ClientError:
                if not again or self._owner.loop.time() > give_up:
                    raise
            except KafkaError as error:
                if error.code not in _PASSING or self._owner.loop.time() > give_up:
                    raise
            self._coordinator = None
            self._client.forget_leaders([COPIES])
            await self._owner.back_off()


class Copier(Member):
    """Reads records, writes copies to partitions of another topic, and commits its offsets in one transaction."""

    expected = Member.expected | _PASSING | _OVER

    def __init__(self, cluster: Cluster, history: History, name: str, transactional_id: str) -> None:
        super().__init__(cluster, history, name)
        self._id = transactional_id
        self._producer: TransactionalProducer | None = None
        self._count = 0

    def be_born(self) -> None:
        super().be_born()
        self._producer = None

    async def retire(self) -> None:
        """End open transactions by initializing a producer with each id. They would also time out, but the time of that
        depends on the brokers' clocks, which differ by minutes here."""
        for transactional_id in (self._id, self.name):
            await _until_it_works(TransactionalProducer(self, transactional_id, self.cluster.plan.protocol).begin)

    async def handle(self, works: Sequence[Work]) -> bool:
        seat = self.life.seat
        assert seat is not None
        producer, self._producer = self._producer, None
        if producer is None:
            # While stopping, each member uses its own id: members that share one might fence each other forever.
            transactional_id = self.name if self.stopping else self._id
            producer = TransactionalProducer(self, transactional_id, self.cluster.plan.protocol)
            await producer.begin()
            self.cluster.note(self.name, "begins as", producer)
        aborted = self.chance.random() < _ABORT_CHANCE
        transaction = self._transaction(works)
        self.history.transactions.append(transaction)
        await producer.add(transaction.values)
        for index, values in transaction.values.items():
            await producer.send(index, values)
        if not aborted:
            await producer.send_offsets(seat, works)
            transaction.fate = Fate.UNKNOWN
        await producer.end(committed=not aborted)
        self._producer = producer
        self.cluster.note(self.name, "aborted" if aborted else "committed", transaction.name)
        if aborted:
            return False
        transaction.fate = Fate.COMMITTED
        for work in works:
            self.history.group.commit(work.partition, work.next_offset, self.cluster.scheduler.now)
        return True

    def _transaction(self, works: Sequence[Work]) -> Transaction:
        self._count += 1
        transaction = Transaction(f"{self.name}/{self._count}")
        for work in works:
            for offset in work.values:
                value = f"{transaction.name}/{work.partition.partition}/{offset}".encode()
                transaction.values.setdefault(self.chance.randrange(COPY_PARTITIONS), []).append(value)
        return transaction


async def _until_it_works(attempt: Callable[[], Awaitable[None]]) -> None:
    while True:
        try:
            await attempt()
            return
        except (ClientError, KafkaError):
            await asyncio.sleep(0.1)


class CommittedReader(SimClient):
    """Reads the copies up to the last stable offset and skips aborted records, as clients do."""

    async def work(self) -> None:
        await asyncio.gather(*(self._read(TopicPartition(COPIES, index)) for index in range(COPY_PARTITIONS)))

    async def _read(self, partition: TopicPartition) -> None:
        settings = FetchSettings(isolation=READ_COMMITTED, max_wait_ms=1000)
        fetcher = Fetcher(self.client, partition, settings)
        offset = 0
        while True:
            stopping = self.stopping
            try:
                fetched = await fetcher.fetch(offset)
            except (ClientError, KafkaError):
                await self.back_off()
                continue
            offset = self._see(partition, offset, fetched)
            if stopping and offset >= log_end(self.cluster, partition):
                return
            await asyncio.sleep(self.chance.expovariate(4.0))

    def _see(self, partition: TopicPartition, offset: int, fetched: Fetched) -> int:
        coming = [(each.first_offset, each.producer_id) for each in fetched.aborted]
        heapq.heapify(coming)
        aborted: set[int] = set()
        for position, header in iter_headers(fetched.records):
            batch = fetched.records[position : position + header.size]
            while coming and coming[0][0] <= header.last_offset:
                aborted.add(heapq.heappop(coming)[1])
            if header.is_control:
                marker = read_marker(batch, header)
                if marker is not None and not marker.committed:
                    aborted.discard(header.producer_id)
            elif header.producer_id not in aborted:
                for record in read_records(batch):
                    if record.offset >= offset:
                        self.history.see(partition, record.offset, record.value or b"")
            offset = max(offset, header.last_offset + 1)
        return offset
