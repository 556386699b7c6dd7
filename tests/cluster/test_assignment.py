from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.cluster.assignment import Start, assign_replicas, start_after
from ottla.cluster.image import Broker
from ottla.model import BrokerEpoch


def brokers(ids: Sequence[int], racks: Sequence[str | None] | None = None) -> list[Broker]:
    return [
        Broker(broker_id, (), racks[index] if racks else None, BrokerEpoch(0)) for index, broker_id in enumerate(ids)
    ]


def test_ten_partitions_on_five_brokers() -> None:
    """Worked by hand: leaders go round, followers start one further away in the second round."""
    assert assign_replicas(brokers([0, 1, 2, 3, 4]), 10, 3, Start(0, 0)) == [
        (0, 1, 2), (1, 2, 3), (2, 3, 4), (3, 4, 0), (4, 0, 1),
        (0, 2, 3), (1, 3, 4), (2, 4, 0), (3, 0, 1), (4, 1, 2),
    ]  # fmt: skip


def test_racks_take_turns() -> None:
    """Racks a: 0 1, b: 2 3, c: 4 5, so the order is 0 2 4 1 3 5 and each partition has a replica in every rack."""
    six = brokers([0, 1, 2, 3, 4, 5], ["a", "a", "b", "b", "c", "c"])
    assert assign_replicas(six, 7, 3, Start(0, 0)) == [
        (0, 2, 4), (2, 4, 1), (4, 1, 3), (1, 3, 5), (3, 5, 0), (5, 0, 2), (0, 3, 5),
    ]  # fmt: skip


def test_one_broker_without_a_rack_turns_racks_off() -> None:
    mixed = brokers([0, 1, 2], ["a", None, "a"])
    assert assign_replicas(mixed, 2, 3, Start(0, 0)) == [(0, 1, 2), (1, 2, 0)]


def test_added_partitions_continue_the_round() -> None:
    three = brokers([1, 2, 3])
    whole = assign_replicas(three, 6, 2, Start(1, 1))
    assert assign_replicas(three, 3, 2, start_after(three, whole[0][0]), first_partition=3) == whole[3:]


def test_the_start_for_added_partitions() -> None:
    three = brokers([10, 20, 30])
    assert start_after(three, 20) == Start(1, 1)
    assert start_after(three, 15) == Start(1, 1)
    assert start_after(three, 99) == Start(0, 0)


@pytest.mark.parametrize("factor", [0, -1, 3])
def test_impossible_factors(factor: int) -> None:
    with pytest.raises(ValueError, match="do not fit"):
        assign_replicas(brokers([1, 2]), 1, factor, Start(0, 0))


starts = st.builds(Start, st.integers(0, 20), st.integers(0, 20))
id_sets = st.lists(st.integers(0, 1000), min_size=1, max_size=9, unique=True)


@given(id_sets, st.integers(1, 40), st.data(), starts, st.integers(0, 20))
def test_replicas_are_distinct_and_spread(
    ids: list[int], partitions: int, data: st.DataObject, start: Start, first_partition: int
) -> None:
    factor = data.draw(st.integers(1, len(ids)))
    assigned = assign_replicas(brokers(ids), partitions, factor, start, first_partition)
    assert len(assigned) == partitions
    for replicas in assigned:
        assert len(set(replicas)) == len(replicas) == factor
        assert set(replicas) <= set(ids)
    leaders = Counter(replicas[0] for replicas in assigned)
    counts = [leaders[broker_id] for broker_id in ids]
    assert max(counts) - min(counts) <= 1


@given(id_sets, st.integers(1, 5), st.data(), starts)
def test_whole_rounds_load_every_broker_alike(ids: list[int], rounds: int, data: st.DataObject, start: Start) -> None:
    factor = data.draw(st.integers(1, len(ids)))
    assigned = assign_replicas(brokers(ids), rounds * len(ids), factor, start)
    load = Counter(broker_id for replicas in assigned for broker_id in replicas)
    assert set(load.values()) == {rounds * factor}


@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 30), st.data(), starts)
def test_replicas_stand_in_as_many_racks_as_there_can_be(
    rack_count: int, per_rack: int, partitions: int, data: st.DataObject, start: Start
) -> None:
    ids = list(range(rack_count * per_rack))
    rack_of = {broker_id: f"rack{data.draw(st.permutations(ids)).index(broker_id) % rack_count}" for broker_id in ids}
    for index in range(rack_count):
        rack_of[index] = f"rack{index}"
    factor = data.draw(st.integers(1, len(ids)))
    racked = brokers(ids, [rack_of[broker_id] for broker_id in ids])
    for replicas in assign_replicas(racked, partitions, factor, start):
        assert len(set(replicas)) == factor
        assert len({rack_of[broker_id] for broker_id in replicas}) == min(factor, rack_count)


@given(st.integers(1, 4), st.integers(1, 3), st.integers(1, 3), st.data(), starts)
def test_equal_racks_share_replicas_alike(
    rack_count: int, per_rack: int, rounds: int, data: st.DataObject, start: Start
) -> None:
    count = rack_count * per_rack
    racked = brokers(range(count), [f"rack{broker_id % rack_count}" for broker_id in range(count)])
    factor = data.draw(st.integers(1, count))
    assigned = assign_replicas(racked, rounds * count, factor, start)
    load = Counter(broker_id for replicas in assigned for broker_id in replicas)
    assert set(load.values()) == {rounds * factor}


@given(id_sets, st.integers(1, 20), starts)
def test_the_order_of_the_brokers_does_not_matter(ids: list[int], partitions: int, start: Start) -> None:
    forward = assign_replicas(brokers(sorted(ids)), partitions, len(ids), start)
    assert assign_replicas(brokers(ids), partitions, len(ids), start) == forward
