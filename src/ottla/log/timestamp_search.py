"""Searches for a record by its timestamp in the file of one segment. The searches may run in a thread.

A search uses the file and the size that the segment had when the search was created. The log may meanwhile grow, roll,
or delete the segment: the open file stays readable. After a truncation a search may return a wrong result or fail, so
the caller must check afterwards that the log was not truncated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from ottla.log.scan import headers
from ottla.records.reader import first_at_or_after, max_timestamp_record, no_pause

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.env.disk import File
    from ottla.records.header import BatchHeader

_HEADERS_PER_STEP = 10_000
_PAUSE_MASK = 127


class TimestampOffset(NamedTuple):
    offset: int
    timestamp: int
    leader_epoch: int


class TimestampSearch(Protocol):
    found: TimestampOffset | None

    def step(self, pause: Callable[[], None] = no_pause) -> bool:
        """Continue the search and return whether it is over. One step opens at most one batch, so that several
        searches can take turns.

        Blocking. Raises DamagedBatch, InvalidBatch, OSError.
        """


def finish(search: TimestampSearch) -> TimestampOffset | None:
    while not search.step():
        pass
    return search.found


class FirstAtOrAfter:
    """Finds the first record, from an offset on, that is not older than a timestamp."""

    __slots__ = ("_base_offset", "_end", "_file", "_position", "_start_offset", "_timestamp", "found")

    def __init__(
        self, file: File, position: int, end: int, base_offset: int, *, timestamp: int, start_offset: int
    ) -> None:
        """Search the batches between two positions of a segment's file. The first is the start of a batch."""
        self.found: TimestampOffset | None = None
        self._file = file
        self._position = position
        self._end = end
        self._base_offset = base_offset
        self._timestamp = timestamp
        self._start_offset = start_offset

    def step(self, pause: Callable[[], None] = no_pause) -> bool:
        walk = headers(self._file, self._position, self._end, self._base_offset)
        for number, (position, header) in enumerate(walk):
            if number == _HEADERS_PER_STEP:
                self._position = position
                return False
            if header.max_timestamp >= self._timestamp and header.last_offset >= self._start_offset:
                self._open(position, header, pause)
                self._position = position + header.size
                return self.found is not None
            if not number & _PAUSE_MASK:
                pause()
        return True

    def _open(self, position: int, header: BatchHeader, pause: Callable[[], None]) -> None:
        batch = self._file.read(header.size, position)
        found = first_at_or_after(batch, self._timestamp, start_offset=self._start_offset, pause=pause)
        if found is not None:
            self.found = TimestampOffset(*found, header.partition_leader_epoch)


class LargestTimestamp:
    """Finds the first record of a batch that has the batch's largest timestamp."""

    __slots__ = ("_file", "_header", "_position", "found")

    def __init__(self, file: File, position: int, header: BatchHeader) -> None:
        self.found: TimestampOffset | None = None
        self._file = file
        self._position = position
        self._header = header

    def step(self, pause: Callable[[], None] = no_pause) -> bool:
        batch = self._file.read(self._header.size, self._position)
        self.found = TimestampOffset(*max_timestamp_record(batch, pause=pause), self._header.partition_leader_epoch)
        return True
