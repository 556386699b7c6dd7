"""Offset ranges: limit the size of a micro-batch and split a query into tasks."""

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
    """End offsets that limit a micro-batch to about `limit` offsets. Each partition gets a share by its size.

    A share below one is rounded up to one, so that every partition with records makes progress. The sum may therefore
    exceed the limit, as in Spark.
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
    """Non-empty ranges, split so that none is larger than `max_records` and there are at least `min_partitions`.

    Offsets may have gaps, so a range may have fewer records than its size. Larger ranges are split more often.
    """
    pieces = [each for each in ranges if each.size > 0]
    if max_records is not None:
        pieces = [part for each in pieces for part in _cut(each, ceil(each.size / max_records))]
    if min_partitions is not None and len(pieces) < min_partitions:
        pieces = _cut_large(pieces, min_partitions)
    return pieces


def _cut_large(ranges: Sequence[OffsetRange], wanted: int) -> list[OffsetRange]:
    """Split into about `wanted` ranges, as Spark does: the shares are computed without the ranges that stay whole."""
    total = sum(each.size for each in ranges)
    whole = {each for each in ranges if _share(each.size, total, wanted) == 1}
    rest = total - sum(each.size for each in whole)
    left = max(wanted - len(whole), 1)
    return [part for each in ranges for part in _cut(each, 1 if each in whole else _share(each.size, rest, left))]


def _share(size: int, total: int, wanted: int) -> int:
    return max(1, floor(size / total * wanted + 0.5))


def _cut(whole: OffsetRange, count: int) -> list[OffsetRange]:
    """Split into `count` ranges. If their sizes differ, the larger ones come last."""
    count = min(count, whole.size)
    smaller, larger = whole.size // count, whole.size % count
    marks = [whole.start + smaller * index + max(0, index - (count - larger)) for index in range(count + 1)]
    return [OffsetRange(whole.topic_partition, first, last) for first, last in pairwise(marks)]
