import pytest

from ottla.cluster.image import PartitionState
from ottla.cluster.reassignment import Refusals, alter_reassignments, complete_reassignments
from ottla.cluster.topics import create_partitions, create_topic
from ottla.cluster.znodes import NO_LEADER, PartitionStateZnode, encode_partition_state
from ottla.errors import ErrorCode
from ottla.model import ControllerEpoch, LeaderEpoch
from ottla.store.interface import Put, Set, StoreConflictError
from tests.cluster.clusters import Cluster

TOPIC = "/brokers/topics/t"


def cluster_with(*replicas: list[int], brokers: int = 6) -> Cluster:
    cluster = Cluster(brokers)
    assignment = dict(enumerate(replicas))
    cluster.do(create_topic(cluster.image, "t", assignment=assignment, random_bytes=cluster.random.randbytes)[0])
    return cluster


def alter(
    cluster: Cluster, target: list[int] | None, partition: int = 0, *, fixed: bool = False, unclean: bool = False
) -> Refusals:
    ops, refused = alter_reassignments(
        cluster.image, "t", {partition: target}, allow_factor_change=not fixed, allows_unclean=unclean
    )
    if ops:
        cluster.do(ops)
    return refused


def refusal(cluster: Cluster, target: list[int] | None, partition: int = 0, *, fixed: bool = False) -> ErrorCode:
    return alter(cluster, target, partition, fixed=fixed)[partition].code


def state(cluster: Cluster, partition: int = 0) -> PartitionState:
    found = cluster.image.partition("t", partition)
    assert found is not None
    return found


def replicas(cluster: Cluster) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    now = state(cluster)
    return now.replicas, now.adding_replicas, now.removing_replicas


def in_sync(cluster: Cluster, *isr: int, leader: int = 1) -> None:
    epoch = state(cluster).leader_epoch
    data = encode_partition_state(PartitionStateZnode(leader, epoch, isr, ControllerEpoch(1)))
    cluster.do([Put(f"{TOPIC}/partitions/0/state", data)])


def complete(cluster: Cluster) -> int:
    count = 0
    for ops in complete_reassignments(cluster.image):
        cluster.do(ops)
        count += 1
    return count


def test_a_partition_moves_when_its_new_replicas_are_in_sync() -> None:
    cluster = cluster_with([1, 2, 3], [1, 2, 3])
    assert not alter(cluster, [4, 5, 3])
    assert replicas(cluster) == ((4, 5, 3, 1, 2), (4, 5), (1, 2))
    assert (state(cluster).leader, state(cluster).leader_epoch, state(cluster).isr) == (1, 0, (1, 2, 3))
    assert cluster.tree.nodes[TOPIC].data.startswith(b'{"removing_replicas":{"0":[1,2]},"partitions":{"0":[4,5,3,1,2]')
    assert cluster.tree.nodes[TOPIC].data.endswith(b'"adding_replicas":{"0":[4,5]},"version":3}')
    in_sync(cluster, 1, 2, 3, 4)
    assert complete(cluster) == 0
    in_sync(cluster, 1, 3, 4, 5)
    assert complete(cluster) == 1
    assert replicas(cluster) == ((4, 5, 3), (), ())
    assert (state(cluster).leader, state(cluster).leader_epoch, state(cluster).isr) == (4, 1, (3, 4, 5))
    assert state(cluster, 1).replicas == (1, 2, 3)
    assert complete(cluster) == 0


def test_the_leader_stays_if_it_can_in_a_new_epoch() -> None:
    cluster = cluster_with([1, 2, 3])
    alter(cluster, [4, 1])
    in_sync(cluster, 1, 4)
    complete(cluster)
    assert (state(cluster).leader, state(cluster).leader_epoch, state(cluster).isr) == (1, 1, (1, 4))


def test_an_old_leader_cannot_bring_back_a_replica_that_was_let_go() -> None:
    cluster = cluster_with([1, 2, 3])
    in_sync(cluster, 1, 2)
    version = state(cluster).version
    alter(cluster, [1, 2])
    data = encode_partition_state(PartitionStateZnode(1, LeaderEpoch(0), (1, 2, 3), ControllerEpoch(1)))
    with pytest.raises(StoreConflictError):
        cluster.do([Set(f"{TOPIC}/partitions/0/state", data, version)])


def test_what_needs_no_copy_is_done_at_once() -> None:
    cluster = cluster_with([1, 2, 3])
    alter(cluster, [3, 2, 1])
    assert replicas(cluster) == ((3, 2, 1), (), ())
    assert state(cluster).leader == 1, "another order alone moves no leader"
    alter(cluster, [2, 3])
    assert replicas(cluster) == ((2, 3), (), ())
    assert (state(cluster).leader, state(cluster).isr) == (2, (2, 3))
    before = cluster.tree.revision
    assert not alter(cluster, [2, 3])
    assert cluster.tree.revision == before, "what is so already is not written"


