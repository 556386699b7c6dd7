"""Leader election when brokers die, return or stop."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.cluster.failover import MAX_STATES_IN_COMMIT, commits, lead_without, leave
from ottla.cluster.image import PartitionState
from ottla.cluster.topics import create_topic
from ottla.cluster.znodes import NO_LEADER
from tests.cluster.clusters import Cluster
from tests.cluster.test_elections import cluster_with


def decide(
    cluster: Cluster, *, unclean: bool = False, stopping: tuple[int, ...] = ()
) -> tuple[int, int, tuple[int, ...]]:
    """Apply the decisions, and return leader, epoch and in-sync replicas of the partition."""
    for ops in commits(cluster.image, lead_without(cluster.image, lambda _: unclean, stopping)):
        cluster.do(ops)
    assert lead_without(cluster.image, lambda _: unclean, stopping) == [], "the decision leaves nothing to decide"
    state = cluster.image.partition("t", 0)
    assert state is not None
    return state.leader, state.leader_epoch, state.isr


def test_nothing_happens_while_all_are_alive() -> None:
    assert decide(cluster_with(leader=2, isr=(2, 3))) == (2, 5, (2, 3))


def test_the_settings_of_a_topic_are_looked_at_once_and_only_if_they_matter() -> None:
    """The controller checks all partitions after every change, and there may be thousands of topics."""
    cluster = Cluster(brokers=2)
    assignment = {index: [1, 2] for index in range(50)}
    cluster.do(create_topic(cluster.image, "wide", assignment=assignment, random_bytes=cluster.random.randbytes)[0])
    asked: list[str] = []

    def allows_unclean(topic: str) -> bool:
        asked.append(topic)
        return False

    assert lead_without(cluster.image, allows_unclean) == []
    cluster.leave(2)
    for ops in commits(cluster.image, lead_without(cluster.image, allows_unclean)):
        cluster.do(ops)
    assert asked == []
    cluster.join(2)
    cluster.leave(1)
    assert {state.leader for _, state in lead_without(cluster.image, allows_unclean)} == {NO_LEADER}
    assert asked == ["wide"]


def test_an_in_sync_replica_follows_a_dead_leader() -> None:
    assert decide(cluster_with(leader=1, isr=(1, 2, 3), dead=(1,))) == (2, 6, (2, 3))
    assert decide(cluster_with(leader=1, isr=(1, 3), dead=(1,))) == (3, 6, (3,))


def test_a_dead_follower_is_not_waited_for() -> None:
    assert decide(cluster_with(leader=1, isr=(1, 2, 3), dead=(2,))) == (1, 6, (1, 3))


def test_without_an_in_sync_replica_nobody_leads_until_one_is_back() -> None:
    cluster = cluster_with(leader=1, isr=(1,), dead=(1,))
    assert decide(cluster) == (NO_LEADER, 6, (1,))
    cluster.join(1)
    assert decide(cluster) == (1, 7, (1,))


def test_a_topic_may_prefer_to_lose_records() -> None:
    assert decide(cluster_with(leader=1, isr=(1,), dead=(1,)), unclean=True) == (2, 6, (2,))


def test_a_broker_that_stops_hands_over_first() -> None:
    assert decide(cluster_with(leader=1, isr=(1, 2, 3)), stopping=(1,)) == (2, 6, (2, 3))
    assert decide(cluster_with(leader=1, isr=(1, 2, 3)), stopping=(3,)) == (1, 6, (1, 2))
    assert decide(cluster_with(leader=1, isr=(1,)), stopping=(1,)) == (1, 5, (1,)), "nobody can take over"


@pytest.mark.parametrize(
    "leader, isr, dead, after",
    [
        (1, (1, 2, 3), (1,), (2, 6, (2, 3))),
        (1, (1, 2, 3), (1, 2), (3, 6, (2, 3))),
        (1, (1, 2), (1, 2), (NO_LEADER, 6, (2,))),
        (2, (1, 2, 3), (1,), (2, 6, (2, 3))),
        (2, (1, 2), (1, 2), (2, 6, (2,))),
        (1, (1,), (1,), (1, 5, (1,))),
        (2, (2, 3), (1,), (2, 5, (2, 3))),
    ],
)
def test_a_broker_that_may_have_lost_records_is_in_sync_with_nobody(
    leader: int, isr: tuple[int, ...], dead: tuple[int, ...], after: tuple[int, int, tuple[int, ...]]
) -> None:
    """Broker 1 returns. The other in-sync replicas have all committed records, even if they are still down."""
    cluster = cluster_with(leader=leader, isr=isr, dead=dead)
    for ops in commits(cluster.image, leave(cluster.image, 1)):
        cluster.do(ops)
    assert leave(cluster.image, 1) == []
    state = cluster.image.partition("t", 0)
    assert state is not None
    assert (state.leader, state.leader_epoch, state.isr) == after


def test_many_partitions_take_many_commits() -> None:
    cluster = Cluster(brokers=2)
    count = 2 * MAX_STATES_IN_COMMIT + 1
    assignment = {index: [2, 1] for index in range(count)}
    cluster.do(create_topic(cluster.image, "t", assignment=assignment, random_bytes=cluster.random.randbytes)[0])
    cluster.leave(2)
    written = list(commits(cluster.image, lead_without(cluster.image, lambda _: False)))
    assert [len(ops) - 1 for ops in written] == [MAX_STATES_IN_COMMIT, MAX_STATES_IN_COMMIT, 1]
    for ops in written:
        cluster.do(ops)
    assert {state.leader for state in cluster.image.topics["t"].partitions} == {1}


brokers = st.sets(st.sampled_from([1, 2, 3]), min_size=1)


@given(leader=st.sampled_from([1, 2, 3]), isr=brokers, dead=st.sets(st.sampled_from([1, 2, 3])), stopping=brokers)
def test_committed_records_have_a_leader_or_wait_for_one(
    leader: int, isr: set[int], dead: set[int], stopping: set[int]
) -> None:
    """Without unclean elections, the leader was in sync before, and no other replica joins the in-sync replicas."""
    before = tuple(sorted(isr | {leader}))
    cluster = cluster_with(leader, before, dead=tuple(dead - {1}))  # The first broker is the controller, which decides.
    new, epoch, after = decide(cluster, stopping=tuple(stopping))
    assert new == NO_LEADER or (new in before and (new in cluster.image.brokers or new in stopping))
    assert set(after) <= set(before)
    assert after
    assert new == NO_LEADER or new in after
    assert (epoch == 5) == ((new, after) == (leader, before))
    available = [it for it in before if it in cluster.image.brokers and it not in stopping]
    assert not available or new in available


def test_states_differ_in_more_than_their_epoch() -> None:
    """An unnecessary change would fence fetchers and producers."""
    for leader, dead in itertools.product((1, 2, 3), ((), (2,), (3,), (2, 3))):
        cluster = cluster_with(leader, (1, 2, 3), dead=dead)
        old = cluster.image.partition("t", 0)
        assert isinstance(old, PartitionState)
        for _, state in lead_without(cluster.image, lambda _: False):
            assert (state.leader, state.isr) != (old.leader, old.isr)
