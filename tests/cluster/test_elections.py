import pytest

from ottla.cluster.elections import ElectionType, elect_leader, elect_leaders, restore_preferred
from ottla.cluster.topics import create_topic
from ottla.cluster.znodes import NO_LEADER, PartitionStateZnode, TopicZnode, encode_partition_state, encode_topic
from ottla.errors import ErrorCode, KafkaError
from ottla.model import ControllerEpoch, LeaderEpoch, TopicId, TopicPartition
from ottla.store.interface import Put, StoreConflictError
from tests.cluster.clusters import Cluster

PARTITION = TopicPartition("t", 0)
STATE = "/brokers/topics/t/partitions/0/state"


def cluster_with(leader: int, isr: tuple[int, ...], dead: tuple[int, ...] = ()) -> Cluster:
    """One partition on brokers 1, 2, 3 in that order."""
    cluster = Cluster(brokers=3)
    cluster.do(create_topic(cluster.image, "t", assignment={0: [1, 2, 3]}, random_bytes=cluster.random.randbytes)[0])
    state = PartitionStateZnode(leader, LeaderEpoch(5), isr, ControllerEpoch(1))
    cluster.do([Put(STATE, encode_partition_state(state))])
    for broker_id in dead:
        cluster.leave(broker_id)
    return cluster


def refusal(cluster: Cluster, election: ElectionType, partition: TopicPartition = PARTITION) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        elect_leader(cluster.image, partition, election)
    return caught.value.code


def test_the_preferred_leader_takes_over() -> None:
    cluster = cluster_with(leader=2, isr=(2, 1))
    ops, elected = elect_leader(cluster.image, PARTITION, ElectionType.PREFERRED)
    assert (elected.leader, elected.leader_epoch, elected.isr) == (1, 6, (2, 1))
    late, _ = elect_leader(cluster.image, PARTITION, ElectionType.PREFERRED)
    cluster.do(ops)
    assert cluster.image.partition("t", 0) == elected
    assert cluster.tree.nodes[STATE].data == (
        b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":6,"isr":[2,1]}'
    )
    with pytest.raises(StoreConflictError):
        cluster.do(late)


def test_preferred_elections_that_do_not_happen() -> None:
    preferred = ElectionType.PREFERRED
    assert refusal(cluster_with(leader=1, isr=(1,)), preferred) is ErrorCode.ELECTION_NOT_NEEDED
    assert refusal(cluster_with(leader=2, isr=(2, 3)), preferred) is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    dead = cluster_with(leader=2, isr=(1, 2), dead=(1,))
    assert refusal(dead, preferred) is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    assert refusal(dead, preferred, TopicPartition("t", 1)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert refusal(dead, preferred, TopicPartition("x", 0)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_an_unclean_election_prefers_who_is_in_sync() -> None:
    cluster = cluster_with(leader=NO_LEADER, isr=(1, 3), dead=(1,))
    _, elected = elect_leader(cluster.image, PARTITION, ElectionType.UNCLEAN)
    assert (elected.leader, elected.leader_epoch, elected.isr) == (3, 6, (1, 3))


def test_an_unclean_election_takes_any_living_replica() -> None:
    cluster = cluster_with(leader=1, isr=(1,), dead=(1,))
    _, elected = elect_leader(cluster.image, PARTITION, ElectionType.UNCLEAN)
    assert (elected.leader, elected.leader_epoch, elected.isr) == (2, 6, (2,))


def test_unclean_elections_that_do_not_happen() -> None:
    unclean = ElectionType.UNCLEAN
    assert refusal(cluster_with(leader=2, isr=(2,)), unclean) is ErrorCode.ELECTION_NOT_NEEDED
    everybody_dead = cluster_with(leader=1, isr=(1,), dead=(1, 2, 3))
    assert refusal(everybody_dead, unclean) is ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE


def test_a_partition_that_never_had_a_leader_gets_its_state() -> None:
    cluster = Cluster(brokers=1)
    cluster.do([Put("/brokers/topics/t", encode_topic(TopicZnode(TopicId(bytes(16)), {0: (1,)}, {}, {})))])
    ops, elected = elect_leader(cluster.image, PARTITION, ElectionType.UNCLEAN)
    cluster.do(ops)
    assert cluster.image.partition("t", 0) == elected
    assert (elected.leader, elected.leader_epoch, elected.version) == (1, 0, 0)


def test_many_elections_are_one_change() -> None:
    cluster = cluster_with(leader=2, isr=(1, 2, 3))
    cluster.do(create_topic(cluster.image, "u", assignment={0: [1]}, random_bytes=cluster.random.randbytes)[0])
    other, absent = TopicPartition("u", 0), TopicPartition("x", 0)
    ops, refused = elect_leaders(cluster.image, [PARTITION, other, absent, PARTITION], ElectionType.PREFERRED)
    cluster.do(ops)
    state = cluster.image.partition("t", 0)
    assert state is not None
    assert (state.leader, state.leader_epoch) == (1, 6)
    assert {key: error.code for key, error in refused.items()} == {
        other: ErrorCode.ELECTION_NOT_NEEDED,
        absent: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert elect_leaders(cluster.image, [PARTITION], ElectionType.PREFERRED)[0] == []


def test_leadership_goes_back_to_who_is_alive_and_in_sync() -> None:
    [(partition, state)] = restore_preferred(cluster_with(leader=2, isr=(1, 2)).image)
    assert (partition, state.leader, state.leader_epoch, state.isr) == (PARTITION, 1, 6, (1, 2))
    assert restore_preferred(cluster_with(leader=1, isr=(1, 2)).image) == []
    assert restore_preferred(cluster_with(leader=2, isr=(2, 3)).image) == []
    assert restore_preferred(cluster_with(leader=2, isr=(1, 2), dead=(1,)).image) == []
