"""One segment: a file of batches, with an index by offset, one by time, and perhaps one of aborted transactions."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, TypeVar

from ottla.log.config import LogConfig
from ottla.log.index import OFFSET_ENTRY, TIME_ENTRY, DamagedIndex, SparseIndex, whole_entries
from ottla.log.layout import (
    DELETED_SUFFIX,
    INDEX_SUFFIXES,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    SEGMENT_SUFFIXES,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    segment_path,
)
from ottla.log.scan import DamagedBatch, headers
from ottla.log.timestamp_search import FirstAtOrAfter, LargestTimestamp
from ottla.log.transaction_index import TransactionIndex
from ottla.model import NO_TIMESTAMP
from ottla.records.format import LOG_OVERHEAD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ottla.env.disk import Buffer, File
    from ottla.log.storage import Storage
    from ottla.records.header import BatchHeader

logger = logging.getLogger("ottla.log")

T = TypeVar("T")

_DEFAULT_CONFIG = LogConfig()
_UNKNOWN = -2

_NEAR = 4096
"""Within so many bytes the index has one entry at most, so a search in the index would save nothing."""


class Segment:
    """The file has `size` valid bytes. Other bytes may follow after a failed write: nobody reads them, the next append
    overwrites them, and `seal` truncates the file."""

    __slots__ = (
        "_bytes_since_entry",
        "_file",
        "_first_timestamp",
        "_indexed_timestamp",
        "_max_timestamp",
        "_max_timestamp_offset",
        "_storage",
        "_suffix",
        "base_offset",
        "created_ms",
        "directory",
        "indexes_are_full",
        "offset_index",
        "size",
        "time_index",
        "transaction_index",
    )

    def __init__(
        self, storage: Storage, directory: str, base_offset: int, size: int, *, new: bool = False, suffix: str = ""
    ) -> None:
        self.directory = directory
        self.base_offset = base_offset
        self.size = size
        self._suffix = suffix
        self.created_ms = storage.clock.time_ms()
        self.offset_index = SparseIndex(storage.disk, self.path(OFFSET_INDEX_SUFFIX), OFFSET_ENTRY, new=new)
        self.time_index = SparseIndex(storage.disk, self.path(TIME_INDEX_SUFFIX), TIME_ENTRY, new=new)
        self.transaction_index: TransactionIndex | None = None
        """None while no marker in the segment has aborted a transaction, as in nearly every segment."""
        self.indexes_are_full = False
        self._storage = storage
        self._file: File | None = None
        self._bytes_since_entry = 0
        self._first_timestamp = _UNKNOWN
        self._max_timestamp = NO_TIMESTAMP if new else _UNKNOWN
        self._max_timestamp_offset = base_offset
        self._indexed_timestamp = NO_TIMESTAMP

    @classmethod
    def create(cls, storage: Storage, directory: str, base_offset: int, suffix: str = "") -> Segment:
        """A new, empty segment. The names of its files end in the suffix."""
        segment = cls(storage, directory, base_offset, 0, new=True, suffix=suffix)
        for suffix in SEGMENT_SUFFIXES:
            storage.disk.remove(segment.path(suffix))
        storage.disk.open(segment.path(), create=True).close()
        return segment

    def path(self, suffix: str = LOG_SUFFIX) -> str:
        return segment_path(self.directory, self.base_offset, suffix) + self._suffix

    def has_indexes(self, names: set[str]) -> bool:
        """Whether both index files are among the names in the directory."""
        return all(self.path(suffix).rpartition("/")[2] in names for suffix in (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX))

    def file(self) -> File:
        file = self._file
        if file is None:
            file = self._file = self._storage.disk.open(self.path())
            self._storage.files.opened(self)
        return file

    def release_file(self) -> None:
        self._file = None
        self.offset_index.forget_block()
        self.time_index.forget_block()

    # Writing

    def append(self, batch: Buffer, header: BatchHeader, base_offset: int, config: LogConfig) -> None:
        """Write a batch behind the last one. On OSError nothing was appended."""
        if self._max_timestamp == _UNKNOWN:
            self._load_max_timestamp()
        position = self.size
        (self._file or self.file()).write(batch, position)
        self.note(header, base_offset, position, config)
        self.size = position + len(batch)

    def note(self, header: BatchHeader, base_offset: int, position: int, config: LogConfig) -> None:
        """Account for a batch at a position: the largest timestamp, and an index entry when one is due."""
        _, batch_length, _, _, _, _, last_offset_delta, _, timestamp, _, _, _, record_count = header
        if position == 0:
            self._first_timestamp = timestamp
        if timestamp > self._max_timestamp and record_count:
            self._max_timestamp = timestamp
            self._max_timestamp_offset = base_offset + last_offset_delta
        if self._bytes_since_entry > config.index_interval_bytes:
            self.offset_index.append(base_offset + last_offset_delta - self.base_offset, position)
            self._add_time_entry()
            self._bytes_since_entry = 0
            self.indexes_are_full = self._are_indexes_full(config.segment_index_bytes)
            if self.offset_index.wants_flush:
                self._flush_indexes_if_possible()
        self._bytes_since_entry += batch_length + LOG_OVERHEAD

    def _add_time_entry(self) -> None:
        timestamp = self.max_timestamp
        if timestamp > self._indexed_timestamp:
            self.time_index.append(timestamp, self._max_timestamp_offset - self.base_offset)
            self._indexed_timestamp = timestamp

    def _are_indexes_full(self, limit: int) -> bool:
        """One entry of the time index is kept free for the moment the segment is sealed."""
        return (
            len(self.offset_index) >= limit // OFFSET_ENTRY.size or len(self.time_index) >= limit // TIME_ENTRY.size - 1
        )

    def _flush_indexes_if_possible(self) -> None:
        """Try to write index entries. The batch is appended already, so on a full disk the entries stay in memory."""
        try:
            self.offset_index.flush()
            self.time_index.flush()
        except OSError as error:
            logger.warning("%s: index entries stay in memory for now: %s", self.path(), error)

    def add_transaction_index(self, *, new: bool) -> TransactionIndex:
        """Give the segment its index of aborted transactions: a new one, or the one that is on disk."""
        path = self.path(TRANSACTION_INDEX_SUFFIX)
        index = self.transaction_index = TransactionIndex(self._storage.disk, path, self.base_offset, new=new)
        return index

    def remove_transaction_index(self) -> None:
        if self.transaction_index is not None:
            self._storage.disk.remove(self.path(TRANSACTION_INDEX_SUFFIX))
            self.transaction_index = None

    def cut_back(self) -> None:
        """Try to truncate the bytes that a failed write left behind."""
        try:
            self.file().truncate(self.size)
        except OSError as error:
            logger.warning("%s has stray bytes past %d, to be overwritten: %s", self.path(), self.size, error)

    def seal(self) -> None:
        """Complete the indexes and the file, as Kafka does when it rolls a segment."""
        self._add_time_entry()
        self.offset_index.seal()
        self.time_index.seal()
        if self.transaction_index is not None:
            self.transaction_index.seal()
        if self._storage.disk.size(self.path()) != self.size:
            self.file().truncate(self.size)

    def sync(self) -> None:
        """The batches are on disk when this returns. Blocking: may run in a thread, so it leaves `_file` alone."""
        (self._file or self._storage.disk.open(self.path())).sync()

    def sync_indexes(self) -> None:
        """Blocking: may run in a thread, once the segment is sealed."""
        self.offset_index.sync()
        self.time_index.sync()
        if self.transaction_index is not None:
            self.transaction_index.sync()

    def truncate(self, position: int, end_offset: int) -> None:
        """Keep the batches before a position, all of which end before an offset. The transaction index is loaded."""
        relative = end_offset - self.base_offset
        self._with_indexes(lambda: self._truncate_indexes(relative))
        if self.transaction_index is not None:
            self.transaction_index.truncate(end_offset)
        self.file().truncate(position)
        self.size = position
        self._bytes_since_entry = 0
        self.indexes_are_full = False
        self._rescan_timestamps()

    def _truncate_indexes(self, relative: int) -> None:
        self.offset_index.truncate(self.offset_index.count_up_to(0, relative - 1))
        self.time_index.truncate(self.time_index.count_up_to(1, relative - 1))

    def discard(self, delay_ms: int) -> None:
        """Rename the files out of the log at once; they are removed after the delay.

        On OSError the segment is as it was. Once the log file is gone the segment is gone, whatever becomes of its
        indexes: the next start finds indexes without a log and removes them.
        """
        self._discard_file(LOG_SUFFIX, delay_ms)
        self._storage.files.forget(self)
        self._file = None
        for suffix in INDEX_SUFFIXES:
            try:
                self._discard_file(suffix, delay_ms)
            except OSError as error:
                logger.warning("%s stays until the next start: %s", self.path(suffix), error)

    def _discard_file(self, suffix: str, delay_ms: int) -> None:
        path = self.path(suffix)
        if self._storage.disk.exists(path):
            self._storage.disk.rename(path, path + DELETED_SUFFIX)
            self._storage.trash.add(path + DELETED_SUFFIX, delay_ms)

    def close(self) -> None:
        self._storage.files.forget(self)
        self._file = None

    # Reading

    def headers(self, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
        return headers(self.file(), position, self.size, self.base_offset)

    def find(self, offset: int) -> tuple[int, BatchHeader] | None:
        """Position and header of the first batch that ends at or past an offset. Raises DamagedBatch."""
        position = self._position_before(0, offset - self.base_offset) if offset > self.base_offset else 0
        for found in self.headers(position):
            if found[1].last_offset >= offset:
                return found
        return None

    def boundary(self, start: int, max_bytes: int) -> tuple[int, int]:
        """The last end of a batch within `max_bytes` of a batch's start, and the offset that comes next.

        At least one batch is taken. Ending between batches spares the reader a part it would throw away, and tells
        where its next read begins.
        """
        limit = start + max_bytes
        end, next_offset = start, self.base_offset
        near = start if max_bytes <= _NEAR else max(start, self._position_before(1, limit))
        for position, header in self.headers(near):
            end, next_offset = position + header.size, header.next_offset
            if end > limit and position > start:
                return position, header.base_offset
            if end >= limit:
                break
        return end, next_offset

    def headers_after(self, position: int) -> Iterator[tuple[int, BatchHeader]]:
        """The batches past any position, and perhaps a few before it. Raises DamagedBatch."""
        return self.headers(self._position_before(1, position)) if self.size else iter(())

    def end_before(self, offset: int) -> tuple[int, int]:
        """Where the last batch that is wholly before an offset ends: its position and the offset that comes next.

        Raises DamagedBatch.
        """
        end, next_offset = 0, self.base_offset
        if self.size:
            for position, header in self.headers(self._position_before(0, offset - 1 - self.base_offset)):
                if header.last_offset >= offset:
                    break
                end, next_offset = position + header.size, header.next_offset
        return end, next_offset

    def search_timestamp(self, timestamp: int, start_offset: int) -> FirstAtOrAfter:
        """A search for the first record, from an offset on, not older than a timestamp. Raises DamagedBatch."""
        entry = self._with_indexes(lambda: self.time_index.floor(0, timestamp))
        relative = max(start_offset - self.base_offset, entry[1] if entry else 0)
        position = self._position_before(0, relative)
        return FirstAtOrAfter(
            self.file(), position, self.size, self.base_offset, timestamp=timestamp, start_offset=start_offset
        )

    def search_max_timestamp(self) -> LargestTimestamp | None:
        """A search for the first record that carries the segment's largest timestamp. Raises DamagedBatch."""
        if self.max_timestamp == NO_TIMESTAMP:
            return None
        found = self.find(self._max_timestamp_offset)
        if found is None:
            return None
        position, header = found
        if header.record_count == 0:
            return None  # Kafka's indexes also name batches that compaction has emptied.
        return LargestTimestamp(self.file(), position, header)

    # Times

    @property
    def max_timestamp(self) -> int:
        """The largest timestamp of any record, -1 when none has one."""
        if self._max_timestamp == _UNKNOWN:
            self._load_max_timestamp()
        return self._max_timestamp

    @property
    def largest_timestamp(self) -> int:
        """The timestamp for retention by time: the largest one, or the time of the last write if no record has one."""
        timestamp = self.max_timestamp
        return timestamp if timestamp >= 0 else self._storage.disk.modified_ms(self.path())

    @property
    def first_timestamp(self) -> int:
        """The timestamp for rolling by time: the largest one of the first batch, -1 if there is none."""
        if self._first_timestamp == _UNKNOWN and self.size:
            try:
                self._first_timestamp = next(self.headers())[1].max_timestamp
            except DamagedBatch:
                self._first_timestamp = NO_TIMESTAMP
        first = self._first_timestamp
        return first if first >= 0 else NO_TIMESTAMP

    def _load_max_timestamp(self) -> None:
        """Read the last entry of the time index, which was written when the segment was sealed or the log closed."""
        entry = self._with_indexes(self.time_index.last)
        timestamp, relative = entry if entry is not None else (NO_TIMESTAMP, 0)
        self._max_timestamp = self._indexed_timestamp = timestamp
        self._max_timestamp_offset = self.base_offset + relative

    def _rescan_timestamps(self) -> None:
        """After a truncation, find the largest timestamp again: read the batches behind the last time index entry."""
        self._first_timestamp = _UNKNOWN
        self._load_max_timestamp()
        try:
            for _, header in self.headers(self._position_before(0, self._max_timestamp_offset - self.base_offset)):
                if header.max_timestamp > self._max_timestamp and header.record_count:
                    self._max_timestamp = header.max_timestamp
                    self._max_timestamp_offset = header.last_offset
        except DamagedBatch as error:
            logger.error("%s is damaged %s, so that newer timestamps may be missing", self.path(), error)

    # Indexes

    def _position_before(self, column: int, target: int) -> int:
        """The start of a batch from which a walk reaches the target: a relative offset (column 0) or a position (1)."""
        return self._with_indexes(lambda: self._checked_position(column, target))

    def _checked_position(self, column: int, target: int) -> int:
        """The position from the index, after a check that a batch starts there and is not behind the target."""
        entry = self.offset_index.floor(column, target)
        if entry is None:
            return 0
        relative, position = entry
        try:
            if position < 0:
                raise DamagedBatch(position, "before the file")
            _, header = next(self.headers(position))
        except (DamagedBatch, StopIteration) as error:
            raise DamagedIndex(f"{self.path(OFFSET_INDEX_SUFFIX)} points to no batch, {error}") from error
        if not self.base_offset <= header.base_offset <= self.base_offset + relative:
            raise DamagedIndex(f"{self.path(OFFSET_INDEX_SUFFIX)} points to a batch at offset {header.base_offset}")
        return position

    def _with_indexes(self, action: Callable[[], T]) -> T:
        """Use the indexes; if they turn out to be damaged, rebuild them first. Raises DamagedBatch."""
        try:
            return action()
        except DamagedIndex as error:
            logger.warning("%s; the indexes are rebuilt from the segment", error)
        self.rebuild_indexes()
        try:
            return action()
        except DamagedIndex as error:
            raise DamagedBatch(0, str(error)) from error

    def rebuild_indexes(self, config: LogConfig = _DEFAULT_CONFIG) -> None:
        """Read all headers and write both indexes anew.

        If the segment itself is damaged, the old entries are the only way to the batches after the damage, so they are
        kept.
        """
        offsets, times = self.offset_index.contents(), self.time_index.contents()
        self.restart()
        try:
            for position, header in self.headers():
                self.note(header, header.base_offset, position, config)
        except DamagedBatch as error:
            logger.error("%s is damaged %s", self.path(), error)
            self._keep_entries_after(error.position, offsets, times)
        self.seal()

    def _keep_entries_after(self, position: int, offsets: bytes, times: bytes) -> None:
        last = self.offset_index.last()
        relative = last[0] if last else 0
        for offset_entry in whole_entries(OFFSET_ENTRY, offsets):
            if offset_entry[0] > relative and position < offset_entry[1] < self.size:
                self.offset_index.append(*offset_entry)
        for timestamp, relative in whole_entries(TIME_ENTRY, times):
            if timestamp > self.max_timestamp:
                self._max_timestamp, self._max_timestamp_offset = timestamp, self.base_offset + relative
                self._add_time_entry()

    def restart(self) -> None:
        """Reset indexes and timestamps. The caller calls `note` for every batch after this."""
        self.offset_index.reset()
        self.time_index.reset()
        self._bytes_since_entry = 0
        self.indexes_are_full = False
        self._first_timestamp = _UNKNOWN
        self._max_timestamp = self._indexed_timestamp = NO_TIMESTAMP
        self._max_timestamp_offset = self.base_offset
