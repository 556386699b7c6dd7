"""What the members of the group observed, and the guarantees about it."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from ottla.model import TopicPartition


class Seat(NamedTuple):
    """A member's assignment in a generation of the group."""

    generation: int
    member_id: str
    partitions: tuple[int, ...]
    began: float
    """When the member sent JoinGroup."""
    is_certain: bool
    """Whether the member received every response of the group so far, so that its assignment comes from a coordinator
    that has just written it. A member that missed a response asks again, and a replaced coordinator may repeat an old
    assignment."""


class Done(Protocol):
    @property
    def partition(self) -> TopicPartition: ...

    @property
    def values(self) -> dict[int, bytes]: ...


@dataclass
class GroupFacts:
    """In a generation each partition has one owner, and committed offsets never decrease.

    A new member gets its generation from a coordinator that has just written the generation to the log. A replaced
    coordinator cannot write. So the offsets that such a member reads are never older than the offsets that anybody
    knew before it joined.
    """

    violations: list[str]
    owners: dict[int, dict[int, str]] = field(default_factory=dict)
    """Member ids by generation and partition."""
    generations: list[tuple[float, int]] = field(default_factory=list)
    """The highest generation known so far, and since when."""
    commits: dict[TopicPartition, list[tuple[float, int]]] = field(default_factory=dict)
    """The highest offset known to be committed, and since when."""
    done: dict[TopicPartition, set[int]] = field(default_factory=dict)
    """Offsets of all processed records."""

    def sit_down(self, seat: Seat, now: float) -> None:
        owners = self.owners.setdefault(seat.generation, {})
        for partition in seat.partitions:
            owner = owners.setdefault(partition, seat.member_id)
            if owner != seat.member_id:
                self.violations.append(
                    f"generation {seat.generation}: partition {partition} has two owners, {owner} and {seat.member_id}"
                )
        before = _known_at(self.generations, seat.began)
        if seat.is_certain and seat.generation < before:
            self.violations.append(f"{seat.member_id} is in generation {seat.generation}, after generation {before}")
        _learn(self.generations, now, seat.generation)

    def find(self, seat: Seat, partition: TopicPartition, offset: int) -> None:
        known = _known_at(self.commits.get(partition, []), seat.began)
        if seat.is_certain and offset < known:
            self.violations.append(
                f"{partition}: the group's offset goes back from {known} to {offset} in generation {seat.generation}"
            )

    def commit(self, partition: TopicPartition, offset: int, now: float) -> None:
        _learn(self.commits.setdefault(partition, []), now, offset)

    def known(self, partition: TopicPartition) -> int:
        """The highest offset known to be committed."""
        return max(0, _known_at(self.commits.get(partition, []), float("inf")))

    def do(self, works: Iterable[Done]) -> None:
        for work in works:
            self.done.setdefault(work.partition, set()).update(work.values)


def _learn(known: list[tuple[float, int]], now: float, number: int) -> None:
    if not known or number > known[-1][1]:
        known.append((now, number))


def _known_at(known: list[tuple[float, int]], moment: float) -> int:
    index = bisect.bisect_left(known, (moment,))
    return known[index - 1][1] if index else -1


def check_group(facts: GroupFacts, found: Mapping[int, int], ends: Mapping[TopicPartition, int]) -> Iterator[str]:
    """After the run, when the members have reached the end of every partition."""
    for partition, end in ends.items():
        offset = max(0, found[partition.partition])
        if offset != end:
            yield f"{partition}: the group is at offset {offset} of {end}; {facts.known(partition)} was committed"


def check_worked(facts: GroupFacts, ends: Mapping[TopicPartition, int]) -> Iterator[str]:
    """Members commit after processing, so every record was processed."""
    for partition, end in ends.items():
        missed = set(range(end)) - facts.done.get(partition, set())
        if missed:
            yield f"{partition}: {len(missed)} records were not processed, the first at offset {min(missed)}"
