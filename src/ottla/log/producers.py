"""The state of a partition's idempotent and transactional producers (KIP-98): the epoch, the last sequence number, and
the start of the open transaction of each producer.

The rules are those of Kafka 4.3. If a batch repeats one of the producer's last five batches, the reply has the offset
of the original. Otherwise its sequence numbers must follow the last ones. A newer epoch starts again at 0, and an older
epoch is rejected. An unknown producer may start with any sequence number: its state may have expired, or may have been
deleted with its records (KIP-360). So the broker never returns UNKNOWN_PRODUCER_ID.

A producer with an open transaction may write only in that transaction. The first batch of a transaction needs a guard,
which proves that the coordinator knows of the transaction (KIP-890). A marker ends the transaction. With transaction
version 2, the marker also has the producer's next epoch, in which sequence numbers start again at 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ottla.errors import ErrorCode, KafkaError
from ottla.log.transaction_index import AbortedTransaction
from ottla.log.transactions import OpenTransactions
from ottla.log.verification import VerificationGuard, Verifications
from ottla.model import NO_OFFSET, NO_SEQUENCE
from ottla.records.format import CONTROL_FLAG, MAX_SEQUENCE, TRANSACTIONAL_FLAG

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ottla.records.control import EndTransactionMarker
    from ottla.records.header import BatchHeader

REMEMBERED_BATCHES = 5
"""The number of batches that a producer may have in flight, and so may send again."""

NO_COORDINATOR_EPOCH = -1
_EPOCH_BUMP = 2
"""From this transaction version on, a marker has a higher epoch than its transaction's records (KIP-890, KIP-1228)."""


class SequenceGapError(KafkaError):
    """A producer's sequence numbers do not follow its last ones."""

    def __init__(self, header: BatchHeader, due: int) -> None:
        self.is_ahead = header.base_sequence > due
        super().__init__(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"producer {header.producer_id} in epoch {header.producer_epoch} sent sequence number"
            f" {header.base_sequence} instead of {due}",
        )


class AppendedBatch(NamedTuple):
    """The data of an appended batch that is kept to detect duplicates."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        return (self.last_sequence - self.offset_delta) & MAX_SEQUENCE

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


class Producer:
    """The last batches of one producer, oldest first, all of the same epoch, and its transaction."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "last_timestamp",
        "next_sequence",
        "producer_id",
        "transaction_start",
    )

    def __init__(
        self,
        producer_id: int,
        epoch: int,
        last_timestamp: int,
        batches: Iterable[AppendedBatch] = (),
        *,
        coordinator_epoch: int = NO_COORDINATOR_EPOCH,
        transaction_start: int = NO_OFFSET,
    ) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.last_timestamp = last_timestamp
        self.coordinator_epoch = coordinator_epoch
        """The coordinator epoch of the last marker; -1 when there was none."""
        self.transaction_start = transaction_start
        """The first offset of the open transaction; -1 when there is none."""
        self.batches = list(batches)
        self.next_sequence = following(self.last_sequence)

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    def find(self, header: BatchHeader) -> AppendedBatch | None:
        """The earlier batch that this batch repeats, if it is one of the last five."""
        if header.producer_epoch == self.epoch:
            last_sequence, delta = header.last_sequence, header.last_offset_delta
            for batch in self.batches:
                if batch.last_sequence == last_sequence and batch.offset_delta == delta:
                    return batch
        return None


