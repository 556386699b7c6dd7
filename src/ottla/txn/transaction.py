"""One transactional id: what its last record says, and what no record needs to say."""

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
    """Its methods say what the next record would be; `restore` alone changes what is durable."""

    __slots__ = ("stored", "to_retry", "unmarked")

    def __init__(self, stored: TransactionStored) -> None:
        self.restore(stored)

    def restore(self, stored: TransactionStored) -> None:
        self.stored = stored
        self.unmarked: set[TopicPartition] = set(stored.partitions) if stored.state.is_preparing else set()
        """Partitions whose marker is not known to be written. A new coordinator starts with all of them again."""
        self.to_retry: set[TopicPartition] = set()
        """Those of them whose marker was refused for now."""

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
        """On the wall clock: the last moment at which the transaction may still be open."""
        return self.stored.start_timestamp_ms + self.stored.transaction_timeout_ms

    def initialised(
        self, command: InitProducerId, producer: Producer, last_epoch: int, now_ms: int
    ) -> TransactionStored:
        """A producer begins, or goes on, under a new epoch or a new id."""
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
        """The decision. Under protocol 2 the epoch goes up with it, so that the markers fence what they close."""
        epoch, last_epoch = self.stored.producer_epoch, self.stored.last_producer_epoch
        if protocol >= PROTOCOL_2:
            epoch, last_epoch = min(epoch + 1, MAX_EPOCH), epoch
        return self._moved(
            PREPARE_COMMIT if committed else PREPARE_ABORT,
            now_ms,
            producer_epoch=epoch,
            last_producer_epoch=last_epoch,
            next_producer_id=next_producer_id,
            # A transaction that is aborted before it has begun still needs a time at which it began.
            start_timestamp_ms=self.stored.start_timestamp_ms if self.state is ONGOING else now_ms,
            protocol=protocol,
        )

    def completed(self, now_ms: int) -> TransactionStored:
        """Every marker is written. A producer id that has used up its epochs makes way for the next one."""
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
