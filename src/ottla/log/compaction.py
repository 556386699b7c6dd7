"""The part of compaction that runs on the event loop: it selects the segments and swaps in the new ones."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from ottla.log.batch_cleaning import last_batches
from ottla.log.cleanable import find_cleanable
from ottla.log.cleaning import Cleaning, LogState, Source
from ottla.log.layout import TRANSACTION_INDEX_SUFFIX
from ottla.log.segment import Segment
from ottla.log.swap import abandon, begin_swap, end_swap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ottla.log.aborted import AbortedTransactions
    from ottla.log.cleanable import Cleanable
    from ottla.log.cleaning import CleanedSegment
    from ottla.log.log import Log
    from ottla.log.segments import Segments
    from ottla.log.storage import Storage


class Compaction:
    __slots__ = (
        "_aborted",
        "_log",
        "_pending_stable_offset",
        "_segments",
        "_storage",
        "_synced_stable_offset",
        "cleaned_offset",
        "generation",
    )

    def __init__(self, log: Log, storage: Storage, segments: Segments, aborted: AbortedTransactions) -> None:
        self.cleaned_offset = 0
        """Records below this offset were compacted. The log directory keeps it in a checkpoint."""
        self.generation = 0
        """Grows whenever records of the log may have been replaced by others, as by a truncation."""
        self._synced_stable_offset = 0
        """Below this offset every transaction is decided, and its marker is synced."""
        self._pending_stable_offset: tuple[int, int] | None = None
        """The next `_synced_stable_offset`, and the offset up to which the log must be synced before."""
        self._log = log
        self._storage = storage
        self._segments = segments
        self._aborted = aborted

    def invalidate(self, offset: int | None = None) -> None:
        """End running passes: records from `offset` on may be replaced by others, or the log is closed."""
        self.generation += 1
        if offset is not None:
            self.cleaned_offset = min(self.cleaned_offset, offset)
            self._synced_stable_offset = min(self._synced_stable_offset, offset)
            self._pending_stable_offset = None

    def cleanable(self, now_ms: int, high_watermark: int) -> Cleanable:
        """The segments that may be compacted now.

        A record may replace an older one only if it cannot disappear. A record above the last stable offset may still
        be aborted, and an unsynced record or marker may be lost in a crash.
        """
        log = self._log
        present = log.last_stable_offset(high_watermark), log.end_offset
        for stable_offset, end_offset in (self._pending_stable_offset or present, present):
            if log.recovery_point < end_offset:
                self._pending_stable_offset = stable_offset, end_offset
                break
            self._synced_stable_offset, self._pending_stable_offset = stable_offset, None
        return self._find(now_ms, self._synced_stable_offset)

    def cleanable_after_sync(self, now_ms: int, high_watermark: int) -> Cleanable:
        """The segments that could be compacted if the whole log were synced."""
        return self._find(now_ms, self._log.last_stable_offset(high_watermark))

    def _find(self, now_ms: int, limit: int) -> Cleanable:
        log = self._log
        start = max(self.cleaned_offset, log.log_start_offset)
        return find_cleanable(self._segments.all, log.config, first_dirty_offset=start, limit=limit, now_ms=now_ms)

    def start(
        self, cleanable: Cleanable, now_ms: int, memory_limit: int, rest: Callable[[int], None] = lambda _: None
    ) -> Cleaning:
        """Create a pass over the given segments, which is to run in a thread. Loads the transaction indexes."""
        sealed = self._segments.all[: cleanable.segments]
        sources = [
            Source(segment, self._segments.next_base(segment), segment.size, segment.transaction_index is not None)
            for segment in sealed
        ]
        log = self._log
        state = LogState(
            log.path,
            log.config,
            self.generation,
            sources,
            cleanable.first_dirty_offset,
            list(self._aborted_indexes()),
            last_batches(log.producers.active()),
            now_ms,
        )
        return Cleaning(self._storage, state, memory_limit, rest)

    def _aborted_indexes(self) -> Iterator[tuple[str, int]]:
        """The paths and sizes of all transaction indexes: a marker may be many segments after its records."""
        for segment in self._segments.all:
            index = self._aborted.index_of(segment, self._log.log_start_offset)
            if index is not None and index.size:
                yield segment.path(TRANSACTION_INDEX_SUFFIX), index.size

    def holds(self, sources: Sequence[Source]) -> bool:
        """Whether the log still has all these segments, and none of them is active."""
        return self._segments.has_in_a_row([source.segment for source in sources])

    def swap(self, cleaned: CleanedSegment) -> bool:
        """Replace the source segments by the new one. If the log no longer has the sources, delete the new segment and
        return False.

        On OSError before the swap has begun, the log is unchanged. Later, it is unknown which files exist, until the
        next start finishes the swap.
        """
        log, disk, old = self._log, self._storage.disk, [source.segment for source in cleaned.sources]
        if cleaned.generation != self.generation or not self.holds(cleaned.sources):
            with contextlib.suppress(OSError):
                abandon(disk, log.path, cleaned.base_offset)
            return False
        try:
            begin_swap(disk, log.path, cleaned.base_offset)
        except OSError:
            abandon(disk, log.path, cleaned.base_offset)
            raise
        try:
            for segment in reversed(old):
                segment.discard(log.config.file_delete_delay_ms)
            end_swap(disk, log.path, cleaned.base_offset)
        except OSError:
            log.fsync_failed = True
            raise
        self._take(old, cleaned)
        return True

    def _take(self, old: Sequence[Segment], cleaned: CleanedSegment) -> None:
        log = self._log
        new = Segment(self._storage, log.path, cleaned.base_offset, cleaned.size)
        if cleaned.aborted:
            new.add_transaction_index(new=False)
        else:
            self._storage.disk.remove(new.path(TRANSACTION_INDEX_SUFFIX))
        self._segments.replace(old, new)
        log.segments_replaced(old)

    def finish(self, cleaning: Cleaning) -> None:
        """Note how far the log is compacted, after all groups of a pass were swapped in."""
        if cleaning.log.generation == self.generation:
            self.cleaned_offset = cleaning.offsets.end_offset
