"""Removes repeated partitions from a request."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")


class Distinct(NamedTuple, Generic[T]):
    topics: dict[str, dict[int, T]]
    """By topic and partition, in the order of their first occurrence, with the last item of each partition."""
    repeated: set[tuple[str, int]]
    """Partitions that occur more than once."""


def distinct(partitions: Iterable[tuple[str, int, T]]) -> Distinct[T]:
    """Each partition once, as in Kafka, which collects them in maps.

    Otherwise a request of one megabyte that repeats a partition could cause a reply of gigabytes.
    """
    topics: dict[str, dict[int, T]] = {}
    repeated: set[tuple[str, int]] = set()
    for topic, index, item in partitions:
        items = topics.setdefault(topic, {})
        if index in items:
            repeated.add((topic, index))
        items[index] = item
    return Distinct(topics, repeated)
