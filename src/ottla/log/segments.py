"""The segments of one log, in order."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.log.segment import Segment


class Segments:
    """Sorted by base offset and never empty. The last segment is active: appends go to it."""

    __slots__ = ("_bases", "active", "all")

    def __init__(self, segments: list[Segment]) -> None:
        self.all = segments
        """Read-only for callers."""
        self.active = segments[-1]
        self._bases = [segment.base_offset for segment in segments]

    @property
    def start(self) -> int:
        return self._bases[0]

    def add(self, segment: Segment) -> None:
        self.all.append(segment)
        self._bases.append(segment.base_offset)
        self.active = segment

    def beginning_up_to(self, offset: int) -> int:
        """Number of segments that begin at or before an offset."""
        return bisect_right(self._bases, offset)

    def holding(self, offset: int) -> list[Segment]:
        """The segments that may contain an offset or later offsets."""
        return self.all[max(0, bisect_right(self._bases, offset) - 1) :]

    def next_base(self, segment: Segment) -> int:
        """The base offset of the next segment. The given segment must not be the active one."""
        return self._bases[bisect_right(self._bases, segment.base_offset)]

    def has_in_a_row(self, segments: Sequence[Segment]) -> bool:
        """Whether the log has these segments in this order, and none of them is active."""
        start = bisect_left(self._bases, segments[0].base_offset)
        found = self.all[start : start + len(segments)]
        return found == list(segments) and segments[-1] is not self.active

    def replace(self, old: Sequence[Segment], new: Segment) -> None:
        """Replace consecutive segments by one."""
        start = self.all.index(old[0])
        self.all[start : start + len(old)] = [new]
        self._bases[start : start + len(old)] = [new.base_offset]

    def remove(self, segment: Segment) -> None:
        index = self.all.index(segment)
        del self.all[index]
        del self._bases[index]
        if self.all:
            self.active = self.all[-1]
