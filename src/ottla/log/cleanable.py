"""How much of a log may be compacted, and whether that is worth the work: a decision over what is known of it."""

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
    """What lies before was compacted already."""
    segments: int
    """How many, from the first on, may be compacted."""
    dirty_ratio: float
    """The share of bytes in them that were not compacted yet."""
    overdue: bool
    """A record in them is older than `max.compaction.lag.ms`."""

    def is_due(self, config: LogConfig) -> bool:
        return self.dirty_ratio > 0 and (self.overdue or self.dirty_ratio > config.min_cleanable_dirty_ratio)


def find_cleanable(
    segments: Sequence[SegmentFacts], config: LogConfig, *, first_dirty_offset: int, limit: int, now_ms: int
) -> Cleanable:
    """What may be compacted below an offset, the limit. Whole segments are, and never the last, which is active.

    With `min.compaction.lag.ms`, the first segment with a younger record ends what may be compacted.
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
            # The first timestamp may have to be read from the file, so it is asked for only where there is a limit.
            overdue = overdue or (overdue_ms > 0 and 0 < segment.first_timestamp < overdue_ms)
        else:
            clean += segment.size
    return Cleanable(first_dirty_offset, count, dirty / (clean + dirty) if dirty else 0.0, overdue)
