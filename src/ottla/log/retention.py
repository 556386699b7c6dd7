"""Decides which segments retention deletes. A pure function, without I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ottla.log.config import LogConfig


class SegmentFacts(Protocol):
    @property
    def base_offset(self) -> int: ...

    @property
    def size(self) -> int: ...

    @property
    def largest_timestamp(self) -> int: ...


def count_removable(
    segments: Sequence[SegmentFacts],
    config: LogConfig,
    *,
    log_start_offset: int,
    end_offset: int,
    high_watermark: int,
    now_ms: int,
) -> int:
    """Number of segments, oldest first, that retention deletes.

    Segments are deleted strictly in order, and only if all their records are committed. The active segment is deleted
    too if all its records are too old, unless it is empty.
    """
    ends = [segment.base_offset for segment in segments[1:]] + [end_offset]

    def leading(may_go: Callable[[SegmentFacts, int], bool], start: int) -> int:
        count = start
        for segment, end in zip(segments[start:], ends[start:], strict=True):
            if segment.size == 0 and end == end_offset:
                break
            if end > high_watermark or not may_go(segment, end):
                break
            count += 1
        return count

    count = 0
    if config.delete and config.retention_ms >= 0:
        count = leading(lambda segment, _: now_ms - segment.largest_timestamp > config.retention_ms, count)
    if config.delete and config.retention_bytes >= 0:
        excess = sum(segment.size for segment in segments[count:]) - config.retention_bytes

        def exceeds(segment: SegmentFacts, _: int) -> bool:
            nonlocal excess
            excess -= segment.size
            return excess >= 0

        count = leading(exceeds, count)
    return leading(lambda segment, end: end <= log_start_offset and segment is not segments[-1], count)
