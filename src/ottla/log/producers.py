"""What a partition knows of its idempotent and transactional producers (KIP-98): who wrote, in which epoch, up to which
sequence number, and from where on in a transaction that is still open.

The rules are those of Kafka 4.3. A batch that repeats one of a producer's last five is answered with the original's
place. Otherwise its sequence numbers must follow the producer's last ones; a newer epoch starts again from zero; an
older epoch is refused. A producer that is not known may begin anywhere, since its state may have expired or have been
deleted with its records (KIP-360), so UNKNOWN_PRODUCER_ID is never the answer.

A producer in a transaction writes nothing else. The first batch of a transaction needs a guard, which says that the
coordinator knows of it (KIP-890). A marker ends the transaction; under transaction version 2 it also brings the epoch
that the producer goes on with, in which sequence numbers start again from zero.
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
"""As many as a producer may have in flight, hence as many as it may send again."""

NO_COORDINATOR_EPOCH = -1
_EPOCH_BUMP = 2
"""From this transaction version on, a marker has an epoch that no record has (KIP-890, KIP-1228)."""


class SequenceGapError(KafkaError):
    """A producer's sequence numbers are not those that follow its last ones."""

    def __init__(self, header: BatchHeader, due: int) -> None:
        self.is_ahead = header.base_sequence > due
        super().__init__(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"producer {header.producer_id} in epoch {header.producer_epoch} sent sequence number"
            f" {header.base_sequence} where {due} is due",
        )


class AppendedBatch(NamedTuple):
    """A batch as the log remembers it."""

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
        """Of the last marker; -1 when there was none."""
        self.transaction_start = transaction_start
        """Where the open transaction begins; -1 when there is none."""
        self.batches = list(batches)
        self.next_sequence = following(self.last_sequence)

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    def find(self, header: BatchHeader) -> AppendedBatch | None:
        """The remembered batch that this one repeats."""
        if header.producer_epoch == self.epoch:
            last_sequence, delta = header.last_sequence, header.last_offset_delta
            for batch in self.batches:
                if batch.last_sequence == last_sequence and batch.offset_delta == delta:
                    return batch
        return None


class Producers:
    """All idempotent and transactional producers of one partition.

    `check` before a batch is written, `update` after that: a write that fails leaves no trace. For markers, these are
    `check_marker` and `end_transaction`.
    """

    __slots__ = ("_expiration_ms", "_producers", "abridged", "transactions", "verifications")

    def __init__(self, expiration_ms: int) -> None:
        self.abridged = False
        """Whether there are producers of which a snapshot has told the last batch only."""
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
        """Whether a leader may append a batch that is not part of a transaction. Returns the original if it is a
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
                    f"producer {header.producer_id} sent a record outside of its transaction, which is open",
                )
        return duplicate

    def check_in_transaction(
        self, header: BatchHeader, guard: VerificationGuard | None, from_coordinator: bool
    ) -> AppendedBatch | None:
        """The same for a batch of a transaction."""
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
        """Whether the producer has a transaction open here. One of another epoch may be over without our knowledge."""
        producer = self._producers.get(producer_id)
        return producer is not None and producer.transaction_start >= 0 and producer.epoch == epoch

    def begin_verification(
        self, producer_id: int, sequence: int, epoch: int, supports_epoch_bump: bool, now_ms: int
    ) -> VerificationGuard | None:
        """The guard for a batch that begins a transaction; None for one that goes on with it. Raises KafkaError."""
        producer = self._producers.get(producer_id)
        if producer is not None:
            _check_epoch(producer, epoch)
        if self.in_transaction(producer_id, epoch):
            return None
        return self.verifications.start(
            producer_id, sequence, epoch, supports_epoch_bump=supports_epoch_bump, now_ms=now_ms
        )

    def update(self, header: BatchHeader, base_offset: int) -> None:
        """Remember a batch of records that was appended, or that is read again when the log is opened."""
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
        """Whether a leader may append a marker. Raises KafkaError.

        A marker may come again, from a coordinator that did not hear the answer to the first one: then it ends nothing.
        Under version 2 it has a new epoch. If that is the producer's epoch already while a transaction is open, the
        marker is late: it belongs to the transaction before.
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
                f"a marker of coordinator epoch {marker.coordinator_epoch} for producer {producer.producer_id}, which"
                f" has one of epoch {producer.coordinator_epoch}",
            )

    def repeats_last_marker(self, marker: EndTransactionMarker) -> bool:
        """Whether a marker comes from the same coordinator, in the same epoch, as the producer's last marker, and no
        transaction is open. Like any marker, it ends the verifications that are under way."""
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
        """The transaction that a marker at an offset aborts; None when it commits one, or there is none to end."""
        producer = self._producers.get(marker.producer_id)
        if marker.committed or producer is None or producer.transaction_start < 0:
            return None
        stable = self.transactions.stable_after(producer.producer_id, offset)
        return AbortedTransaction(producer.producer_id, producer.transaction_start, offset, stable)

    def end_transaction(self, marker: EndTransactionMarker, offset: int, timestamp: int) -> None:
        """A marker was appended at an offset, or is read again when the log is opened."""
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
        """Start from these producers, as a snapshot has them, leaving out those that expired meanwhile."""
        self._producers = {producer.producer_id: producer for producer in producers}
        self.transactions = OpenTransactions()
        for producer in sorted(self._producers.values(), key=lambda producer: producer.transaction_start):
            if producer.transaction_start >= 0:
                self.transactions.begin(producer.transaction_start, producer.producer_id)
        self.expire(now_ms)
        self.abridged = bool(self._producers)

    def recall(self, headers: Iterable[BatchHeader]) -> None:
        """Complete the producers with stored batches from the end of the log."""
        found = Producers(self._expiration_ms)
        for header in headers:
            if not header.attributes & CONTROL_FLAG:
                found.update(header, header.base_offset)
        for recalled in found.active():
            producer = self._producers.get(recalled.producer_id)
            # A marker may have brought a new epoch since, in which nothing was written yet.
            if producer is not None and producer.epoch == recalled.epoch:
                producer.batches = recalled.batches
                producer.next_sequence = recalled.next_sequence
        self.abridged = False

    def expire(self, now_ms: int) -> int:
        """Forget producers whose last record is older than `producer.id.expiration.ms`. Returns how many.

        One whose transaction is open stays until its coordinator ends that.
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
    """Sequence numbers are 31 bits wide: the one after the largest is 0."""
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
