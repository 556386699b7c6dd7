"""Requests that name the same partition more than once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")


class Distinct(NamedTuple, Generic[T]):
    topics: dict[str, dict[int, T]]
    """By topic and partition, in the order in which they were first named. The last item of a partition counts."""
    repeated: set[tuple[str, int]]
    """Partitions that were named more than once."""


def distinct(partitions: Iterable[tuple[str, int, T]]) -> Distinct[T]:
    """Each partition once, as in Kafka, which collects them in maps.

    Without this, a request of a megabyte that repeats one partition could ask for gigabytes of answers.
    """
    topics: dict[str, dict[int, T]] = {}
    repeated: set[tuple[str, int]] = set()
    for topic, index, item in partitions:
        items = topics.setdefault(topic, {})
        if index in items:
            repeated.add((topic, index))
        items[index] = item
    return Distinct(topics, repeated)
