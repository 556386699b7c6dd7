"""Verifies that transactional batches may be appended: the coordinator must have their partitions in the transaction.

Up to Produce 11, clients add partitions to the transaction themselves, and the broker only asks the coordinator. From
Produce 12 on, the broker adds the partitions for the client (KIP-890).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from ottla.errors import ErrorCode, KafkaError
from ottla.log.verification import UNVERIFIED
from ottla.model import Producer
from ottla.records.format import ATTRIBUTES_AT, HEADER_SIZE, MAGIC, MAGIC_AT, TRANSACTIONAL_FLAG
from ottla.records.header import read_header
from ottla.replication.partition import Admission

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig
    from ottla.coordinator.transactions import TransactionCoordinator
    from ottla.log.verification import VerificationGuard
    from ottla.model import TopicPartition
    from ottla.records.header import BatchHeader
    from ottla.replication.replicas import Replicas

_ADDS_SINCE = 12
_ABORTABLE_SINCE = 11

_RETRIABLE = (
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)


def transactional_header(records: bytes | memoryview | None) -> BatchHeader | None:
    """The header of a batch with the transactional flag, else None. The rest of the batch is not validated yet."""
    if records is None or len(records) < HEADER_SIZE or records[MAGIC_AT] != MAGIC:
        return None
    return read_header(records) if records[ATTRIBUTES_AT + 1] & TRANSACTIONAL_FLAG else None


def is_wanted(config: BrokerConfig, *, adds: bool) -> bool:
    """Whether the broker must ask the coordinator. It always does if the request adds partitions."""
    return adds or config.boolean("transaction.partition.verification.enable")


class BrokerParts(Protocol):
    """The parts of the broker that a verification uses."""

    @property
    def config(self) -> BrokerConfig: ...

    @property
    def replicas(self) -> Replicas: ...

    @property
    def transactions(self) -> TransactionCoordinator: ...


class Verification:
    """The verification of the transactional batches, at least one, of a Produce request."""

    def __init__(
        self,
        broker: BrokerParts,
        api_version: int,
        transactional_id: str,
        batches: Mapping[TopicPartition, BatchHeader],
    ) -> None:
        self._broker = broker
        self._api_version = api_version
        self._transactional_id = transactional_id
        self._verdicts: dict[TopicPartition, KafkaError | Admission] = {}
        self._unknown: dict[TopicPartition, VerificationGuard] = {}
        producers = {Producer(header.producer_id, header.producer_epoch) for header in batches.values()}
        if len(producers) > 1:
            refusal = KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, "the request has batches of several producers")
            self._verdicts = dict.fromkeys(batches, refusal)
            return
        [self._producer] = producers
        for partition, header in batches.items():
            self._begin(partition, header)

    @property
    def pending(self) -> bool:
        """Whether `finish` must ask the coordinator."""
        return bool(self._unknown)

    def verdict(self, partition: TopicPartition) -> KafkaError | Admission | None:
        return self._verdicts.get(partition)

    def _begin(self, partition: TopicPartition, header: BatchHeader) -> None:
        adds = self._api_version >= _ADDS_SINCE
        if not is_wanted(self._broker.config, adds=adds):
            self._verdicts[partition] = Admission(UNVERIFIED)
            return
        try:
            guard = self._broker.replicas.leader_of(*partition).begin_verification(
                self._producer, header.base_sequence, supports_epoch_bump=adds
            )
        except KafkaError as error:
            self._verdicts[partition] = error
            return
        self._verdicts[partition] = Admission(guard)
        if guard is not None:
            self._unknown[partition] = guard

    async def finish(self) -> None:
        """Ask the coordinator."""
        refused = await self._broker.transactions.admit(
            self._transactional_id,
            self._producer,
            list(self._unknown),
            add=self._api_version >= _ADDS_SINCE,
        )
        for partition, error in refused.items():
            self._verdicts[partition] = self._refusal(error)

    def _refusal(self, error: ErrorCode) -> KafkaError:
        """The error that makes a producer react correctly. Producers of any version retry after NOT_ENOUGH_REPLICAS."""
        message = f"the coordinator did not verify the partition: {error.name}"
        if error is ErrorCode.PRODUCER_FENCED:
            return KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH, message)
        if error is ErrorCode.TRANSACTION_ABORTABLE and self._api_version < _ABORTABLE_SINCE:
            return KafkaError(ErrorCode.INVALID_TXN_STATE, message)
        if error in _RETRIABLE or (error is ErrorCode.CONCURRENT_TRANSACTIONS and self._api_version < _ADDS_SINCE):
            return KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, message)
        return KafkaError(error, message)
