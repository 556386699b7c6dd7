"""The simulated clients. They use the wire protocol over the simulated network, and retry as real clients do."""

from __future__ import annotations

import asyncio
import random
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from ottla.client.client import Client, ClientSettings
from ottla.client.failures import RETRIABLE, ClientError, check
from ottla.client.fetch import Fetcher, FetchSettings
from ottla.env.network import Address
from ottla.errors import ErrorCode, KafkaError
from ottla.model import TopicPartition
from ottla.records.builder import NewRecord, build_batch
from ottla.records.header import iter_headers
from ottla.records.reader import read_records
from ottla.wire.api.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.api.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.wire.api.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic, OffsetFetchResponse
from ottla.wire.api.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from sim.checks import check_replicated
from sim.cluster import BROKERS
from sim.loop import EPOCH_MS
from sim.plan import COPIES, COPY_PARTITIONS, TOPIC

if TYPE_CHECKING:
    from sim.cluster import Cluster
    from sim.history import History

_NAMED_PRODUCE = 12
NAMED_COMMIT = 9
ONE_GROUP_FETCH = 7
_GROUP = "readers"
_BACKOFF = 0.1

_TOO_FEW = (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
PASSING = RETRIABLE | {*_TOO_FEW, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER}
"""Errors after which clients retry. A leader that does not know yet that it was replaced may lack records of its
successor, and so return OUT_OF_ORDER_SEQUENCE_NUMBER."""


class SimClient(ABC):
    """A process that sends requests to the cluster until it is told to stop."""

    def __init__(self, cluster: Cluster, history: History, name: str) -> None:
        self.name = name
        self.cluster = cluster
        self.history = history
        self.chance = random.Random(f"{cluster.plan.seed} {name}")
        self.loop = cluster.new_process(name)
        self.stopping = False
        self.running = 0
        bootstrap = [Address(f"broker{broker_id}", 9092) for broker_id in BROKERS]
        self.chance.shuffle(bootstrap)
        self.client = Client(
            bootstrap,
            ClientSettings(client_id=name, connect_timeout=1.0, request_timeout=3.0, retry_timeout=2.0),
        )

    @property
    def is_done(self) -> bool:
        return self.running == 0

    def start(self) -> None:
        self.running += 1
        self.loop.call_soon(lambda: self.loop.create_task(self._run()))

    async def _run(self) -> None:
        try:
            await self.work()
        finally:
            self.running -= 1

    @abstractmethod
    async def work(self) -> None:
        """The main task of the client."""

    async def back_off(self) -> None:
        self.client.forget_leaders([TOPIC])
        await asyncio.sleep(_BACKOFF * self.chance.uniform(0.5, 2))


class Admin(SimClient):
    """Creates the topics."""

    async def work(self) -> None:
        plan = self.cluster.plan
        configs = [CreatableTopicConfig(name=name, value=value) for name, value in plan.topic_settings.items()]
        sizes = {TOPIC: plan.partitions, **({COPIES: COPY_PARTITIONS} if plan.copies else {})}
        topics = [
            CreatableTopic(name=name, num_partitions=size, replication_factor=len(BROKERS), configs=configs)
            for name, size in sizes.items()
        ]
        while True:
            try:
                reply = await self.client.call(None, CreateTopicsRequest(topics=topics), CreateTopicsResponse)
                there = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
                if all(topic.error_code in there for topic in reply.topics):
                    return
            except ClientError:
                pass
            await asyncio.sleep(_BACKOFF)


class Producer(SimClient):
    """Idempotent, acks=all. Sends each batch until it is acknowledged, with one sequence of batches per partition."""

    async def work(self) -> None:
        producer_id = await self._producer_id()
        lines = [self._line(producer_id, index) for index in range(self.cluster.plan.partitions)]
        await asyncio.gather(*lines)

    async def _producer_id(self) -> int:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        while True:
            try:
                reply = await self.client.call(None, request, InitProducerIdResponse)
                check(reply.error_code, "a producer id")
                return reply.producer_id
            except (ClientError, KafkaError):
                await self.back_off()

    async def _line(self, producer_id: int, index: int) -> None:
        plan, partition = self.cluster.plan, TopicPartition(TOPIC, index)
        number = 0
        while not self.stopping:
            count = self.chance.randint(1, 3)
            values = [b"%s/%d/%06d" % (self.name.encode(), index, number + i) for i in range(count)]
            self.history.sent.update(values)
            batch = build_batch(
                [NewRecord(None, value, timestamp=EPOCH_MS + round(self.loop.time() * 1000)) for value in values],
                producer_id=producer_id,
                producer_epoch=0,
                base_sequence=number,
            )
            await self._send_until_acknowledged(partition, batch, values)
            number += count
            await asyncio.sleep(self.chance.expovariate(6.0 / plan.producers / plan.partitions))

    async def _send_until_acknowledged(self, partition: TopicPartition, batch: bytearray, values: list[bytes]) -> None:
        while True:
            sent_at = self.cluster.scheduler.now
            try:
                base_offset = await self._send(partition, batch)
            except ClientError:
                await self.back_off()
            except KafkaError as error:
                if error.code not in PASSING:
                    self.history.violations.append(f"{partition}: {values[0]!r} was rejected with {error.code.name}")
                    return
                await self.back_off()
            else:
                self.cluster.note(self.name, "acknowledged", partition, base_offset, values[0].decode())
                self.history.acknowledge(partition, base_offset, values)
                last_offset = base_offset + len(values) - 1
                self.history.violations += check_replicated(self.cluster, partition, last_offset, sent_at)
                return

    async def _send(self, partition: TopicPartition, batch: bytearray) -> int:
        leader = await self.client.leader(partition)
        data = TopicProduceData(
            name=partition.topic,
            partition_data=[PartitionProduceData(index=partition.partition, records=bytes(batch))],
        )
        request = ProduceRequest(acks=-1, timeout_ms=1500, topic_data=[data])
        reply = await self.client.call(leader, request, ProduceResponse, highest=_NAMED_PRODUCE)
        [answer] = reply.responses[0].partition_responses
        check(answer.error_code, str(partition))
        return answer.base_offset


class Consumer(SimClient):
    """Reads every partition from its beginning up to the high watermark."""

    async def work(self) -> None:
        indexes = range(self.cluster.plan.partitions)
        await asyncio.gather(*(self._read(TopicPartition(TOPIC, index)) for index in indexes))

    async def _read(self, partition: TopicPartition) -> None:
        fetcher = Fetcher(self.client, partition, FetchSettings(max_wait_ms=1000))
        offset = 0
        while not self.stopping:
            try:
                fetched = await fetcher.fetch(offset)
            except (ClientError, KafkaError):
                await self.back_off()
                continue
            for position, header in iter_headers(fetched.records):
                for record in read_records(fetched.records[position : position + header.size]):
                    if record.offset >= offset:
                        self.history.see(partition, record.offset, record.value or b"")
                        offset = record.offset + 1
            await asyncio.sleep(self.chance.expovariate(4.0))


class Committer(SimClient):
    """Commits ascending offsets for a group without members, and reads them back."""

    async def work(self) -> None:
        while not self.stopping:
            self.history.committing += 1
            await self._until_it_works(self._commit)
            self.history.committed = self.history.committing
            await asyncio.sleep(self.chance.expovariate(2.0))

    async def _until_it_works(self, attempt: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await attempt()
                return
            except ClientError:
                await self.back_off()
            except KafkaError as error:
                if error.code not in PASSING:
                    self.history.violations.append(f"a commit was rejected with {error.code.name}")
                    return
                await self.back_off()

    async def _commit(self) -> None:
        coordinator = await self.client.coordinator(_GROUP)
        wanted = OffsetCommitRequestPartition(
            partition_index=0, committed_offset=self.history.committing, committed_metadata=""
        )
        request = OffsetCommitRequest(
            group_id=_GROUP, topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=[wanted])]
        )
        reply = await self.client.call(coordinator, request, OffsetCommitResponse, highest=NAMED_COMMIT)
        check(reply.topics[0].partitions[0].error_code, "a commit")
        self.cluster.note(self.name, "committed", self.history.committing)

    async def read_back(self) -> int:
        coordinator = await self.client.coordinator(_GROUP)
        topic = OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[0])
        request = OffsetFetchRequest(group_id=_GROUP, topics=[topic])
        reply = await self.client.call(coordinator, request, OffsetFetchResponse, highest=ONE_GROUP_FETCH)
        check(reply.error_code, "committed offsets")
        [answer] = reply.topics[0].partitions
        check(answer.error_code, "committed offsets")
        return answer.committed_offset


class Auditor(Committer):
    """Reads the committed offset after the run."""

    found: int | None = None

    async def work(self) -> None:
        async def look() -> None:
            self.found = await self.read_back()

        await self._until_it_works(look)
