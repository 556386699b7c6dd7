"""Plans for clusters of all shapes: what every plan keeps, what it reaches, and that it moves little."""

from collections import Counter
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from ottla.cluster.layout import PlacedPartition
from ottla.cluster.rebalance import BYTES_TOLERANCE, Move, Plan, PlanBroker, balance, drain, replace
from ottla.model import TopicPartition


def brokers(*ids: int, racks: Sequence[str | None] = (), unusable: Sequence[int] = ()) -> list[PlanBroker]:
    return [
        PlanBroker(broker_id, racks[index] if racks else None, broker_id not in unusable)
        for index, broker_id in enumerate(ids)
    ]


def partitions(*replicas: tuple[int, ...], sizes: Sequence[int] = (), topic: str = "t") -> list[PlacedPartition]:
    return [
        PlacedPartition(TopicPartition(topic, number), assigned, sizes[number] if sizes else 100, assigned[0])
        for number, assigned in enumerate(replicas)
    ]


def carried_out(before: Sequence[PlacedPartition], plan: Plan) -> list[PlacedPartition]:
    """The partitions after the moves and the elections."""
    changed = {move.partition: move.after for move in plan.changes}
    elected = set(plan.elections)
    after = []
    for partition in before:
        replicas = changed.get(partition.name, partition.replicas)
        leader = replicas[0] if partition.name in elected or partition.leader not in replicas else partition.leader
        after.append(PlacedPartition(partition.name, replicas, partition.size, leader))
    return after


def replica_counts(usable: Sequence[int], placed: Sequence[PlacedPartition]) -> list[int]:
    counts = Counter(broker for partition in placed for broker in partition.replicas)
    return [counts[broker] for broker in usable]


def leader_counts(usable: Sequence[int], placed: Sequence[PlacedPartition]) -> list[int]:
    counts = Counter(partition.leader for partition in placed)
    return [counts[broker] for broker in usable]


def uneven(counts: Sequence[int]) -> int:
    return max(counts) - min(counts)


@st.composite
def clusters(
    draw: st.DrawFn, *, racked: bool = False, fitting: bool = True
) -> tuple[list[PlanBroker], list[PlacedPartition]]:
    """Some brokers are dead or drained; partitions have any replicas, also on those."""
    rack_count = draw(st.integers(2, 3)) if racked else 1
    per_rack = draw(st.integers(1, 3 if racked else 7))
    ids = list(range(1, rack_count * per_rack + 1))
    known = [PlanBroker(it, f"rack{it % rack_count}" if racked else None, True) for it in ids]
    gone = [] if racked else draw(st.lists(st.integers(20, 22), max_size=2, unique=True))
    known += [PlanBroker(it, None, False) for it in gone]
    most = min(4, len(ids)) if fitting else 5
    everyone = ids + gone
    placed = []
    for number in range(draw(st.integers(0, 25))):
        factor = draw(st.integers(1, min(most, len(everyone))))
        replicas = tuple(draw(st.permutations(everyone))[:factor])
        name = TopicPartition(draw(st.sampled_from(["a", "b", "c"])), number)
        leader = draw(st.sampled_from([*replicas, None]))
        placed.append(PlacedPartition(name, replicas, draw(st.integers(0, 1000)), leader))
    return known, placed


def usable_ids(known: Sequence[PlanBroker]) -> list[int]:
    return [broker.id for broker in known if broker.usable]


@given(clusters())
def test_replicas_and_leaders_become_even(cluster: tuple[list[PlanBroker], list[PlacedPartition]]) -> None:
    known, before = cluster
    usable = usable_ids(known)
    plan = balance(known, before)
    after = carried_out(before, plan)
    assert not plan.unplaceable
    for old, new in zip(before, after, strict=True):
        assert len(new.replicas) == len(set(new.replicas)) == len(old.replicas), "the replication factor stays"
        assert set(new.replicas) <= set(usable), "dead and drained brokers get nothing and keep nothing"
        assert new.leader == new.replicas[0]
    if before:
        assert uneven(replica_counts(usable, after)) <= 1
        assert not can_lead_more_evenly(usable, after)


def can_lead_more_evenly(usable: Sequence[int], placed: Sequence[PlacedPartition]) -> bool:
    """Whether a chain of leader changes leads from a broker to one that leads at least two fewer partitions."""
    leads = Counter(partition.replicas[0] for partition in placed)
    edges = {(partition.replicas[0], other) for partition in placed for other in partition.replicas[1:]}
    for start in usable:
        reached = {start}
        while more := {two for one, two in edges if one in reached} - reached:
            reached |= more
        if any(leads[start] - leads[broker] >= 2 for broker in reached):
            return True
    return False


@given(clusters(racked=True))
def test_racks_stay_as_spread_as_possible(cluster: tuple[list[PlanBroker], list[PlacedPartition]]) -> None:
    known, before = cluster
    racks = {broker.id: broker.rack for broker in known}
    plan = balance(known, before)
    after = carried_out(before, plan)
    for old, new in zip(before, after, strict=True):
        spread = len({racks[broker] for broker in new.replicas})
        assert spread >= len({racks[broker] for broker in old.replicas})
        assert spread == min(len(new.replicas), len(set(racks.values())))
    if before:
        assert uneven(replica_counts(usable_ids(known), after)) <= 1, (
            "the racks have the same size, so this is possible"
        )


