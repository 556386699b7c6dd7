"""How much of a log may be compacted, and whether it is dirty enough."""

from typing import NamedTuple

from ottla.log.cleanable import Cleanable, find_cleanable
from ottla.log.config import LogConfig

NOW_MS = 1_000_000


class Facts(NamedTuple):
    base_offset: int
    size: int = 100
    largest_timestamp: int = NOW_MS
    first_timestamp: int = NOW_MS


SEGMENTS = [Facts(0), Facts(10), Facts(20), Facts(30), Facts(40)]
END = 50


def find(
    config: LogConfig | None = None, segments: list[Facts] | None = None, *, dirty: int = 0, limit: int = END
) -> Cleanable:
    return find_cleanable(
        segments or SEGMENTS, config or LogConfig(), first_dirty_offset=dirty, limit=limit, now_ms=NOW_MS
    )


def test_all_but_the_active_segment() -> None:
    assert find() == Cleanable(0, 4, 1.0, False)
    assert find(segments=[Facts(0)]) == Cleanable(0, 0, 0.0, False)


def test_whole_segments_below_the_limit() -> None:
    assert [find(limit=limit).segments for limit in (0, 9, 10, 11, 39, 40, 45)] == [0, 0, 1, 1, 3, 4, 4]


def test_the_ratio_is_that_of_the_bytes() -> None:
    assert [find(dirty=dirty).dirty_ratio for dirty in (0, 10, 20, 30, 40)] == [1.0, 0.75, 0.5, 0.25, 0.0]
    assert find(dirty=15).dirty_ratio == 0.75


def test_due_when_enough_is_dirty() -> None:
    config = LogConfig(min_cleanable_dirty_ratio=0.5)
    assert [find(config, dirty=dirty).is_due(config) for dirty in (0, 10, 20, 40)] == [True, True, False, False]
    all_the_time = LogConfig(min_cleanable_dirty_ratio=0.0)
    assert [find(all_the_time, dirty=dirty).is_due(all_the_time) for dirty in (30, 40)] == [True, False]


def test_a_young_record_ends_what_may_be_compacted() -> None:
    config = LogConfig(min_compaction_lag_ms=1000)
    old = NOW_MS - 1000
    segments = [Facts(0), Facts(10, largest_timestamp=old), Facts(20, largest_timestamp=old + 1), Facts(30), Facts(40)]
    assert find(config, segments, dirty=10).segments == 2
    assert find(config, segments).segments == 0
    assert find(LogConfig(), segments).segments == 4


def test_an_old_record_is_due_at_any_ratio() -> None:
    config = LogConfig(max_compaction_lag_ms=1000, min_cleanable_dirty_ratio=1.0)
    for first_timestamp, due in ((NOW_MS - 1000, False), (NOW_MS - 1001, True), (-1, False)):
        segments = [Facts(0), Facts(10), Facts(20), Facts(30, first_timestamp=first_timestamp), Facts(40)]
        assert find(config, segments, dirty=20).is_due(config) is due
    clean = [Facts(0, first_timestamp=1), *SEGMENTS[1:]]
    assert not find(config, clean, dirty=10).is_due(config)
