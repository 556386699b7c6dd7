"""Finds the batches of a read, by offset or by timestamp. A reader that continues its last read needs no search."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from ottla.errors import ErrorCode, KafkaError
from ottla.log.scan import DamagedBatch
from ottla.log.timestamp_search import finish
from ottla.model import NO_TIMESTAMP
from ottla.records.invalid import InvalidBatch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ottla.env.disk import File
    from ottla.log.segment import Segment
    from ottla.log.segments import Segments
    from ottla.log.timestamp_search import TimestampOffset, TimestampSearch

logger = logging.getLogger("ottla.log")

_MAX_HINTS = 32
"""Next positions of readers that are remembered, for the consumer groups and followers of one partition."""

_MAX_READS = 16
"""Results of reads that are remembered."""


class LogRead(NamedTuple):
    """Whole batches, as a slice of a file. The slice keeps the file open, even if the segment is deleted.

    Below the high watermark a log is never truncated, so the bytes of a slice that was limited by it never change.
    """

    file: File | None
    """None when there is nothing to read at the offset yet; the size is 0 then."""
    position: int
    size: int
    next_offset: int
    """The offset at which the next read should begin."""


class _Found(NamedTuple):
    """The result of a read. It holds no file, so the file can be closed."""

    segment: Segment
    position: int
    size: int
    next_offset: int
    limits: tuple[int, int] | None
    """The limit and the end of the log, if one of them has ended the read. None if `max_bytes` has ended it: the same
    read then has the same result, however far the log grows."""


class Reading:
    """Finds batches in the segments and remembers where reads ended: `_hints` maps an offset to its position.

    Many readers may ask for the same offset, for example all long-polls that an append wakes, or several groups. The
    batches are searched for the first of them only: `_known` has the results by offset and `max_bytes`.
    """

    __slots__ = ("_hints", "_known", "_reported", "_segments")

    def __init__(self, segments: Segments) -> None:
        self._segments = segments
        self._hints: dict[int, tuple[Segment, int]] | None = None
        self._known: dict[tuple[int, int], _Found] = {}
        self._reported: str | None = None

    def forget(self) -> None:
        """Drop the remembered positions, because segments were removed or truncated."""
        self._hints = None
        self._known.clear()

    def read(self, offset: int, max_bytes: int, limit: int, end_offset: int) -> LogRead:
        """See `Log.read`. The log has checked that `offset` and `limit` are in its range. Raises KafkaError."""
        found = self._known.get((offset, max_bytes))
        if found is not None:
            segment, position, size, next_offset, limits = found
            is_current = next_offset <= limit if limits is None else limits == (limit, end_offset)
            if is_current:
                return tuple.__new__(LogRead, (segment.file(), position, size, next_offset))
        try:
            found = self._find(offset, max_bytes, limit, end_offset)
        except DamagedBatch as error:
            raise self.damaged(error) from error
        if found is None:
            return LogRead(None, 0, 0, offset)
        if len(self._known) >= _MAX_READS:
            self._known.clear()
        self._known[offset, max_bytes] = found
        return LogRead(found.segment.file(), found.position, found.size, found.next_offset)

    def _find(self, offset: int, max_bytes: int, limit: int, end_offset: int) -> _Found | None:
        place = self._locate(offset)
        if place is None:
            return None
        segment, position = place
        end, next_offset = self._end_of_read(segment, limit, end_offset)
        if end <= position:
            return None
        limits: tuple[int, int] | None = (limit, end_offset)
        if end - position > max_bytes:
            boundary, following = segment.boundary(position, max_bytes)
            if boundary < end:
                end, next_offset, limits = boundary, following, None
        self._remember(next_offset, segment, end)
        return _Found(segment, position, end - position, next_offset, limits)

    def _locate(self, offset: int) -> tuple[Segment, int] | None:
        """The segment and position of the first batch whose last offset is at or past an offset."""
        if self._hints is not None:
            hint = self._hints.get(offset)
            if hint is not None and hint[1] < hint[0].size:
                return hint
        for segment in self._segments.holding(offset):
            found = segment.find(offset) if segment.size else None
            if found is not None:
                self._remember(offset, segment, found[0])
                return segment, found[0]
        return None

    def _end_of_read(self, segment: Segment, limit: int, end_offset: int) -> tuple[int, int]:
        """The position at which a read of a segment must stop to stay below `limit`, and the next offset there."""
        end = end_offset if segment is self._segments.active else self._segments.next_base(segment)
        if limit >= end:
            return segment.size, end
        hint = self._hints.get(limit) if self._hints is not None else None
        if hint is not None and hint[0] is segment:
            return hint[1], limit
        found = segment.find(limit)
        if found is None:
            return segment.size, limit
        position, header = found
        next_offset = min(limit, header.base_offset)
        self._remember(next_offset, segment, position)
        return position, next_offset

    def _remember(self, offset: int, segment: Segment, position: int) -> None:
        """Store the position of an offset, because consumers and followers continue where their last read ended."""
        hints = self._hints
        if hints is None:
            hints = self._hints = {}
        elif len(hints) >= _MAX_HINTS and offset not in hints:
            del hints[next(iter(hints))]
        hints[offset] = (segment, position)

    def search_timestamp(self, timestamp: int, start_offset: int) -> Iterator[TimestampSearch]:
        """Searches for the first record, from an offset on, that is not older than a timestamp. There is one search for
        each segment that may have such a record. If one finds nothing, the caller runs the next. Raises DamagedBatch.
        """
        for segment in tuple(self._segments.all):
            # The segment may have been removed or replaced while the one before it was searched.
            if segment.size and segment.max_timestamp >= timestamp and segment in self._segments.all:
                yield segment.search_timestamp(timestamp, start_offset)

    def search_max_timestamp(self) -> Iterator[TimestampSearch]:
        """The search for the first record that carries the largest timestamp, if any record has one."""
        newest = max(self._segments.all, key=lambda segment: segment.max_timestamp if segment.size else NO_TIMESTAMP)
        search = newest.search_max_timestamp() if newest.size else None
        if search is not None:
            yield search

    def finish(self, searches: Iterator[TimestampSearch]) -> TimestampOffset | None:
        """Search at once. Blocking. Raises KafkaError."""
        try:
            for search in searches:
                found = finish(search)
                if found is not None:
                    return found
        except (DamagedBatch, InvalidBatch) as error:
            raise self.damaged(error) from error
        return None

    def damaged(self, error: Exception) -> KafkaError:
        """The error for the reader. The broker logs the damage once, not at every read."""
        message = f"{self._segments.active.directory} is damaged: {error}"
        if message != self._reported:
            self._reported = message
            logger.error("%s; the batches before and after it can still be read", message)
        return KafkaError(ErrorCode.CORRUPT_MESSAGE, message)
