"""Whether batches of transactions may be appended: the coordinator of the transaction has to know of their partitions.

Clients up to Produce 11 name partitions to the coordinator themselves, and the broker only asks. From Produce 12 on the
broker names them on the client's behalf (KIP-890).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla.errors import ErrorCode, KafkaError
from ottla.log.verification import UNVERIFIED
from ottla.model import Producer
from ottla.records.format import ATTRIBUTES_AT, HEADER_SIZE, MAGIC, MAGIC_AT, TRANSACTIONAL_FLAG
from ottla.records.header import read_header
from ottla.replication.partition import Admission

if TYPE_CHECKING:
    from ottla.handlers.context import Broker
    from ottla.log.verification import VerificationGuard
    from ottla.model import TopicPartition
    from ottla.records.header import BatchHeader

_PRODUCE_ADDS = 12
_PRODUCE_KNOWS_ABORTABLE = 11

_TRY_AGAIN = (
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)


def transactional_header(records: bytes | memoryview | None) -> BatchHeader | None:
    """The header of a batch that says it is part of a transaction; nothing else about it has been checked."""
    if records is None or len(records) < HEADER_SIZE or records[MAGIC_AT] != MAGIC:
        return None
    return read_header(records) if records[ATTRIBUTES_AT + 1] & TRANSACTIONAL_FLAG else None


def is_wanted(broker: Broker, *, adds: bool) -> bool:
    """Whether the coordinator is to be asked. Who adds partitions asks in any case."""
    return adds or broker.config.boolean("transaction.partition.verification.enable")


class Verification:
    """The batches of one Produce request that are parts of a transaction; at least one."""

    def __init__(
        self, broker: Broker, api_version: int, transactional_id: str, batches: Mapping[TopicPartition, BatchHeader]
    ) -> None:
        self._broker = broker
        self._api_version = api_version
        self._transactional_id = transactional_id
        self._verdicts: dict[TopicPartition, KafkaError | Admission] = {}
        self._unknown: dict[TopicPartition, VerificationGuard] = {}
        producers = {Producer(header.producer_id, header.producer_epoch) for header in batches.values()}
        if len(producers) > 1:
            refusal = KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, "one request with batches of several producers")
            self._verdicts = dict.fromkeys(batches, refusal)
            return
        [self._producer] = producers
        for partition, header in batches.items():
            self._begin(partition, header)

    @property
    def pending(self) -> bool:
        """Whether there is something to ask the coordinator."""
        return bool(self._unknown)

    def verdict(self, partition: TopicPartition) -> KafkaError | Admission | None:
        return self._verdicts.get(partition)

    def _begin(self, partition: TopicPartition, header: BatchHeader) -> None:
        adds = self._api_version >= _PRODUCE_ADDS
        if not is_wanted(self._broker, adds=adds):
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
            add=self._api_version >= _PRODUCE_ADDS,
        )
        for partition, error in refused.items():
            self._verdicts[partition] = self._refusal(error)

    def _refusal(self, error: ErrorCode) -> KafkaError:
        """What a producer makes the right thing of. NOT_ENOUGH_REPLICAS is tried again, by producers of any age."""
        message = f"the partition could not be found in the transaction: {error.name}"
        if error is ErrorCode.PRODUCER_FENCED:
            return KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH, message)
        if error is ErrorCode.TRANSACTION_ABORTABLE and self._api_version < _PRODUCE_KNOWS_ABORTABLE:
            return KafkaError(ErrorCode.INVALID_TXN_STATE, message)
        if error in _TRY_AGAIN or (error is ErrorCode.CONCURRENT_TRANSACTIONS and self._api_version < _PRODUCE_ADDS):
            return KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, message)
        return KafkaError(error, message)
