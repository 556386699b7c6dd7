"""Compacts one batch at a time. The rules are those of Kafka 4.3 (KIP-98, KIP-534).

Compaction removes a record if a later record has the same key, if its transaction was aborted, or if it has no key. A
record without a value is a tombstone: it tells readers that its key is deleted. The first pass gives the batch of a
tombstone a delete horizon, and a pass after that time removes the tombstone. Markers of transactions without remaining
records are removed in the same two steps. A batch without records is removed unless its header is still needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ottla.log.keyed_records import empty, read_keys, rebuild
from ottla.model import NO_OFFSET
from ottla.records.control import read_marker
from ottla.records.format import DELETE_HORIZON_FLAG

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ottla.log.cleaned_transactions import CleanedTransactions
    from ottla.log.keyed_records import KeyedRecords
    from ottla.log.offset_map import OffsetMap
    from ottla.log.producers import Producer
    from ottla.records.format import Buffer
    from ottla.records.header import BatchHeader


class LastBatch(NamedTuple):
    """Identifies the last batch of a producer. Its header must be kept, because it has the last sequence number."""

    last_offset: int
    """-1 if the producer has written nothing in its epoch. The last batch is then the marker that began the epoch."""
    epoch: int


def last_batches(producers: Iterable[Producer]) -> dict[int, LastBatch]:
    """The last batch of each producer, by producer id."""
    return {
        producer.producer_id: LastBatch(
            producer.batches[-1].last_offset if producer.batches else NO_OFFSET, producer.epoch
        )
        for producer in producers
    }


class BatchCleaner:
    """Cleans the batches of a log. They must come in their order, from the start of the log."""

    __slots__ = ("_first_dirty_offset", "_last_batches", "_new_horizon_ms", "_now_ms", "_offsets", "_transactions")

    def __init__(
        self,
        offsets: OffsetMap,
        transactions: CleanedTransactions,
        last_batches: Mapping[int, LastBatch],
        *,
        first_dirty_offset: int,
        now_ms: int,
        delete_retention_ms: int,
    ) -> None:
        self._offsets = offsets
        self._transactions = transactions
        self._last_batches = last_batches
        self._first_dirty_offset = first_dirty_offset
        self._now_ms = now_ms
        self._new_horizon_ms = now_ms + delete_retention_ms

    def clean(self, batch: Buffer, header: BatchHeader, *, needed: bool) -> Buffer | None:
        """The batch to keep, or None to remove it. If nothing changes, the result is the given object.

        A batch that is `needed` is kept even without records. Raises InvalidBatch.
        """
        if header.is_control:
            records, kept, horizon = self._clean_control(batch, header)
        elif self._transactions.is_aborted(header):
            records, kept, horizon = None, [], False
        elif header.last_offset >= self._offsets.end_offset:
            return batch
        else:
            records, kept, horizon = self._clean_records(batch, header)
        if records is not None and len(kept) == header.record_count and kept and not horizon:
            return batch
        if records is not None and kept:
            return rebuild(header, records, kept, self._new_horizon_ms if horizon else None)
        if not needed and not self._is_last_of_producer(header):
            return None
        return empty(header) if header.record_count else batch

    def _clean_control(self, batch: Buffer, header: BatchHeader) -> tuple[KeyedRecords | None, list[int], bool]:
        if self._transactions.marks_nothing(header, read_marker(batch, header)):
            if header.record_count == 0 or self._is_past_horizon(header):
                return None, [], False
            if not header.attributes & DELETE_HORIZON_FLAG:
                return read_keys(batch, header), list(range(header.record_count)), True
        return read_keys(batch, header), list(range(header.record_count)), False

    def _clean_records(self, batch: Buffer, header: BatchHeader) -> tuple[KeyedRecords, list[int], bool]:
        """The records, the numbers of those to keep, and whether their batch needs a delete horizon."""
        records = read_keys(batch, header)
        kept = self._latest(header, records)
        tombstones = records.tombstones
        if not tombstones:
            return records, kept, False
        if self._is_past_horizon(header):
            gone = set(tombstones)
            return records, [number for number in kept if number not in gone], False
        has_horizon = header.attributes & DELETE_HORIZON_FLAG != 0
        return records, kept, not has_horizon and not set(tombstones).isdisjoint(kept)

    def _latest(self, header: BatchHeader, records: KeyedRecords) -> list[int]:
        """The numbers of the records that no later record with the same key replaces."""
        keys, count = records.keys, len(records.keys)
        if header.last_offset < self._first_dirty_offset and self._offsets.knows_none_of(keys) and None not in keys:
            return list(range(count))
        base_offset, deltas = header.base_offset, records.deltas
        latest = self._offsets.latest(keys)
        if latest == [base_offset + delta for delta in deltas]:
            return list(range(count))
        return [
            number
            for number, (key, last, delta) in enumerate(zip(keys, latest, deltas, strict=True))
            if key is not None and (last is None or last <= base_offset + delta)
        ]

    def _is_past_horizon(self, header: BatchHeader) -> bool:
        return header.attributes & DELETE_HORIZON_FLAG != 0 and header.base_timestamp <= self._now_ms

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        last = self._last_batches.get(header.producer_id)
        if last is None:
            return False
        if last.last_offset >= 0:
            return header.last_offset == last.last_offset
        return header.is_control and header.producer_epoch == last.epoch
