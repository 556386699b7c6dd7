"""What a partition knows of its idempotent producers (KIP-98): who wrote, in which epoch, up to which sequence number.

The rules are those of Kafka 4.3. A batch that repeats one of a producer's last five is answered with the original's
place. Otherwise its sequence numbers must follow the producer's last ones; a newer epoch starts again from zero; an
older epoch is refused. A producer that is not known may begin anywhere, since its state may have expired or have been
deleted with its records (KIP-360), so UNKNOWN_PRODUCER_ID is never the answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ottla.errors import ErrorCode, KafkaError
from ottla.records.format import CONTROL_FLAG, MAX_SEQUENCE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ottla.records.header import BatchHeader

REMEMBERED_BATCHES = 5
"""As many as a producer may have in flight, hence as many as it may send again."""


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
    """The last batches of one producer, oldest first, all of the same epoch."""

    __slots__ = ("batches", "epoch", "last_timestamp", "next_sequence", "producer_id")

    def __init__(
        self, producer_id: int, epoch: int, last_timestamp: int, batches: Iterable[AppendedBatch] = ()
    ) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.last_timestamp = last_timestamp
        self.batches = list(batches)
        self.next_sequence = following(self.batches[-1].last_sequence) if self.batches else 0

    def find(self, header: BatchHeader) -> AppendedBatch | None:
        """The remembered batch that this one repeats."""
        if header.producer_epoch == self.epoch:
            last_sequence, delta = header.last_sequence, header.last_offset_delta
            for batch in self.batches:
                if batch.last_sequence == last_sequence and batch.offset_delta == delta:
                    return batch
        return None


class Producers:
    """All idempotent producers of one partition.

    `check` before a batch is written, `update` after that: a write that fails leaves no trace.
    """

    __slots__ = ("_expiration_ms", "_producers", "abridged")

    def __init__(self, expiration_ms: int) -> None:
        self.abridged = False
        """Whether there are producers of which a snapshot has told the last batch only."""
        self._expiration_ms = expiration_ms
        self._producers: dict[int, Producer] = {}

    def __len__(self) -> int:
        return len(self._producers)

    def active(self) -> list[Producer]:
        return list(self._producers.values())

    def check(self, header: BatchHeader) -> AppendedBatch | None:
        """Whether a leader may append the batch. Returns the original if it is a duplicate. Raises KafkaError."""
        producer = self._producers.get(header.producer_id)
        if producer is None or header.attributes & CONTROL_FLAG:
            return None
        if header.base_sequence == producer.next_sequence and header.producer_epoch == producer.epoch:
            return None
        duplicate = producer.find(header)
        if duplicate is None:
            _check_sequence(header, producer.epoch, producer.next_sequence)
        return duplicate

    def update(self, header: BatchHeader, base_offset: int) -> None:
        """Remember a batch that was appended, or that is read again when the log is opened."""
        if header.attributes & CONTROL_FLAG:
            return
        producer_id, epoch, timestamp = header.producer_id, header.producer_epoch, header.max_timestamp
        delta = header.last_offset_delta
        last_sequence = header.last_sequence
        batch = AppendedBatch(last_sequence, base_offset + delta, delta, timestamp)
        producer = self._producers.get(producer_id)
        if producer is None:
            self._producers[producer_id] = Producer(producer_id, epoch, timestamp, [batch])
            return
        if producer.epoch != epoch:
            producer.epoch = epoch
            producer.batches.clear()
        elif len(producer.batches) == REMEMBERED_BATCHES:
            del producer.batches[0]
        producer.batches.append(batch)
        producer.next_sequence = following(last_sequence)
        producer.last_timestamp = timestamp

    def replace(self, producers: Iterable[Producer], now_ms: int) -> None:
        """Start from these producers, as a snapshot has them, leaving out those that expired meanwhile."""
        self._producers = {producer.producer_id: producer for producer in producers}
        self.expire(now_ms)
        self.abridged = bool(self._producers)

    def recall(self, headers: Iterable[BatchHeader]) -> None:
        """Complete the producers with stored batches from the end of the log."""
        abridged, self._producers = self._producers, {}
        for header in headers:
            self.update(header, header.base_offset)
        self._producers = {
            producer_id: self._producers.get(producer_id, producer) for producer_id, producer in abridged.items()
        }
        self.abridged = False

    def expire(self, now_ms: int) -> int:
        """Forget producers whose last record is older than `producer.id.expiration.ms`. Returns how many."""
        oldest = now_ms - self._expiration_ms
        expired = [key for key, producer in self._producers.items() if producer.last_timestamp <= oldest]
        for producer_id in expired:
            del self._producers[producer_id]
        return len(expired)


def following(sequence: int) -> int:
    """Sequence numbers are 31 bits wide: the one after the largest is 0."""
    return (sequence + 1) & MAX_SEQUENCE


def _check_sequence(header: BatchHeader, epoch: int, due: int) -> None:
    if header.producer_epoch < epoch:
        raise KafkaError(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"producer {header.producer_id} has epoch {epoch}; epoch {header.producer_epoch} is older",
        )
    if header.producer_epoch > epoch:
        due = 0
    if header.base_sequence != due:
        raise KafkaError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"producer {header.producer_id} in epoch {header.producer_epoch} sent sequence number"
            f" {header.base_sequence} where {due} is due",
        )
