"""One transactional id: its last record, and state that is in memory only."""

from ottla.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_TIMESTAMP, Producer, TopicPartition
from ottla.txn.commands import PROTOCOL_2, InitProducerId
from ottla.txn.parameters import LAST_CLIENT_EPOCH, MAX_EPOCH
from ottla.txn.records import TransactionStored
from ottla.txn.state import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    TRANSITIONS,
    TransactionState,
)


class Transaction:
    """The methods return the next record. Only `restore` changes durable state."""

    __slots__ = ("stored", "to_retry", "unmarked")

    def __init__(self, stored: TransactionStored) -> None:
        self.restore(stored)

    def restore(self, stored: TransactionStored) -> None:
        self.stored = stored
        self.unmarked: set[TopicPartition] = set(stored.partitions) if stored.state.is_preparing else set()
        """Partitions whose marker is not confirmed. A new coordinator starts with all partitions."""
        self.to_retry: set[TopicPartition] = set()
        """The unmarked partitions whose marker must be written again."""

    @property
    def state(self) -> TransactionState:
        return self.stored.state

    @property
    def producer(self) -> Producer:
        return Producer(self.stored.producer_id, self.stored.producer_epoch)

    @property
    def is_epoch_exhausted(self) -> bool:
        return self.stored.producer_epoch >= LAST_CLIENT_EPOCH

    @property
    def times_out_at_ms(self) -> int:
        """When the transaction times out, on the wall clock."""
        return self.stored.start_timestamp_ms + self.stored.transaction_timeout_ms

    def initialised(
        self, command: InitProducerId, producer: Producer, last_epoch: int, now_ms: int
    ) -> TransactionStored:
        """The record of a producer that starts or continues with a new epoch or a new id."""
        return self._moved(
            EMPTY,
            now_ms,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            last_producer_epoch=last_epoch,
            transaction_timeout_ms=command.transaction_timeout_ms,
            start_timestamp_ms=NO_TIMESTAMP,
            partitions=frozenset(),
        )

    def extended(self, partitions: frozenset[TopicPartition], protocol: int, now_ms: int) -> TransactionStored:
        return self._moved(
            ONGOING,
            now_ms,
            start_timestamp_ms=self.stored.start_timestamp_ms if self.state is ONGOING else now_ms,
            partitions=self.stored.partitions | partitions,
            protocol=protocol,
        )

    def prepared(self, committed: bool, protocol: int, next_producer_id: int, now_ms: int) -> TransactionStored:
        """The record of the decision. Protocol 2 bumps the epoch, so that the markers fence late records."""
        epoch, last_epoch = self.stored.producer_epoch, self.stored.last_producer_epoch
        if protocol >= PROTOCOL_2:
            epoch, last_epoch = min(epoch + 1, MAX_EPOCH), epoch
        return self._moved(
            PREPARE_COMMIT if committed else PREPARE_ABORT,
            now_ms,
            producer_epoch=epoch,
            last_producer_epoch=last_epoch,
            next_producer_id=next_producer_id,
            # A transaction that is aborted before its first partition has no start timestamp yet.
            start_timestamp_ms=self.stored.start_timestamp_ms if self.state is ONGOING else now_ms,
            protocol=protocol,
        )

    def completed(self, now_ms: int) -> TransactionStored:
        """The record after all markers are written. The next producer id replaces an id whose epochs are used up."""
        producer = self.producer
        if self.stored.protocol >= PROTOCOL_2 and self.stored.next_producer_id != NO_PRODUCER_ID:
            producer = Producer(self.stored.next_producer_id, 0)
        return self._moved(
            COMPLETE_COMMIT if self.state is PREPARE_COMMIT else COMPLETE_ABORT,
            now_ms,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            next_producer_id=NO_PRODUCER_ID,
            partitions=frozenset(),
        )

    def _moved(self, state: TransactionState, now_ms: int, **changes: object) -> TransactionStored:
        TRANSITIONS.check(self.state, state)
        return self.stored._replace(
            state=state,
            last_update_timestamp_ms=now_ms,
            previous_producer_id=self.stored.producer_id,
            **changes,  # type: ignore[arg-type]
        )


def created(command: InitProducerId, producer_id: int, now_ms: int) -> TransactionStored:
    """The first record of a transactional id."""
    return TransactionStored(
        transactional_id=command.transactional_id,
        producer_id=producer_id,
        producer_epoch=0,
        state=EMPTY,
        transaction_timeout_ms=command.transaction_timeout_ms,
        last_update_timestamp_ms=now_ms,
        previous_producer_id=producer_id,
        last_producer_epoch=NO_PRODUCER_EPOCH,
    )
