"""Ranges of offsets: how a query's work is limited, and how it is cut into tasks."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from math import ceil, floor
from typing import NamedTuple

from ottla.model import TopicPartition


class OffsetRange(NamedTuple):
    """From `start` up to `end`, which is not included."""

    topic_partition: TopicPartition
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start


def limit_offsets(
    start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int], limit: int
) -> dict[TopicPartition, int]:
    """Ends that are together at most about `limit` offsets away: each partition gets its share of what is there.

    A share below one becomes one, so that every partition with records goes on; hence "about", as in Spark.
    """
    sizes = {each: end[each] - start[each] for each in end if end[each] > start.get(each, end[each])}
    total = sum(sizes.values())
    if total <= limit:
        return dict(end)
    limited = dict(end)
    for each, size in sizes.items():
        share = limit * size / total
        limited[each] = min(end[each], start[each] + (ceil(share) if share < 1 else floor(share)))
    return limited


def split_ranges(
    ranges: Iterable[OffsetRange], min_partitions: int | None = None, max_records: int | None = None
) -> list[OffsetRange]:
    """Ranges that are not empty, cut so that none is larger than `max_records` and there are `min_partitions` or more.

    Offsets may have gaps, so a piece may have fewer records than its size says. Large ranges are cut most.
    """
    pieces = [each for each in ranges if each.size > 0]
    if max_records is not None:
        pieces = [part for each in pieces for part in _cut(each, ceil(each.size / max_records))]
    if min_partitions is not None and len(pieces) < min_partitions:
        pieces = _cut_large(pieces, min_partitions)
    return pieces


def _cut_large(ranges: Sequence[OffsetRange], wanted: int) -> list[OffsetRange]:
    """About so many, as Spark cuts them: those that stay whole are left out when the others get their shares."""
    total = sum(each.size for each in ranges)
    whole = {each for each in ranges if _share(each.size, total, wanted) == 1}
    rest = total - sum(each.size for each in whole)
    left = max(wanted - len(whole), 1)
    return [part for each in ranges for part in _cut(each, 1 if each in whole else _share(each.size, rest, left))]


def _share(size: int, total: int, wanted: int) -> int:
    return max(1, floor(size / total * wanted + 0.5))


def _cut(whole: OffsetRange, count: int) -> list[OffsetRange]:
    """Into pieces of which the last ones are the larger ones, if they cannot be equal."""
    count = min(count, whole.size)
    smaller, larger = whole.size // count, whole.size % count
    marks = [whole.start + smaller * index + max(0, index - (count - larger)) for index in range(count + 1)]
    return [OffsetRange(whole.topic_partition, first, last) for first, last in pairwise(marks)]
