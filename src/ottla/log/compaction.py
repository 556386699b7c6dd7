"""What a log has to do with its compaction, on the event loop: say what may be compacted, and take the result."""

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
        "_limit",
        "_log",
        "_next_limit",
        "_segments",
        "_storage",
        "cleaned_offset",
        "generation",
    )

    def __init__(self, log: Log, storage: Storage, segments: Segments, aborted: AbortedTransactions) -> None:
        self.cleaned_offset = 0
        """What lies before was compacted. It is kept in the checkpoint of the log directory."""
        self.generation = 0
        """Changes whenever records that were in the log may have been replaced by others."""
        self._limit = 0
        """What lies before is stable, and that it is cannot be lost any more."""
        self._next_limit: tuple[int, int] | None = None
        """What the limit will be, once all before the second offset is synced."""
        self._log = log
        self._storage = storage
        self._segments = segments
        self._aborted = aborted

    def invalidate(self, offset: int | None = None) -> None:
        """Records may be replaced by others from an offset on, or the log is closed: no pass may go on."""
        self.generation += 1
        if offset is not None:
            self.cleaned_offset = min(self.cleaned_offset, offset)
            self._limit = min(self._limit, offset)
            self._next_limit = None

    def cleanable(self, now_ms: int, high_watermark: int) -> Cleanable:
        """What may be compacted now.

        What is not stable may still turn out to be aborted, and what is not synced may get lost, so that neither may
        take the place of an older record. A transaction counts once its marker is synced, too.
        """
        log = self._log
        present = log.last_stable_offset(high_watermark), log.end_offset
        for limit, end_offset in (self._next_limit or present, present):
            if log.recovery_point < end_offset:
                self._next_limit = limit, end_offset
                break
            self._limit, self._next_limit = limit, None
        return self._find(now_ms, self._limit)

    def cleanable_after_sync(self, now_ms: int, high_watermark: int) -> Cleanable:
        """What it would be if everything were synced."""
        return self._find(now_ms, self._log.last_stable_offset(high_watermark))

    def _find(self, now_ms: int, limit: int) -> Cleanable:
        log = self._log
        start = max(self.cleaned_offset, log.log_start_offset)
        return find_cleanable(self._segments.all, log.config, first_dirty_offset=start, limit=limit, now_ms=now_ms)

    def start(
        self, cleanable: Cleanable, now_ms: int, memory_limit: int, rest: Callable[[int], None] = lambda _: None
    ) -> Cleaning:
        """A pass over what may be compacted, for a thread to do. Reads transaction indexes that were not used yet."""
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
        """All of them, since a transaction may be aborted by a marker far behind its records."""
        for segment in self._segments.all:
            index = self._aborted.index_of(segment, self._log.log_start_offset)
            if index is not None and index.size:
                yield segment.path(TRANSACTION_INDEX_SUFFIX), index.size

    def holds(self, sources: Sequence[Source]) -> bool:
        """Whether these segments are all there, and are not appended to."""
        return self._segments.has_in_a_row([source.segment for source in sources])

    def swap(self, cleaned: CleanedSegment) -> bool:
        """Put a new segment in the place of those it was made of; False, and it is removed, if they are not there any
        more.

        On OSError before the swap has begun the log is as it was. After that it is doubtful what is where, until the
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
        """All groups of a pass were swapped in."""
        if cleaning.log.generation == self.generation:
            self.cleaned_offset = cleaning.offsets.end_offset