def test_fewer_replicas_wait_until_those_that_stay_are_in_sync() -> None:
    cluster = cluster_with([1, 2, 3])
    in_sync(cluster, 1)
    alter(cluster, [2, 3])
    assert replicas(cluster) == ((2, 3, 1), (), (1,))
    in_sync(cluster, 1, 2, 3)
    complete(cluster)
    assert replicas(cluster) == ((2, 3), (), ())


def test_cancelling_goes_back_to_where_it_began() -> None:
    cluster = cluster_with([1, 2, 3])
    alter(cluster, [4, 5, 6])
    in_sync(cluster, 1, 2, 4, leader=4)
    alter(cluster, None)
    assert replicas(cluster) == ((1, 2, 3), (), ())
    assert (state(cluster).leader, state(cluster).leader_epoch, state(cluster).isr) == (1, 1, (1, 2))
    assert refusal(cluster, None) is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


def test_cancelling_an_increase_lets_the_new_replica_go() -> None:
    cluster = cluster_with([1, 2])
    alter(cluster, [1, 2, 3])
    assert replicas(cluster) == ((1, 2, 3), (3,), ())
    in_sync(cluster, 1, 2)
    alter(cluster, None)
    assert replicas(cluster) == ((1, 2), (), ())
    assert state(cluster).leader_epoch == 1


def test_cancelling_does_not_lose_what_only_new_replicas_have() -> None:
    cluster = cluster_with([1, 2])
    alter(cluster, [4, 5])
    in_sync(cluster, 4, leader=4)
    assert refusal(cluster, None) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    cluster.leave(1)
    assert not alter(cluster, None, unclean=True)
    assert replicas(cluster) == ((1, 2), (), ())
    assert (state(cluster).leader, state(cluster).isr) == (2, (2,))


def test_another_target_replaces_the_first() -> None:
    cluster = cluster_with([1, 2, 3])
    alter(cluster, [4, 5, 3])
    in_sync(cluster, 1, 2, 3, 5)
    alter(cluster, [4, 6, 3])
    assert replicas(cluster) == ((4, 6, 3, 1, 2), (4, 6), (1, 2))
    assert (state(cluster).isr, state(cluster).leader_epoch) == ((1, 2, 3), 1), "5 is dropped, and not in sync any more"
    alter(cluster, None)
    assert replicas(cluster)[0] == (3, 1, 2)


def test_another_target_may_not_drop_all_that_is_in_sync() -> None:
    cluster = cluster_with([1, 2])
    alter(cluster, [4, 5])
    in_sync(cluster, 4, leader=4)
    assert refusal(cluster, [5, 6]) is ErrorCode.INVALID_REPLICA_ASSIGNMENT


@pytest.mark.parametrize("target", [[], [1, 1], [1, 9], [-1]])
def test_replicas_that_cannot_be(target: list[int]) -> None:
    assert refusal(cluster_with([1, 2]), target) is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_unknown_partitions() -> None:
    cluster = cluster_with([1])
    assert refusal(cluster, [2], partition=1) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    _, refused = alter_reassignments(cluster.image, "x", {0: [1]}, allow_factor_change=True, allows_unclean=False)
    assert refused[0].code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_the_number_of_replicas_can_be_held() -> None:
    cluster = cluster_with([1, 2])
    assert refusal(cluster, [1, 2, 3], fixed=True) is ErrorCode.INVALID_REPLICATION_FACTOR
    assert not alter(cluster, [3, 4], fixed=True)
    assert refusal(cluster, [3, 4, 5], fixed=True) is ErrorCode.INVALID_REPLICATION_FACTOR
    assert not alter(cluster, [5, 6], fixed=True), "replicas that are removed do not count"


def test_a_refused_partition_is_not_in_the_way_of_others() -> None:
    cluster = cluster_with([1], [1])
    ops, refused = alter_reassignments(
        cluster.image, "t", {0: [9], 1: [2]}, allow_factor_change=True, allows_unclean=False
    )
    cluster.do(ops)
    assert set(refused) == {0}
    assert state(cluster, 1).replicas == (2, 1)


def test_nobody_leads_when_all_new_replicas_have_died() -> None:
    cluster = cluster_with([1, 2])
    alter(cluster, [4])
    in_sync(cluster, 1, 2, 4)
    cluster.leave(4)
    assert complete(cluster) == 0
    assert state(cluster).leader != NO_LEADER


def test_partitions_that_are_added_meanwhile_have_as_many_replicas_as_there_will_be() -> None:
    cluster = cluster_with([1, 2])
    alter(cluster, [3, 4])
    assert len(state(cluster).replicas) == 4
    cluster.do(create_partitions(cluster.image, "t", 2)[0])
    assert len(state(cluster, 1).replicas) == 2
    assert state(cluster).adding_replicas == (3, 4), "what is under way goes on"
