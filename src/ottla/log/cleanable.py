"""Decides how much of a log may be compacted, and whether it is dirty enough. A pure function, without I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.log.config import LogConfig


class SegmentFacts(Protocol):
    @property
    def base_offset(self) -> int: ...

    @property
    def size(self) -> int: ...

    @property
    def largest_timestamp(self) -> int: ...

    @property
    def first_timestamp(self) -> int: ...


class Cleanable(NamedTuple):
    first_dirty_offset: int
    """Records below this offset were compacted already."""
    segments: int
    """Number of segments, from the first one, that may be compacted."""
    dirty_ratio: float
    """The share of their bytes that was not compacted yet."""
    overdue: bool
    """Whether one of their records is older than `max.compaction.lag.ms`."""

    def is_due(self, config: LogConfig) -> bool:
        return self.dirty_ratio > 0 and (self.overdue or self.dirty_ratio > config.min_cleanable_dirty_ratio)


def find_cleanable(
    segments: Sequence[SegmentFacts], config: LogConfig, *, first_dirty_offset: int, limit: int, now_ms: int
) -> Cleanable:
    """The whole segments below the offset `limit` that may be compacted. The active segment never is.

    With `min.compaction.lag.ms`, the segments before the first one with a younger record.
    """
    ends = [segment.base_offset for segment in segments[1:]]
    oldest_ms = now_ms - config.min_compaction_lag_ms
    overdue_ms = now_ms - config.max_compaction_lag_ms
    count = clean = dirty = 0
    overdue = False
    for segment, end in zip(segments[:-1], ends, strict=True):
        is_dirty = end > first_dirty_offset
        if end > limit:
            break
        if is_dirty and config.min_compaction_lag_ms > 0 and segment.largest_timestamp > oldest_ms:
            break
        count += 1
        if is_dirty:
            dirty += segment.size
            # Reading the first timestamp may need I/O, so it is read only if `max.compaction.lag.ms` is set.
            overdue = overdue or (overdue_ms > 0 and 0 < segment.first_timestamp < overdue_ms)
        else:
            clean += segment.size
    return Cleanable(first_dirty_offset, count, dirty / (clean + dirty) if dirty else 0.0, overdue)
