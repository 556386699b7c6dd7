"""The transaction coordinator of this broker. It passes each command to the shard of the id's partition."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

from ottla.client.failures import ClientError
from ottla.coordinator.journal import PartitionJournal, decode_batch
from ottla.coordinator.replayer import Replayer
from ottla.coordinator.shard import Shard
from ottla.coordinator.shards import Shards
from ottla.env.clock import period_seconds
from ottla.errors import ErrorCode, KafkaError
from ottla.model import TRANSACTION_STATE_TOPIC
from ottla.records.control import EndTransactionMarker
from ottla.records.format import Codec
from ottla.txn.commands import PROTOCOL_2, AddPartitions
from ottla.txn.core import TxnCore
from ottla.txn.effects import Outcome
from ottla.txn.parameters import TxnParameters
from ottla.txn.records import TransactionStored, decode, encode
from ottla.txn.state import ONGOING
from ottla.wire.api.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

if TYPE_CHECKING:
    from ottla.cluster.image import ClusterImage
    from ottla.config.broker import BrokerConfig
    from ottla.coordinator.journal import Write
    from ottla.coordinator.markers import Markers
    from ottla.coordinator.producer_ids import ProducerIds
    from ottla.coordinator_core.effects import Now
    from ottla.env.background import Background
    from ottla.env.clock import Clock, Timer
    from ottla.metadata.cluster_metadata import ClusterMetadata
    from ottla.metadata.peers import Peers
    from ottla.model import Producer, TopicPartition
    from ottla.records.header import BatchHeader
    from ottla.replication.partition import Admission, Partition
    from ottla.replication.replicas import Replicas
    from ottla.txn.commands import EndTxn, InitProducerId
    from ottla.txn.effects import Marker, WriteMarkers
    from ottla.txn.listing import TransactionFilter
    from ottla.txn.records import Record
    from ottla.txn.results import (
        AddPartitionsResult,
        DescribedTransaction,
        EndTxnResult,
        InitProducerIdResult,
        ListedTransaction,
    )

TxnShard: TypeAlias = Shard[TxnCore, Outcome]


class TransactionCoordinator:
    def __init__(
        self,
        metadata: ClusterMetadata,
        replicas: Replicas,
        producer_ids: ProducerIds,
        markers: Markers,
        peers: Peers,
        clock: Clock,
        background: Background,
    ) -> None:
        self._metadata = metadata
        self._peers = peers
        self._producer_ids = producer_ids
        self._markers = markers
        self._clock = clock
        self._background = background
        self._shards: Shards[TxnCore, Outcome] = Shards(
            TRANSACTION_STATE_TOPIC, metadata, replicas, clock, new_shard=self._new_shard, load=_load
        )
        self._expiry: Timer | None = None

    def start(self) -> None:
        self._schedule_expiry()

    def stop(self) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
        self._shards.stop()

    def apply(self, image: ClusterImage, config: BrokerConfig) -> None:
        """Apply a cluster image. The replicas and the groups must have applied it before."""
        self._shards.apply(image, config)

    def _new_shard(self, partition: Partition, config: BrokerConfig, on_failed: Callable[[TxnShard], None]) -> TxnShard:
        core = TxnCore(_parameters(config), partition.leader_epoch, self._producer_ids.take)
        journal = TxnJournal(PartitionJournal(partition, self._clock, encode, Codec.NONE))
        shard: TxnShard

        def committed(outcome: Outcome) -> None:
            for markers in outcome.markers:
                self._write_markers(shard, markers)

        shard = Shard(
            partition,
            core,
            journal,
            self._clock,
            Replayer(partition, self._clock, self._background, partial(_read_batch, core, partition)),
            on_failed=on_failed,
            committed=committed,
        )
        return shard

    def _write_markers(self, shard: TxnShard, wanted: WriteMarkers) -> None:
        marker = wanted.marker
        self._markers.write(
            EndTransactionMarker(marker.producer_id, marker.producer_epoch, marker.coordinator_epoch, marker.committed),
            marker.protocol,
            wanted.partitions,
            partial(_report, shard, marker),
        )

    def _schedule_expiry(self) -> None:
        interval = self._metadata.config.integer("transaction.remove.expired.transaction.cleanup.interval.ms")
        self._expiry = self._clock.call_later(period_seconds(interval), self._expire)

    def _expire(self) -> None:
        for shard in self._shards.loaded():
            shard.start(_expire(shard, shard.now()))
        self._schedule_expiry()

    async def locate(self, transactional_id: str) -> int:
        """The broker that coordinates a transactional id. Creates the topic of transactions if it does not exist."""
        return await self._shards.locate(transactional_id, self._metadata.create_transaction_topic)

    # Commands

    async def init_producer_id(self, command: InitProducerId) -> InitProducerIdResult:
        await self._producer_ids.fill()
        return await self._shards.run(
            command.transactional_id, lambda core, token, now: core.init_producer_id(token, command, now)
        )

    async def add_partitions(self, command: AddPartitions) -> AddPartitionsResult:
        return await self._shards.run(
            command.transactional_id, lambda core, token, now: core.add_partitions(token, command, now)
        )

    def verify_partitions(self, command: AddPartitions) -> tuple[ErrorCode, ...]:
        return self._shards.find(command.transactional_id).core.verify_partitions(command)

    async def end_txn(self, command: EndTxn) -> EndTxnResult:
        return await self._shards.run(
            command.transactional_id, lambda core, token, now: core.end_txn(token, command, now)
        )

    async def admit(
        self, transactional_id: str, producer: Producer, partitions: Sequence[TopicPartition], *, add: bool
    ) -> dict[TopicPartition, ErrorCode]:
        """Ask the coordinator of a transaction whether partitions are part of it; with `add`, add them (KIP-890).

        Returns the errors of refused partitions. If the markers of the previous transaction are not written yet, this
        broker retries an addition for a while, as in Kafka, so that the client need not.
        """
        config = self._metadata.config
        pause = config.integer("add.partitions.to.txn.retry.backoff.ms") / 1000
        deadline = self._clock.monotonic() + config.integer("add.partitions.to.txn.retry.backoff.max.ms") / 1000
        command = AddPartitions(transactional_id, producer, partitions, PROTOCOL_2)
        while True:
            errors = await self._ask(command, add)
            if ErrorCode.CONCURRENT_TRANSACTIONS not in errors or not add or self._clock.monotonic() >= deadline:
                break
            await self._pause(pause)
        return {
            partition: error for partition, error in zip(partitions, errors, strict=True) if error is not ErrorCode.NONE
        }

    async def _ask(self, command: AddPartitions, add: bool) -> Sequence[ErrorCode]:
        """Ask the coordinator of the transaction, here or on another broker."""
        try:
            coordinator = await self.locate(command.transactional_id)
            if coordinator != self._metadata.broker_id:
                return await self._ask_peer(coordinator, command, add)
            return (await self.add_partitions(command)).errors if add else self.verify_partitions(command)
        except KafkaError as error:
            return (error.code,) * len(command.partitions)
        except ClientError:
            return (ErrorCode.NETWORK_EXCEPTION,) * len(command.partitions)
        except ValueError:
            # A broker of a later release returned an error code that this broker does not know.
            return (ErrorCode.UNKNOWN_SERVER_ERROR,) * len(command.partitions)

    async def _ask_peer(self, coordinator: int, command: AddPartitions, add: bool) -> Sequence[ErrorCode]:
        topics: dict[str, AddPartitionsToTxnTopic] = {}
        for topic, index in command.partitions:
            topics.setdefault(topic, AddPartitionsToTxnTopic(name=topic)).partitions.append(index)
        transaction = AddPartitionsToTxnTransaction(
            transactional_id=command.transactional_id,
            producer_id=command.producer.producer_id,
            producer_epoch=command.producer.producer_epoch,
            verify_only=not add,
            topics=list(topics.values()),
        )
        response = await self._peers.call(
            coordinator, AddPartitionsToTxnRequest(transactions=[transaction]), AddPartitionsToTxnResponse
        )
        if response.error_code:
            raise KafkaError(ErrorCode(response.error_code))
        answers = {
            (topic.name, result.partition_index): ErrorCode(result.partition_error_code)
            for answer in response.results_by_transaction
            for topic in answer.topic_results
            for result in topic.results_by_partition
        }
        return [
            answers.get((partition.topic, partition.partition), ErrorCode.UNKNOWN_SERVER_ERROR)
            for partition in command.partitions
        ]

    async def _pause(self, seconds: float) -> None:
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._clock.call_later(seconds, over.set_result, None)
        await over

    # Queries

    def describe(self, transactional_id: str) -> DescribedTransaction:
        return self._shards.find(transactional_id).core.describe(transactional_id)

    def list(self, wanted: TransactionFilter) -> Iterator[ListedTransaction | None]:
        """See `TxnCore.list_transactions`. Raises KafkaError at once and while the caller iterates."""
        return chain.from_iterable([shard.core.list_transactions(wanted, shard.now()) for shard in self._shards.all()])


_END_RESERVE = 64
"""Bytes by which the record that ends a transaction may be larger than the record that extends it."""


class TxnJournal:
    """Rejects an extension of a transaction if the record of its end would be too large for a batch."""

    def __init__(self, partition: PartitionJournal[Record]) -> None:
        self._partition = partition

    def encode(self, outcome: Outcome, admission: Admission | None) -> Write:
        extends = any(isinstance(record, TransactionStored) and record.state is ONGOING for record in outcome.records)
        return self._partition.encode(outcome.records, reserve=_END_RESERVE if extends else 0)


async def _expire(shard: TxnShard, now: Now) -> None:
    for transactional_ids in shard.core.portions():
        await shard.perform_all(partial(shard.core.expire, now, transactional_ids))
        await asyncio.sleep(0)


async def _load(shard: TxnShard, config: BrokerConfig) -> None:
    await shard.load()


def _read_batch(
    core: TxnCore, partition: Partition, header: BatchHeader, batch: memoryview
) -> Iterable[Callable[[], None]]:
    if not header.is_control:
        records: list[Record] = decode_batch(batch, decode, partition)
        for record in records:
            yield partial(core.replay, record)


def _report(shard: TxnShard, marker: Marker, partition: TopicPartition, error: ErrorCode) -> None:
    if shard.loaded:
        # A deleted partition needs no marker.
        code = ErrorCode.NONE if error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else error
        shard.execute(lambda: shard.core.markers_written(marker, {partition: code}, shard.now()))


def _parameters(config: BrokerConfig) -> TxnParameters:
    return TxnParameters(
        transaction_max_timeout_ms=config.integer("transaction.max.timeout.ms"),
        transactional_id_expiration_ms=config.integer("transactional.id.expiration.ms"),
    )
