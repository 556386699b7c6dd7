"""Writes the records of commands as batches to a partition of an internal topic, and reads them."""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Generic, Protocol, TypeAlias, TypeVar

from ottla.errors import ErrorCode, KafkaError
from ottla.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE
from ottla.records.builder import NewRecord, build_batch
from ottla.records.header import read_header
from ottla.records.invalid import InvalidBatch
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

Write: TypeAlias = "Callable[[], asyncio.Future[None] | None]"
"""Appends encoded records: all of them, or none if it raises KafkaError. Replies wait for the future, if there is one.
After any other exception it is unknown whether the records were appended."""


class Journal(Protocol[OutcomeT]):
    def encode(self, outcome: OutcomeT, admission: Admission | None) -> Write:
        """Encode all records of an outcome. Appends nothing, so after an exception the log is unchanged."""


class PartitionJournal(Generic[RecordT]):
    """Writes to the partition, one batch per command: a command is written completely or not at all."""

    def __init__(
        self, partition: Partition, clock: Clock, encode: Callable[[RecordT], tuple[bytes, bytes | None]], codec: Codec
    ) -> None:
        self._partition = partition
        self._clock = clock
        self._encode = encode
        self._codec = codec

    def encode(
        self,
        records: Sequence[RecordT],
        producer: Producer | None = None,
        admission: Admission | None = None,
        reserve: int = 0,
    ) -> Write:
        """With a producer, the records become part of its transaction. The batch must be `reserve` bytes smaller than
        max.message.bytes. Raises KafkaError."""
        batch = self.batch(records, producer)
        if reserve and len(batch) + reserve > self._partition.config.max_message_bytes:
            text = f"a batch of {len(batch)} bytes is less than {reserve} bytes below max.message.bytes"
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, text)
        return partial(self._append, batch, admission)

    def batch(self, records: Sequence[RecordT], producer: Producer | None = None) -> bytes | bytearray:
        now_ms = self._clock.time_ms()
        return build_batch(
            [NewRecord(key=key, value=value, timestamp=now_ms) for key, value in map(self._encode, records)],
            codec=self._codec,
            producer_id=NO_PRODUCER_ID if producer is None else producer.producer_id,
            producer_epoch=NO_PRODUCER_EPOCH if producer is None else producer.producer_epoch,
            base_sequence=NO_SEQUENCE if producer is None else 0,
            transactional=producer is not None,
        )

    def _append(self, batch: bytes | bytearray, admission: Admission | None) -> asyncio.Future[None] | None:
        return self._partition.append(memoryview(batch), admission, inspected=True).wait


def decode_batch(
    batch: memoryview, decode: Callable[[bytes, bytes | None], RecordT | None], source: object
) -> list[RecordT]:
    """The records of a batch. Skips records that cannot be decoded, so that the rest of the partition stays usable."""
    try:
        records = read_records(batch)
    except InvalidBatch as error:
        offset = read_header(batch).base_offset
        logger.error("%s: skipping the unreadable batch at offset %d: %s", source, offset, error)
        return []
    decoded = []
    for record in records:
        try:
            entry = None if record.key is None else decode(record.key, record.value)
        except (ValueError, struct.error) as error:
            logger.error("%s: skipping the unreadable record at offset %d: %s", source, record.offset, error)
        else:
            if entry is not None:
                decoded.append(entry)
    return decoded
