"""Checks that hold for a compacted log at any moment and after any crash."""

from __future__ import annotations

from ottla.log.layout import CLEANED_SUFFIX, SWAP_SUFFIX
from ottla.log.log import Log
from ottla.records.control import read_marker
from ottla.records.header import BatchHeader, iter_headers, read_header
from ottla.records.reader import Record, read_records
from tests.log.fault_disk import FaultDisk
from tests.log.world import content


class StoredBatch:
    """A batch as it was appended."""

    def __init__(self, data: bytes) -> None:
        self.header: BatchHeader = read_header(data)
        self.records = read_records(data)
        self.marker = read_marker(data, self.header) if self.header.is_control else None


def committed(batches: list[StoredBatch]) -> list[Record]:
    """The records of all batches except those of aborted and open transactions."""
    ends: dict[int, bool] = {}
    found: list[Record] = []
    for batch in reversed(batches):
        if batch.marker is not None:
            ends[batch.header.producer_id] = batch.marker.committed
        elif not batch.header.is_transactional or ends.get(batch.header.producer_id, False):
            found[:0] = batch.records
    return found


def stored_batches(log: Log, limit: int | None = None) -> list[bytes]:
    """All batches from the start of the log up to an offset, as a reader gets them."""
    offset = log.log_start_offset
    batches: list[bytes] = []
    while True:
        read = log.read(offset, 1 << 20, log.end_offset if limit is None else limit)
        if not read.size:
            return batches
        data = memoryview(content(read))
        batches += [bytes(data[position : position + header.size]) for position, header in iter_headers(data)]
        assert read.next_offset > offset
        offset = read.next_offset


def visible(log: Log) -> list[Record]:
    """The records that a `read_committed` consumer returns to its application."""
    stable = log.last_stable_offset(log.end_offset)
    waiting = sorted(log.aborted_transactions(log.log_start_offset, stable), key=lambda each: each.first_offset)
    skipped: set[int] = set()
    seen: list[Record] = []
    for batch in stored_batches(log, stable):
        header = read_header(batch)
        while waiting and waiting[0].first_offset <= header.last_offset:
            skipped.add(waiting.pop(0).producer_id)
        if header.is_control:
            skipped.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in skipped):
            seen += read_records(batch)
    return [record for record in seen if record.offset >= log.log_start_offset]


def check(log: Log, batches: list[StoredBatch], now_ms: int) -> None:
    """The log has only written records, and lacks only records that a later record replaces."""
    written = committed(batches)
    stable = log.last_stable_offset(log.end_offset)
    expected = [record for record in written if log.log_start_offset <= record.offset < stable]
    seen = visible(log)
    assert [record.offset for record in seen] == sorted({record.offset for record in seen})
    known = {record.offset: record for record in expected}
    assert all(known[record.offset] == record for record in seen)
    kept = {record.offset for record in seen}
    last_of_key = {record.key: record for record in expected}
    for key, record in last_of_key.items():
        if record.offset not in kept:
            assert record.value is None, f"the last value of {key!r} is gone"
            assert record.timestamp - 20 + log.config.delete_retention_ms <= now_ms, f"{key!r} was forgotten too early"
    newer = log.compaction.cleaned_offset
    untouched = [record.offset for record in expected if record.offset >= newer]
    assert [record.offset for record in seen if record.offset >= newer] == [
        offset for offset in untouched if offset in kept
    ]
    _check_segments(log)


def check_compacted(log: Log) -> None:
    """After a pass, no key has two records below the cleaned offset."""
    keys = [record.key for record in visible(log) if record.offset < log.compaction.cleaned_offset]
    assert len(keys) == len(set(keys))


def _check_segments(log: Log) -> None:
    """Segments are contiguous, and offsets rise."""
    next_offset = None
    for segment in log._segments.all:
        assert next_offset in (None, segment.base_offset)
        next_offset = segment.base_offset
        for _, header in segment.headers():
            assert header.base_offset >= next_offset
            next_offset = header.next_offset
    assert next_offset == log.end_offset


def check_files(disk: FaultDisk, log: Log) -> None:
    """No files of a swap are left."""
    assert not [name for name in disk.list(log.path) if name.endswith((CLEANED_SUFFIX, SWAP_SUFFIX))]


def producer_states(log: Log) -> dict[int, tuple[int, int, int]]:
    return {
        producer.producer_id: (producer.epoch, producer.next_sequence, producer.transaction_start)
        for producer in log.producers.active()
    }
