"""When the controller moves replicas by itself, and which."""

from ottla.cluster.automatic_rebalance import RebalanceReason, RebalanceWatch, plan_for
from ottla.cluster.failover import commits, lead_without
from ottla.cluster.reassignment import alter_reassignments
from ottla.cluster.topics import create_topic
from ottla.cluster.znodes import PartitionStateZnode, encode_partition_state
from ottla.model import ControllerEpoch, LeaderEpoch
from ottla.store.interface import Put
from tests.cluster.clusters import Cluster

DELAY = 60.0


class Watched:
    """A cluster with a topic that every broker has six replicas of, and the watch of its controller."""

    def __init__(self, brokers: int = 3, factor: int = 2) -> None:
        self.cluster = Cluster(brokers)
        assignment = {
            number: [(number + shift) % brokers + 1 for shift in range(factor)] for number in range(3 * brokers)
        }
        self.cluster.do(
            create_topic(self.cluster.image, "t", assignment=assignment, random_bytes=self.cluster.random.randbytes)[0]
        )
        self.watch = RebalanceWatch()
        self.watch.observe(self.cluster.image, 0.0)

    def joins(self, broker: int, now: float = 0.0) -> None:
        self.cluster.join(broker)
        self.watch.observe(self.cluster.image, now)

    def dies(self, broker: int, now: float = 0.0) -> None:
        self.cluster.leave(broker)
        for ops in commits(self.cluster.image, lead_without(self.cluster.image, lambda _: False)):
            self.cluster.do(ops)
        self.watch.observe(self.cluster.image, now)

    def reason(self, now: float = 0.0) -> RebalanceReason | None:
        return self.watch.reason(self.cluster.image, now, DELAY)


def joined(*brokers: int) -> RebalanceReason:
    return RebalanceReason(frozenset(brokers), frozenset())


def gone(*brokers: int) -> RebalanceReason:
    return RebalanceReason(frozenset(), frozenset(brokers))


def test_a_quiet_cluster_is_left_alone() -> None:
    watched = Watched()
    assert watched.reason(1000.0) is None
    assert watched.watch.seconds_until_gone(1000.0, DELAY) is None


def test_a_broker_that_joins_gets_its_share() -> None:
    watched = Watched()
    watched.joins(4)
    reason = watched.reason()
    assert reason == joined(4)
    assert str(reason) == "broker 4 joined"
    plan = plan_for(reason, watched.cluster.image, {})
    assert [move.adding for move in plan.moves] == [(4,)] * 4
    watched.watch.settle(watched.cluster.image, reason)
    assert watched.reason() is None


def test_a_restart_is_no_reason() -> None:
    watched = Watched()
    watched.dies(3, now=0.0)
    watched.joins(3, now=5.0)
    assert watched.reason(1000.0) is None


def test_a_broker_is_gone_for_good_after_the_delay() -> None:
    watched = Watched()
    watched.dies(3, now=10.0)
    assert watched.reason(69.0) is None
    assert watched.watch.seconds_until_gone(69.0, DELAY) == 1.0
    reason = watched.reason(70.0)
    assert reason == gone(3)
    assert str(reason) == "broker 3 gone for good"
    plan = plan_for(reason, watched.cluster.image, {})
    assert len(plan.moves) == 6
    assert all(3 in move.before and set(move.after) == {1, 2} for move in plan.moves)


def test_two_brokers_are_counted_from_their_own_deaths() -> None:
    watched = Watched(brokers=4)
    watched.dies(4, now=0.0)
    watched.dies(3, now=30.0)
    assert watched.reason(60.0) == gone(4)
    plan = plan_for(gone(4), watched.cluster.image, {})
    assert all(3 not in move.before for move in plan.moves), "a broker that may come back cannot be named in a move"
    assert watched.reason(90.0) == gone(3, 4)


def test_nothing_starts_while_replicas_move() -> None:
    watched = Watched()
    watched.joins(4)
    ops, _ = alter_reassignments(
        watched.cluster.image, "t", {0: [1, 4]}, allow_factor_change=True, allows_unclean=False
    )
    watched.cluster.do(ops)
    assert watched.reason() is None


def test_a_broker_that_joined_waits_for_one_that_is_missing() -> None:
    """Copying would compete with the return of the other broker."""
    watched = Watched()
    watched.dies(3, now=0.0)
    watched.joins(4, now=1.0)
    assert watched.reason(2.0) is None
    assert watched.reason(61.0) == gone(3)
    watched.watch.settle(watched.cluster.image, gone(3))
    assert watched.reason(62.0) == RebalanceReason(frozenset({4}), frozenset({3}))


def test_a_broker_that_joined_waits_until_all_are_in_sync() -> None:
    watched = Watched()
    state = PartitionStateZnode(1, LeaderEpoch(0), (1,), ControllerEpoch(1))
    watched.cluster.do([Put("/brokers/topics/t/partitions/0/state", encode_partition_state(state))])
    watched.joins(4)
    assert watched.reason() is None


def test_what_cannot_be_moved_is_not_planned_again_until_a_broker_joins() -> None:
    watched = Watched(brokers=3, factor=3)
    watched.dies(3, now=0.0)
    reason = watched.reason(60.0)
    assert reason == gone(3)
    plan = plan_for(reason, watched.cluster.image, {})
    assert not plan.moves
    assert len(plan.unplaceable) == 9
    watched.watch.settle(watched.cluster.image, reason)
    assert watched.reason(1000.0) is None
    watched.joins(4, now=1000.0)
    assert watched.reason(1000.0) == gone(3)
    assert len(plan_for(gone(3), watched.cluster.image, {}).moves) == 9


def test_a_new_controller_continues_where_the_last_one_ended() -> None:
    watched = Watched()
    watched.joins(4)
    successor = RebalanceWatch()
    successor.observe(watched.cluster.image, 0.0)
    assert successor.reason(watched.cluster.image, 0.0, DELAY) == joined(4)
    successor.forget()
    assert successor.reason(watched.cluster.image, 0.0, DELAY) is None
