"""The checkers of the group notice what they are there for."""

from typing import NamedTuple

from ottla.model import TopicPartition
from sim.group_checks import GroupFacts, Seat, check_group, check_worked

PARTITION = TopicPartition("orders", 0)


class Work(NamedTuple):
    partition: TopicPartition
    values: dict[int, bytes]


def seat(generation: int, member: str, *, began: float, is_certain: bool = True) -> Seat:
    return Seat(generation, member, (0,), began, is_certain)


def test_all_is_well() -> None:
    facts = GroupFacts([])
    facts.sit_down(seat(1, "a", began=1), 2)
    facts.find(seat(1, "a", began=1), PARTITION, -1)
    facts.do([Work(PARTITION, {0: b"", 1: b""})])
    facts.commit(PARTITION, 2, 3)
    facts.sit_down(seat(2, "b", began=4), 5)
    facts.find(seat(2, "b", began=4), PARTITION, 2)
    assert [*facts.violations, *check_group(facts, {0: 2}, {PARTITION: 2}), *check_worked(facts, {PARTITION: 2})] == []


def test_a_partition_has_two_owners_in_a_generation() -> None:
    facts = GroupFacts([])
    facts.sit_down(seat(1, "a", began=1), 2)
    facts.sit_down(seat(1, "b", began=1), 2)
    assert "has two owners, a and b" in facts.violations[0]


def test_generations_begin_again() -> None:
    facts = GroupFacts([])
    facts.sit_down(seat(3, "a", began=1), 2)
    facts.sit_down(seat(2, "b", began=1), 2)
    assert facts.violations == [], "it had asked before it could know"
    facts.sit_down(seat(2, "c", began=3, is_certain=False), 4)
    assert len(facts.violations) == 1, "partition 0 has two owners, nothing else"
    facts.sit_down(Seat(2, "d", (), 3, is_certain=True), 4)
    assert "after generation 3" in facts.violations[1]


def test_an_offset_goes_back() -> None:
    facts = GroupFacts([])
    facts.commit(PARTITION, 7, 3)
    facts.find(seat(1, "a", began=2), PARTITION, 5)
    assert facts.violations == []
    facts.find(seat(1, "a", began=4), PARTITION, 5)
    assert "goes back from 7 to 5" in facts.violations[0]


def test_the_end_is_not_reached_or_something_is_left_out() -> None:
    facts = GroupFacts([])
    facts.do([Work(PARTITION, {1: b""})])
    assert "is at offset 1 of 2" in next(check_group(facts, {0: 1}, {PARTITION: 2}))
    assert "the first at offset 0" in next(check_worked(facts, {PARTITION: 2}))
