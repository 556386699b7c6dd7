from dataclasses import dataclass

import pytest

from ottla.log.config import LogConfig
from ottla.log.retention import count_removable


@dataclass
class Facts:
    base_offset: int
    size: int = 100
    largest_timestamp: int = 0


def count(
    segments: list[Facts],
    config: LogConfig,
    *,
    start: int = 0,
    end: int = 40,
    high_watermark: int = 40,
    now_ms: int = 1000,
) -> int:
    return count_removable(
        segments,
        config,
        log_start_offset=start,
        end_offset=end,
        high_watermark=high_watermark,
        now_ms=now_ms,
    )


def segments(*timestamps: int, size: int = 100) -> list[Facts]:
    return [Facts(number * 10, size, timestamp) for number, timestamp in enumerate(timestamps)]


KEEP_ALL = LogConfig(retention_ms=-1)


def test_nothing_goes_without_a_limit() -> None:
    assert count(segments(0, 0, 0, 0), KEEP_ALL) == 0


@pytest.mark.parametrize(("now_ms", "expected"), [(600, 0), (601, 1), (701, 2), (901, 4)])
def test_time_is_that_of_the_newest_record(now_ms: int, expected: int) -> None:
    assert count(segments(100, 200, 300, 400), LogConfig(retention_ms=500), now_ms=now_ms) == expected


def test_a_newer_segment_protects_those_behind_it() -> None:
    assert count(segments(0, 900, 0, 0), LogConfig(retention_ms=500)) == 1


def test_a_clock_that_jumps_back_removes_nothing() -> None:
    assert count(segments(100, 200), LogConfig(retention_ms=500), end=20, high_watermark=20, now_ms=-(10**12)) == 0


@pytest.mark.parametrize(("limit", "expected"), [(400, 0), (301, 0), (300, 1), (199, 2), (0, 4)])
def test_size_is_what_is_left(limit: int, expected: int) -> None:
    assert count(segments(0, 0, 0, 0), LogConfig(retention_ms=-1, retention_bytes=limit)) == expected


def test_time_and_size_together() -> None:
    config = LogConfig(retention_ms=500, retention_bytes=250)
    assert count(segments(0, 900, 900, 900), config) == 1
    assert count(segments(0, 900, 900, 900), LogConfig(retention_ms=500, retention_bytes=150)) == 2


@pytest.mark.parametrize(("high_watermark", "expected"), [(0, 0), (9, 0), (10, 1), (39, 3), (40, 4)])
def test_only_what_is_committed_goes(high_watermark: int, expected: int) -> None:
    assert count(segments(0, 0, 0, 0), LogConfig(retention_ms=0), high_watermark=high_watermark) == expected


def test_an_empty_active_segment_stays() -> None:
    found = [*segments(0, 0), Facts(20, 0, 0)]
    assert count(found, LogConfig(retention_ms=0), end=20, high_watermark=20) == 2
    assert count([Facts(0, 0, 0)], LogConfig(retention_ms=0, retention_bytes=0), end=0, high_watermark=0) == 0


@pytest.mark.parametrize(("start", "expected"), [(0, 0), (9, 0), (10, 1), (25, 2), (40, 3)])
def test_what_lies_before_the_log_start_goes_whatever_the_policy(start: int, expected: int) -> None:
    compacted = LogConfig(delete=False, retention_ms=0, retention_bytes=0)
    assert count(segments(0, 0, 0, 0), compacted, start=start) == expected