class Producers:
    """All idempotent and transactional producers of one partition.

    Call `check` before a batch is written and `update` afterwards, so that a failed write changes nothing. For markers,
    call `check_marker` and `end_transaction`.
    """

    __slots__ = ("_expiration_ms", "_producers", "abridged", "transactions", "verifications")

    def __init__(self, expiration_ms: int) -> None:
        self.abridged = False
        """Whether some producers come from a snapshot, which has only the last batch of each producer."""
        self.transactions = OpenTransactions()
        self.verifications = Verifications()
        self._expiration_ms = expiration_ms
        self._producers: dict[int, Producer] = {}

    def __len__(self) -> int:
        return len(self._producers)

    def active(self) -> list[Producer]:
        return list(self._producers.values())

    # Records

    def check(self, header: BatchHeader) -> AppendedBatch | None:
        """Check whether a leader may append a batch that is not part of a transaction. Returns the original of a
        duplicate. Raises KafkaError."""
        producer = self._producers.get(header.producer_id)
        if header.attributes & TRANSACTIONAL_FLAG:
            raise KafkaError(
                ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "a batch of a transaction without a transactional id"
            )
        if producer is None:
            return None
        if (
            header.base_sequence == producer.next_sequence
            and header.producer_epoch == producer.epoch
            and producer.transaction_start < 0
        ):
            return None
        duplicate = producer.find(header)
        if duplicate is None:
            _check_sequence(header, producer)
            if producer.transaction_start >= 0:
                raise KafkaError(
                    ErrorCode.INVALID_TXN_STATE,
                    f"producer {header.producer_id} sent a record outside of its open transaction",
                )
        return duplicate

    def check_in_transaction(
        self, header: BatchHeader, guard: VerificationGuard | None, from_coordinator: bool
    ) -> AppendedBatch | None:
        """Like `check`, for a batch of a transaction."""
        producer = self._producers.get(header.producer_id)
        if producer is not None:
            duplicate = None if from_coordinator else producer.find(header)
            if duplicate is not None:
                return duplicate
            _check_epoch(producer, header.producer_epoch)
        if not self.in_transaction(header.producer_id, header.producer_epoch):
            self.verifications.check_guard(header.producer_id, guard)
        if not from_coordinator:
            self.verifications.check_sequence(header, has_batches=producer is not None and bool(producer.batches))
            if producer is not None:
                _check_sequence(header, producer)
        return None

    def in_transaction(self, producer_id: int, epoch: int) -> bool:
        """Whether the producer has an open transaction in this epoch. A transaction of another epoch does not count:
        it may have ended although this partition has not got its marker yet."""
        producer = self._producers.get(producer_id)
        return producer is not None and producer.transaction_start >= 0 and producer.epoch == epoch

    def begin_verification(
        self, producer_id: int, sequence: int, epoch: int, supports_epoch_bump: bool, now_ms: int
    ) -> VerificationGuard | None:
        """The guard for the first batch of a transaction; None for a later batch. Raises KafkaError."""
        producer = self._producers.get(producer_id)
        if producer is not None:
            _check_epoch(producer, epoch)
        if self.in_transaction(producer_id, epoch):
            return None
        return self.verifications.start(
            producer_id, sequence, epoch, supports_epoch_bump=supports_epoch_bump, now_ms=now_ms
        )

    def update(self, header: BatchHeader, base_offset: int) -> None:
        """Apply a batch of records that was appended, or that recovery reads from the log."""
        producer_id, epoch, timestamp = header.producer_id, header.producer_epoch, header.max_timestamp
        delta = header.last_offset_delta
        last_sequence = header.last_sequence
        batch = AppendedBatch(last_sequence, base_offset + delta, delta, timestamp)
        producer = self._producers.get(producer_id)
        if producer is None:
            producer = self._producers[producer_id] = Producer(producer_id, epoch, timestamp, [batch])
        else:
            if producer.epoch != epoch:
                producer.epoch = epoch
                producer.batches.clear()
            elif len(producer.batches) == REMEMBERED_BATCHES:
                del producer.batches[0]
            producer.batches.append(batch)
            producer.next_sequence = following(last_sequence)
            producer.last_timestamp = timestamp
        if header.attributes & TRANSACTIONAL_FLAG:
            if producer.transaction_start < 0:
                producer.transaction_start = base_offset
                self.transactions.begin(base_offset, producer_id)
            self.verifications.end(producer_id)

    # Markers

    def check_marker(self, marker: EndTransactionMarker, transaction_version: int) -> None:
        """Check whether a leader may append a marker. Raises KafkaError.

        A coordinator that did not get the reply sends a marker again. The repeated marker ends no transaction. With
        transaction version 2 a marker has a new epoch. If the producer already has this epoch and an open transaction,
        the marker is a late one of the previous transaction.
        """
        producer = self._producers.get(marker.producer_id)
        if producer is None:
            return
        _check_epoch(producer, marker.producer_epoch)
        if (
            transaction_version >= _EPOCH_BUMP
            and marker.producer_epoch == producer.epoch
            and producer.transaction_start >= 0
        ):
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {producer.producer_id} has begun its next transaction in epoch {producer.epoch}",
            )
        if marker.coordinator_epoch < producer.coordinator_epoch:
            raise KafkaError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"the marker for producer {producer.producer_id} has coordinator epoch {marker.coordinator_epoch}, but"
                f" the producer's last marker has {producer.coordinator_epoch}",
            )

    def repeats_last_marker(self, marker: EndTransactionMarker) -> bool:
        """Whether a marker has the same epochs as the producer's last marker, and no transaction is open. If so, the
        pending verifications of the producer end, as after any marker."""
        producer = self._producers.get(marker.producer_id)
        if (
            producer is None
            or producer.transaction_start >= 0
            or producer.epoch != marker.producer_epoch
            or producer.coordinator_epoch != marker.coordinator_epoch
            or producer.coordinator_epoch == NO_COORDINATOR_EPOCH
        ):
            return False
        self.verifications.end(marker.producer_id)
        return True

    def aborted_by(self, marker: EndTransactionMarker, offset: int) -> AbortedTransaction | None:
        """The transaction that a marker at an offset aborts; None if it commits, or if no transaction is open."""
        producer = self._producers.get(marker.producer_id)
        if marker.committed or producer is None or producer.transaction_start < 0:
            return None
        stable = self.transactions.stable_after(producer.producer_id, offset)
        return AbortedTransaction(producer.producer_id, producer.transaction_start, offset, stable)

    def end_transaction(self, marker: EndTransactionMarker, offset: int, timestamp: int) -> None:
        """Apply a marker that was appended at an offset, or that recovery reads from the log."""
        producer = self._producers.get(marker.producer_id)
        if producer is None:
            producer = Producer(marker.producer_id, marker.producer_epoch, timestamp)
            self._producers[marker.producer_id] = producer
        elif producer.epoch != marker.producer_epoch:
            producer.epoch = marker.producer_epoch
            producer.batches.clear()
            producer.next_sequence = 0
        producer.coordinator_epoch = marker.coordinator_epoch
        producer.last_timestamp = timestamp
        if producer.transaction_start >= 0:
            self.transactions.end(producer.transaction_start, offset)
            producer.transaction_start = NO_OFFSET
        self.verifications.end(marker.producer_id)

    # All of them

    def replace(self, producers: Iterable[Producer], now_ms: int) -> None:
        """Replace all producers by those of a snapshot, except those that have expired since."""
        self._producers = {producer.producer_id: producer for producer in producers}
        self.transactions = OpenTransactions()
        for producer in sorted(self._producers.values(), key=lambda producer: producer.transaction_start):
            if producer.transaction_start >= 0:
                self.transactions.begin(producer.transaction_start, producer.producer_id)
        self.expire(now_ms)
        self.abridged = bool(self._producers)

    def recall(self, headers: Iterable[BatchHeader]) -> None:
        """Add the batches that a snapshot lacks to the producers, from headers at the end of the log."""
        found = Producers(self._expiration_ms)
        for header in headers:
            if not header.attributes & CONTROL_FLAG:
                found.update(header, header.base_offset)
        for recalled in found.active():
            producer = self._producers.get(recalled.producer_id)
            # A later marker may have given the producer a new epoch without any batches yet.
            if producer is not None and producer.epoch == recalled.epoch:
                producer.batches = recalled.batches
                producer.next_sequence = recalled.next_sequence
        self.abridged = False

    def expire(self, now_ms: int) -> int:
        """Drop producers whose last record is older than `producer.id.expiration.ms`. Returns how many.

        A producer with an open transaction stays until its coordinator ends the transaction.
        """
        oldest = now_ms - self._expiration_ms
        expired = [
            key
            for key, producer in self._producers.items()
            if producer.last_timestamp <= oldest and producer.transaction_start < 0
        ]
        for producer_id in expired:
            del self._producers[producer_id]
        self.verifications.expire(oldest)
        return len(expired)


def following(sequence: int) -> int:
    """The next sequence number. Sequence numbers are 31 bits wide: after the largest comes 0."""
    return (sequence + 1) & MAX_SEQUENCE


def _check_epoch(producer: Producer, epoch: int) -> None:
    if epoch < producer.epoch:
        raise KafkaError(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"producer {producer.producer_id} has epoch {producer.epoch}; epoch {epoch} is older",
        )


def _check_sequence(header: BatchHeader, producer: Producer) -> None:
    _check_epoch(producer, header.producer_epoch)
    due = producer.next_sequence if header.producer_epoch == producer.epoch else 0
    if header.base_sequence != due:
        raise SequenceGapError(header, due)
