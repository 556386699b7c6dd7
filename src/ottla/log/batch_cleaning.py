"""What becomes of one batch when its log is compacted. The rules are those of Kafka 4.3 (KIP-98, KIP-534).

A record goes when a later one has its key, when its transaction was aborted, or when it has no key. A record without a
value, a tombstone, tells readers that its key is gone; the batch that has it gets a delete horizon when it is first
compacted, and once that is past the tombstone goes, too. The marker of a transaction that nothing is left of does so in
the same way. A batch that has lost all of its records goes, unless its header is still needed.
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
    """How to tell the last batch of a producer, which says how it goes on."""

    last_offset: int
    """-1 for a producer that has written nothing in its epoch: then it is the marker that brought the epoch."""
    epoch: int


def last_batches(producers: Iterable[Producer]) -> dict[int, LastBatch]:
    """By producer id."""
    return {
        producer.producer_id: LastBatch(
            producer.batches[-1].last_offset if producer.batches else NO_OFFSET, producer.epoch
        )
        for producer in producers
    }


class BatchCleaner:
    """Takes the batches of a log in their order, from its start."""

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
        """The batch to keep, which is the one given when nothing changes; None when it goes.

        One that is `needed` is kept even without records. Raises InvalidBatch.
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
        """The records, which of them stay, and whether their batch needs a delete horizon."""
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
        """Which of the records no later one with the same key follows."""
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
