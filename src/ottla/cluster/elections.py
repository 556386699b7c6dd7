"""Leader elections that an operator requests (ElectLeaders, KIP-183 and KIP-460)."""

from collections.abc import Iterable
from enum import IntEnum

from ottla.cluster import znodes
from ottla.cluster.image import NO_VERSION, UNKNOWN_VERSION, ClusterImage, PartitionState
from ottla.cluster.topics import check_can_be_written, controller_fence, encode_state
from ottla.errors import ErrorCode, KafkaError
from ottla.model import LeaderEpoch, TopicPartition
from ottla.store.interface import Create, Op, Set


class ElectionType(IntEnum):
    """The values are those of the ElectLeaders request."""

    PREFERRED = 0
    UNCLEAN = 1


def elect_leaders(
    image: ClusterImage, partitions: Iterable[TopicPartition], election: ElectionType
) -> tuple[list[Op], dict[TopicPartition, KafkaError]]:
    """Elect leaders in one commit. Also returns the errors of the partitions for which no leader can be elected."""
    ops: list[Op] = []
    refused: dict[TopicPartition, KafkaError] = {}
    for topic_partition in dict.fromkeys(partitions):
        try:
            [fence, write], _ = elect_leader(image, topic_partition, election)
        except KafkaError as error:
            refused[topic_partition] = error
        else:
            ops += [write] if ops else [fence, write]
    return ops, refused


def elect_leader(
    image: ClusterImage, topic_partition: TopicPartition, election: ElectionType
) -> tuple[list[Op], PartitionState]:
    state = image.partition(*topic_partition)
    if state is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no partition {topic_partition}.")
    path = znodes.partition_state_path(*topic_partition)
    check_can_be_written(path, state.version)
    if election is ElectionType.PREFERRED:
        leader, isr = _preferred(image, topic_partition, state), state.isr
    else:
        leader, isr = _unclean(image, topic_partition, state)
    elected = _led(image, state, leader, isr)._replace(version=state.version + 1)
    data = encode_state(elected)
    write = Create(path, data) if state.version == NO_VERSION else Set(path, data, state.version)
    return [controller_fence(image), write], elected


def restore_preferred(image: ClusterImage) -> list[tuple[TopicPartition, PartitionState]]:
    """The new states of partitions whose preferred leader is alive and in sync but does not lead."""
    return [
        (TopicPartition(topic.name, state.partition), _led(image, state, preferred, state.isr))
        for topic in image.topics.values()
        for state in topic.partitions
        if state.leader != (preferred := state.replicas[0])
        and preferred in state.isr
        and preferred in image.brokers
        and state.version != UNKNOWN_VERSION
    ]


def _led(image: ClusterImage, state: PartitionState, leader: int, isr: tuple[int, ...]) -> PartitionState:
    return state._replace(
        leader=leader,
        leader_epoch=LeaderEpoch(state.leader_epoch + 1),
        isr=isr,
        controller_epoch=image.controller_epoch,
    )


def _preferred(image: ClusterImage, topic_partition: TopicPartition, state: PartitionState) -> int:
    preferred = state.replicas[0]
    if state.leader == preferred:
        raise KafkaError(
            ErrorCode.ELECTION_NOT_NEEDED, f"Broker {preferred} is the preferred leader of {topic_partition} already."
        )
    if preferred not in image.brokers or preferred not in state.isr:
        raise KafkaError(
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
            f"Broker {preferred}, the preferred leader of {topic_partition}, is not alive and in sync.",
        )
    return preferred


def _unclean(
    image: ClusterImage, topic_partition: TopicPartition, state: PartitionState
) -> tuple[int, tuple[int, ...]]:
    """An in-sync replica if there is one, else any living one. The records that only dead replicas have are lost."""
    if state.leader in image.brokers:
        raise KafkaError(ErrorCode.ELECTION_NOT_NEEDED, f"Broker {state.leader} leads {topic_partition}.")
    alive = [replica for replica in state.replicas if replica in image.brokers]
    in_sync = [replica for replica in alive if replica in state.isr]
    if in_sync:
        return in_sync[0], state.isr
    if alive:
        return alive[0], (alive[0],)
    raise KafkaError(
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, f"No replica of {topic_partition} is alive: {list(state.replicas)}."
    )
