"""What members of the group were told, and the promises about it."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from ottla.model import TopicPartition


class Seat(NamedTuple):
    """A member's place in a generation of the group."""

    generation: int
    member_id: str
    partitions: tuple[int, ...]
    began: float
    """When it asked for it."""
    is_certain: bool
    """Whether it has had every answer of the group so far, and so was given its place by who has just written it down.
    One that missed an answer asks again, and a coordinator that was replaced meanwhile may repeat what it knew."""


class Done(Protocol):
    @property
    def partition(self) -> TopicPartition: ...

    @property
    def values(self) -> dict[int, bytes]: ...


@dataclass
class GroupFacts:
    """A generation belongs to those who were given it together, and what is committed stays so.

    Whoever becomes a member is told so by a coordinator that has just written the generation down, which one that was
    replaced cannot do; so what such a member finds is never older than what anybody knew before it asked.
    """

    violations: list[str]
    owners: dict[int, dict[int, str]] = field(default_factory=dict)
    """By generation and partition."""
    generations: list[tuple[float, int]] = field(default_factory=list)
    """The highest that anybody has been in, and since when."""
    commits: dict[TopicPartition, list[tuple[float, int]]] = field(default_factory=dict)
    """The highest offset that somebody knew to be committed, and since when."""
    done: dict[TopicPartition, set[int]] = field(default_factory=dict)
    """Offsets of records that were worked on, by whomever, and however often."""

    def sit_down(self, seat: Seat, now: float) -> None:
        owners = self.owners.setdefault(seat.generation, {})
        for partition in seat.partitions:
            owner = owners.setdefault(partition, seat.member_id)
            if owner != seat.member_id:
                self.violations.append(
                    f"generation {seat.generation}: partition {partition} belongs to {owner} and to {seat.member_id}"
                )
        before = _known_at(self.generations, seat.began)
        if seat.is_certain and seat.generation < before:
            self.violations.append(f"{seat.member_id} is in generation {seat.generation}, after there was {before}")
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
        """The highest offset that is known to be committed."""
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
    """After the end, when members have come to the end of every partition."""
    for partition, end in ends.items():
        offset = max(0, found[partition.partition])
        if offset != end:
            yield f"{partition}: the group stands at {offset} of {end}; {facts.known(partition)} was committed"


def check_worked(facts: GroupFacts, ends: Mapping[TopicPartition, int]) -> Iterator[str]:
    """Who commits after the work has left nothing out."""
    for partition, end in ends.items():
        missed = set(range(end)) - facts.done.get(partition, set())
        if missed:
            yield f"{partition}: nobody has worked on {len(missed)} records, the first at {min(missed)}"
