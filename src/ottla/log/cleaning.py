"""One pass of compaction over a log: the part that runs in a thread.

The pass works on a copy of the log's state from its start (`LogState`) and writes only new files. For every batch it
calls `rest`, which raises CleaningVoidError if the log was truncated or closed. `Compaction.swap` checks that again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ottla.log.batch_cleaning import BatchCleaner
from ottla.log.cleaned_transactions import CleanedTransactions
from ottla.log.index import MAX_RELATIVE_OFFSET
from ottla.log.keyed_records import read_keys
from ottla.log.layout import (
    CLEANED_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
)
from ottla.log.offset_map import OffsetMap
from ottla.log.scan import checked_batches, headers
from ottla.log.segment import Segment
from ottla.log.swap import abandon
from ottla.log.transaction_index import encode_entries, entries
from ottla.records.control import read_marker
from ottla.records.header import read_header

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ottla.env.disk import Buffer, File
    from ottla.log.batch_cleaning import LastBatch
    from ottla.log.config import LogConfig
    from ottla.log.storage import Storage
    from ottla.log.transaction_index import AbortedTransaction
    from ottla.records.header import BatchHeader

_WRITE_BYTES = 1 << 20
_MAX_GROUP = 64
"""Most segments that are merged into one. The limit bounds the renames of a swap, which block the event loop."""

_MAX_SEGMENT_BYTES = 2**31 - 1
"""Positions in an index have four bytes."""


class CleaningVoidError(Exception):
    """The log was truncated or closed during the pass, or the broker stops."""


class Source(NamedTuple):
    """A sealed segment as it was when the pass began."""

    segment: Segment
    """The thread may use only its identity and its file names, because the event loop still uses the segment."""
    end_offset: int
    """The base offset of the next segment."""
    size: int
    has_transaction_index: bool

    @property
    def base_offset(self) -> int:
        return self.segment.base_offset


class CleanedSegment(NamedTuple):
    """The segment that replaces its sources: complete and synced, in files that end in `.cleaned`."""

    sources: Sequence[Source]
    generation: int
    """See `Compaction`."""
    size: int
    aborted: int
    """Number of entries in its transaction index."""

    @property
    def base_offset(self) -> int:
        return self.sources[0].base_offset


class LogState(NamedTuple):
    """The state of a log at the start of a pass."""

    path: str
    config: LogConfig
    generation: int
    sources: Sequence[Source]
    first_dirty_offset: int
    aborted: Sequence[tuple[str, int]]
    """The paths of the transaction indexes, each with the number of valid bytes."""
    last_batches: Mapping[int, LastBatch]
    now_ms: int


class Cleaning:
    """`prepare` first, then `clean` each of the `groups`. Both block, and may run in a thread.

    They raise CleaningVoidError, OSError, and DamagedBatch or InvalidBatch if a batch cannot be read.
    """

    def __init__(self, storage: Storage, log: LogState, memory_limit: int, rest: Callable[[int], None]) -> None:
        self.log = log
        self.groups: list[list[Source]] = []
        self.offsets = OffsetMap(log.first_dirty_offset, memory_limit)
        self._storage = storage
        self._rest = rest
        """Called with the size of every read and write. It may sleep, and raises CleaningVoidError to end the pass."""
        self._aborted: list[AbortedTransaction] = []
        self._transactions = CleanedTransactions(())

    def prepare(self) -> None:
        """Find the last record of each key, and decide which segments to merge."""
        for path, size in self.log.aborted:
            self._aborted += entries(self._storage.disk.read_bytes(path)[:size])
        self._map_offsets()
        covered = [source for source in self.log.sources if source.base_offset < self.offsets.end_offset]
        self.groups = list(self._group(covered))
        self._transactions = CleanedTransactions(self._aborted_since(covered[0].base_offset) if covered else ())

    def _aborted_since(self, offset: int) -> list[AbortedTransaction]:
        return [transaction for transaction in self._aborted if transaction.last_offset >= offset]

    # The map

    def _map_offsets(self) -> None:
        start = self.log.first_dirty_offset
        transactions = CleanedTransactions(self._aborted_since(start))
        for source in self.log.sources:
            if source.end_offset <= start:
                continue
            for _, header, batch in self._batches(source):
                if header.last_offset < start:
                    continue
                if not self._map_batch(header, batch, transactions):
                    return
                self.offsets.end_offset = header.next_offset
            self.offsets.end_offset = source.end_offset

    def _map_batch(self, header: BatchHeader, batch: Buffer, transactions: CleanedTransactions) -> bool:
        """False when the map is full."""
        if header.is_control:
            transactions.marks_nothing(header, read_marker(batch, header))
            return True
        if transactions.is_aborted(header) or header.record_count == 0:
            return True
        return self.offsets.add(header.base_offset, read_keys(batch, header))

    def _batches(self, source: Source) -> Iterator[tuple[int, BatchHeader, memoryview]]:
        file = self._storage.disk.open(source.segment.path())
        try:
            for found in checked_batches(file, 0, source.size, source.base_offset, source.base_offset):
                self._rest(found[1].size)
                yield found
        finally:
            file.close()

    # The groups

    def _group(self, sources: Sequence[Source]) -> Iterator[list[Source]]:
        """Groups of adjacent segments that fit into one segment, judged by their sizes before the pass."""
        config = self.log.config
        limits = (config.segment_bytes, config.segment_index_bytes, config.segment_index_bytes)
        group: list[Source] = []
        used = (0, 0, 0)
        for source in sources:
            sizes = source.size, *self._index_sizes(source)
            total = used[0] + sizes[0], used[1] + sizes[1], used[2] + sizes[2]
            if group and (
                len(group) == _MAX_GROUP
                or any(size > limit for size, limit in zip(total, limits, strict=True))
                or source.end_offset - 1 - group[0].base_offset > MAX_RELATIVE_OFFSET
            ):
                yield group
                group, total = [], sizes
            group.append(source)
            used = total
        if group:
            yield group

    def _index_sizes(self, source: Source) -> tuple[int, int]:
        offset_index, time_index = (
            self._storage.disk.size(path) if self._storage.disk.exists(path) else 0
            for path in (source.segment.path(OFFSET_INDEX_SUFFIX), source.segment.path(TIME_INDEX_SUFFIX))
        )
        return offset_index, time_index

    # Cleaning

    def clean(self, group: Sequence[Source]) -> CleanedSegment | None:
        """Write the remaining batches of a group to a new segment. None if a group of one segment stays the same."""
        log = self.log
        cleaner = BatchCleaner(
            self.offsets,
            self._transactions,
            log.last_batches,
            first_dirty_offset=log.first_dirty_offset,
            now_ms=log.now_ms,
            delete_retention_ms=log.config.delete_retention_ms,
        )
        self._transactions.kept.clear()
        try:
            output = self._clean_into(group, cleaner)
            if output is None:
                return None
            output.finish(self._transactions.kept, needs_index=any(source.has_transaction_index for source in group))
        except BaseException:
            abandon(self._storage.disk, log.path, group[0].base_offset)
            raise
        return CleanedSegment(group, log.generation, output.size, len(self._transactions.kept))

    def _clean_into(self, group: Sequence[Source], cleaner: BatchCleaner) -> _Output | None:
        output = self._new_output(group) if len(group) > 1 else None
        last = next((source for source in reversed(group) if source.size), None)
        for source in group:
            for position, header, batch in self._batches(source):
                is_last = source is last and position + header.size == source.size
                kept = cleaner.clean(batch, header, needed=is_last)
                if kept is not batch and output is None:
                    output = self._new_output(group)
                    output.copy(source, position)
                if kept is not None and output is not None:
                    output.add(header if kept is batch else read_header(kept), kept)
        return output

    def _new_output(self, group: Sequence[Source]) -> _Output:
        return _Output(self._storage, self.log, group[0].base_offset, self._rest)


class _Output:
    """A segment that is being written."""

    def __init__(self, storage: Storage, log: LogState, base_offset: int, rest: Callable[[int], None]) -> None:
        self.size = 0
        """Bytes added, including those that are not in the file yet."""
        self._storage = storage
        self._log = log
        self._rest = rest
        self._segment = Segment.create(storage, log.path, base_offset, CLEANED_SUFFIX)
        self._file: File = storage.disk.open(self._segment.path())
        self._waiting: list[Buffer] = []
        self._waiting_bytes = 0

    def copy(self, source: Source, end: int) -> None:
        """Copy the batches of a segment before the position `end` unchanged."""
        file = self._storage.disk.open(source.segment.path())
        for position, header in headers(file, 0, end, source.base_offset):
            self.add(header, file.read(header.size, position))
        file.close()

    def add(self, header: BatchHeader, batch: Buffer) -> None:
        if self.size + len(batch) > _MAX_SEGMENT_BYTES:
            raise OverflowError(f"{self._segment.path()} would have more bytes than its index can count")
        self._segment.note(header, header.base_offset, self.size, self._log.config)
        self.size += len(batch)
        self._waiting.append(batch)
        self._waiting_bytes += len(batch)
        if self._waiting_bytes >= _WRITE_BYTES:
            self._write()

    def _write(self) -> None:
        self._file.write(b"".join(self._waiting), self.size - self._waiting_bytes)
        self._rest(self._waiting_bytes)
        self._waiting.clear()
        self._waiting_bytes = 0

    def finish(self, aborted: Sequence[AbortedTransaction], *, needs_index: bool) -> None:
        """Write and sync all files."""
        self._write()
        self._segment.size = self.size
        self._segment.seal()
        self._file.sync()
        self._file.close()
        self._segment.sync_indexes()
        disk = self._storage.disk
        if aborted or needs_index:
            file = disk.open(self._segment.path(TRANSACTION_INDEX_SUFFIX), create=True)
            file.write(encode_entries(aborted), 0)
            file.sync()
            file.close()
        disk.sync_directory(self._log.path)
