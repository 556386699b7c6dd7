from ottla.cluster.failover import commits, lead_without
from ottla.cluster.returning import ReturningBrokers
from ottla.cluster.topics import create_topic, delete_topic, encode_state
from ottla.cluster.znodes import partition_state_path
from ottla.model import TopicPartition
from ottla.store.interface import Put
from tests.cluster.clusters import Cluster

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Controlled:
    """Broker 1 is the controller; broker 2 is the preferred leader of `t`, left and comes back."""

    def __init__(self) -> None:
        self.cluster = Cluster(brokers=2)
        assignment = {0: [2, 1], 1: [2, 1]}
        self.cluster.do(
            create_topic(self.cluster.image, "t", assignment=assignment, random_bytes=self.cluster.random.randbytes)[0]
        )
        self.returning = ReturningBrokers()
        self.observe()
        self.restart()

    def restart(self) -> None:
        self.cluster.leave(2)
        for ops in commits(self.cluster.image, lead_without(self.cluster.image, lambda _: False)):
            self.cluster.do(ops)
        self.observe()
        self.cluster.join(2)
        self.observe()

    def observe(self) -> None:
        self.returning.observe(self.cluster.image)

    def set(self, partition: int, leader: int, isr: tuple[int, ...]) -> None:
        state = self.cluster.image.topics["t"].partitions[partition]
        changed = state._replace(leader=leader, isr=isr)
        self.cluster.do([Put(partition_state_path("t", partition), encode_state(changed))])
        self.observe()

    def give_back(self) -> list[TopicPartition]:
        changes = self.returning.due(self.cluster.image)
        for ops in commits(self.cluster.image, changes):
            self.cluster.do(ops)
        given = [partition for partition, _ in changes]
        self.returning.settle(self.cluster.image, given)
        return given


def test_a_partition_goes_back_when_its_preferred_leader_is_in_sync() -> None:
    controlled = Controlled()
    assert controlled.returning.are_owed
    assert controlled.give_back() == []
    controlled.set(0, 1, (1, 2))
    assert controlled.give_back() == [T0]
    assert controlled.returning.are_owed
    controlled.set(1, 1, (1, 2))
    assert controlled.give_back() == [T1]
    assert not controlled.returning.are_owed


def test_a_registration_gets_a_partition_back_once() -> None:
    """For example that of a broker whose disk repeatedly fails and recovers."""
    controlled = Controlled()
    controlled.set(0, 1, (1, 2))
    assert controlled.give_back() == [T0]
    controlled.set(0, 1, (1,))
    controlled.set(0, 1, (1, 2))
    assert controlled.give_back() == []
    controlled.restart()
    controlled.set(0, 1, (1, 2))
    assert controlled.give_back() == [T0]


def test_what_has_nothing_to_do_with_a_return_stays() -> None:
    controlled = Controlled()
    controlled.set(0, 2, (1, 2))
    controlled.set(1, 2, (1, 2))
    assert controlled.give_back() == []
    assert not controlled.returning.are_owed
    controlled.set(0, 1, (1, 2))
    assert controlled.give_back() == []


def test_what_is_gone_is_owed_to_nobody() -> None:
    controlled = Controlled()
    controlled.cluster.do(delete_topic(controlled.cluster.image, "t"))
    controlled.observe()
    assert controlled.give_back() == []
    assert not controlled.returning.are_owed
    gone = Controlled()
    gone.cluster.leave(2)
    gone.observe()
    assert not gone.returning.are_owed


def test_a_new_controller_looks_at_everybody() -> None:
    controlled = Controlled()
    controlled.set(0, 1, (1, 2))
    assert controlled.give_back() == [T0]
    controlled.set(0, 1, (1, 2))
    controlled.returning.forget()
    controlled.observe()
    assert controlled.give_back() == [T0]
