"""Where the records of decisions go, and how they are read back: batches in a partition of an internal topic."""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from ottla.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE
from ottla.records.builder import NewRecord, build_batch
from ottla.records.reader import read_records

if TYPE_CHECKING:
    import asyncio

    from ottla.env.clock import Clock
    from ottla.model import Producer
    from ottla.records.format import Codec
    from ottla.replication.partition import Admission, Partition

logger = logging.getLogger("ottla.coordinator")

RecordT = TypeVar("RecordT")
OutcomeT = TypeVar("OutcomeT", contravariant=True)


class Journal(Protocol[OutcomeT]):
    def write(self, outcome: OutcomeT, admission: Admission | None) -> asyncio.Future[None] | None:
        """Write all records or raise KafkaError. Whoever answers waits for the future first, if there is one."""


class PartitionJournal(Generic[RecordT]):
    """The partition itself, one batch per decision, so that a decision is never half written."""

    def __init__(
        self, partition: Partition, clock: Clock, encode: Callable[[RecordT], tuple[bytes, bytes | None]], codec: Codec
    ) -> None:
        self._partition = partition
        self._clock = clock
        self._encode = encode
        self._codec = codec

    def append(
        self, records: Sequence[RecordT], producer: Producer | None = None, admission: Admission | None = None
    ) -> asyncio.Future[None] | None:
        """With a producer, the records are part of its transaction, which admitted them. Raises KafkaError."""
        now_ms = self._clock.time_ms()
        batch = build_batch(
            [NewRecord(key=key, value=value, timestamp=now_ms) for key, value in map(self._encode, records)],
            codec=self._codec,
            producer_id=NO_PRODUCER_ID if producer is None else producer.producer_id,
            producer_epoch=NO_PRODUCER_EPOCH if producer is None else producer.producer_epoch,
            base_sequence=NO_SEQUENCE if producer is None else 0,
            transactional=producer is not None,
        )
        return self._partition.append(memoryview(batch), admission, inspected=True).wait


def decode_batch(
    batch: memoryview, decode: Callable[[bytes, bytes | None], RecordT | None], source: object
) -> Iterator[RecordT]:
    """The records that a batch holds. Somebody may have written one that is none of ours; it must not cost the rest."""
    for record in read_records(batch):
        try:
            decoded = None if record.key is None else decode(record.key, record.value)
        except (ValueError, struct.error) as error:
            logger.error(
                "%s: the record at offset %d cannot be read and is passed over: %s", source, record.offset, error
            )
        else:
            if decoded is not None:
                yield decoded