@given(st.one_of(clusters(), clusters(racked=True), clusters(fitting=False)))
def test_a_cluster_that_followed_its_plan_needs_no_other(
    cluster: tuple[list[PlanBroker], list[PlacedPartition]],
) -> None:
    known, before = cluster
    after = carried_out(before, balance(known, before))
    again = balance(known, after)
    assert (again.moves, again.reorders) == ((), ())


@given(clusters())
def test_no_bytes_move_without_a_reason(cluster: tuple[list[PlanBroker], list[PlacedPartition]]) -> None:
    known, before = cluster
    usable = usable_ids(known)
    plan = balance(known, before)
    size: Counter[int] = Counter()
    for partition in before:
        size.update(dict.fromkeys(partition.replicas, partition.size))
    stranded = any(set(partition.replicas) - set(usable) for partition in before)
    even_counts = not before or uneven(replica_counts(usable, before)) <= 1
    mean = sum(size[broker] for broker in usable) / len(usable)
    even_bytes = all(size[broker] <= mean * (1 + BYTES_TOLERANCE) for broker in usable)
    if not stranded and even_counts and even_bytes:
        assert not plan.moves


@given(clusters())
def test_draining_moves_only_what_must_move(cluster: tuple[list[PlanBroker], list[PlacedPartition]]) -> None:
    known, before = cluster
    usable = set(usable_ids(known))
    plan = drain(known, before)
    stranded = {partition.name for partition in before if set(partition.replicas) - usable}
    assert {move.partition for move in plan.moves} == stranded
    assert not plan.reorders
    assert set(plan.elections) <= stranded
    for move in plan.moves:
        assert set(move.before) & usable <= set(move.after) <= usable
        assert len(move.after) == len(move.before)


def test_a_new_broker_gets_its_share_and_nothing_else_moves() -> None:
    before = partitions(*[(1, 2, 3), (2, 3, 1), (3, 1, 2)] * 4)
    plan = balance(brokers(1, 2, 3, 4), before)
    after = carried_out(before, plan)
    assert replica_counts([1, 2, 3, 4], after) == [9, 9, 9, 9]
    assert leader_counts([1, 2, 3, 4], after) == [3, 3, 3, 3]
    assert sum(len(move.adding) for move in plan.moves) == 9
    assert {broker for move in plan.moves for broker in move.adding} == {4}
    assert plan.bytes_to_copy == 900


def test_a_new_broker_gets_its_share_of_the_bytes_too() -> None:
    sizes = [1000, 10, 10, 1000, 10, 10]
    before = partitions(*[(1,), (1,), (1,), (2,), (2,), (2,)], sizes=sizes)
    plan = balance(brokers(1, 2, 3), before)
    assert plan.bytes_to_copy <= 1010, "one large partition stays on each of the old brokers, or is the one that moves"
    after = carried_out(before, plan)
    assert replica_counts([1, 2, 3], after) == [2, 2, 2]


def test_large_partitions_on_one_broker_are_spread() -> None:
    before = partitions((1,), (1,), (2,), (2,), sizes=[1000, 1000, 1, 1])
    plan = balance(brokers(1, 2), before)
    assert [(len(move.adding), move.size) for move in plan.moves] in ([(1, 1000), (1, 1)], [(1, 1), (1, 1000)])
    assert plan.bytes_to_copy == 1001


def test_an_even_cluster_with_uneven_leaders_only_changes_their_order() -> None:
    plan = balance(brokers(1, 2, 3), partitions((1, 2, 3), (1, 2, 3), (1, 2, 3)))
    assert not plan.moves
    assert len(plan.reorders) == 2
    assert set(plan.elections) == {move.partition for move in plan.reorders}
    assert plan.bytes_to_copy == 0


def test_a_leader_that_is_not_the_preferred_one_is_elected_and_nothing_else() -> None:
    before = [
        PlacedPartition(TopicPartition("t", 0), (1, 2), 5, 2),
        PlacedPartition(TopicPartition("t", 1), (2, 1), 5, 2),
    ]
    assert balance(brokers(1, 2), before) == Plan((), (), (TopicPartition("t", 0),))


def test_a_drained_broker_gives_its_replicas_to_another_rack_than_those_that_have_one() -> None:
    known = brokers(1, 2, 3, 4, racks=["a", "b", "b", "a"], unusable=[2])
    plan = drain(known, partitions((1, 2)))
    assert plan.moves == (Move(TopicPartition("t", 0), (1, 2), (1, 3), 100),)


def test_more_replicas_than_brokers_stay_where_they_are() -> None:
    known = brokers(1, 2, 3, unusable=[3])
    plan = drain(known, [*partitions((1, 2, 3)), *partitions((3, 1), topic="u")])
    assert plan.unplaceable == (TopicPartition("t", 0),)
    assert [move.partition.topic for move in plan.moves] == ["u"]
    assert balance(brokers(1, unusable=[1]), partitions((1,))).unplaceable == (TopicPartition("t", 0),)


def test_a_new_broker_takes_the_place_of_an_old_one() -> None:
    plan = replace(brokers(1, 2, 3, 4), partitions((3, 1), (1, 3), (1, 2), (4, 3)), 3, 4)
    assert [(move.partition.partition, move.after) for move in plan.moves] == [(0, (4, 1)), (1, (1, 4)), (3, (4, 2))]
    assert plan.elections == (TopicPartition("t", 0),)
