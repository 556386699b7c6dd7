"""Decisions about topics: each returns operations for the store, or raises KafkaError.

Every list of operations starts with a check of the controller epoch, so that a controller that has been replaced cannot
write any more. All further operations compare versions with the image of the decision. A conflict means that the image
was stale: read the changes and decide again.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

from ottla.cluster import znodes
from ottla.cluster.assignment import Start, assign_replicas, start_after
from ottla.cluster.image import (
    NO_VERSION,
    UNKNOWN_VERSION,
    Broker,
    ClusterImage,
    Entity,
    EntityType,
    PartitionState,
    TopicState,
    topic_znode,
)
from ottla.cluster.topic_names import check_no_collision, check_topic_name
from ottla.cluster.znodes import PartitionStateZnode
from ottla.errors import ErrorCode, KafkaError
from ottla.model import FIRST_LEADER_EPOCH, METADATA_TOPIC_ID, ZERO_TOPIC_ID, TopicId, format_topic_id, new_topic_id
from ottla.store.interface import Check, Create, Delete, Op, Put, Set

UNSET = -1
"""A number of partitions or replicas that stands for the cluster's default."""

MAX_PARTITIONS_PER_REQUEST = 10_000

RandomBytes = Callable[[int], bytes]
Assignment = Mapping[int, Sequence[int]]


def controller_fence(image: ClusterImage) -> Check:
    if image.controller_epoch_version == NO_VERSION:
        raise KafkaError(ErrorCode.NOT_CONTROLLER, "No controller has been elected yet.")
    return Check(znodes.CONTROLLER_EPOCH, image.controller_epoch_version)


def find_topic(image: ClusterImage, name: str) -> TopicState:
    topic = image.topics.get(name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic {name!r}.")
    return topic


def check_can_be_written(path: str, version: int) -> None:
    """Raise KafkaError if the node is damaged and its present value is unknown."""
    if version == UNKNOWN_VERSION:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"The node {path} of the store is damaged; repair it first.")


def create_topic(
    image: ClusterImage,
    name: str,
    *,
    partitions: int = UNSET,
    replication_factor: int = UNSET,
    assignment: Assignment | None = None,
    configs: Mapping[str, str] | None = None,
    default_partitions: int = 1,
    default_replication_factor: int = 1,
    random_bytes: RandomBytes,
) -> tuple[list[Op], TopicState]:
    """Create a topic. The first replica of each partition leads it. The caller has validated the configs."""
    check_topic_name(name)
    if name in image.topics:
        raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"The topic {name!r} already exists.")
    if znodes.topic_path(name) in image.damaged:
        raise KafkaError(
            ErrorCode.TOPIC_ALREADY_EXISTS, f"The topic {name!r} already exists, but its node in the store is damaged."
        )
    check_no_collision(name, image.topics)
    if assignment:
        replicas = _checked_new_assignment(image, partitions, replication_factor, assignment)
    else:
        factor = _factor(replication_factor, default_replication_factor)
        count = _count(partitions, default_partitions)
        brokers = _enough_brokers(image, factor)
        start = Start(_random_below(len(brokers), random_bytes), _random_below(len(brokers), random_bytes))
        replicas = assign_replicas(brokers, count, factor, start)
    topic_id = _unused_topic_id(image, random_bytes)
    fence = controller_fence(image)
    states = tuple(_new_partition(image, partition, ids) for partition, ids in enumerate(replicas))
    topic = TopicState(name, topic_id, states, version=0)
    ops: list[Op] = [fence, Create(znodes.topic_path(name), znodes.encode_topic(topic_znode(topic)))]
    ops += _create_states(name, states)
    ops.append(Put(znodes.config_path(EntityType.TOPIC, name), znodes.encode_config(configs or {})))
    return ops, topic


def create_partitions(
    image: ClusterImage,
    name: str,
    count: int,
    assignment: Sequence[Sequence[int]] | None = None,
) -> tuple[list[Op], TopicState]:
    """Add partitions to a topic, up to `count` in all. `assignment` has the replicas of the new partitions."""
    topic = find_topic(image, name)
    check_can_be_written(znodes.topic_path(name), topic.version)
    present = len(topic.partitions)
    if count <= present:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {name!r} has {present} partition(s); {count} would not be an increase.",
        )
    added = count - present
    _check_not_too_many(added)
    first = topic.partitions[0]
    factor = len([replica for replica in first.replicas if replica not in first.removing_replicas])
    if assignment is None:
        brokers = _enough_brokers(image, factor)
        start = start_after(brokers, first.replicas[0])
        replicas = assign_replicas(brokers, added, factor, start, first_partition=present)
    else:
        if len(assignment) != added:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"{added} partition(s) are to be added to {name!r}, but {len(assignment)} assignment(s) are given.",
            )
        replicas = [
            check_replicas(image, partition, ids, factor) for partition, ids in enumerate(assignment, start=present)
        ]
    fence = controller_fence(image)
    states = tuple(_new_partition(image, partition, ids) for partition, ids in enumerate(replicas, start=present))
    grown = topic._replace(partitions=topic.partitions + states, version=topic.version + 1)
    ops: list[Op] = [
        fence,
        Set(znodes.topic_path(name), znodes.encode_topic(topic_znode(grown)), topic.version),
        *_create_states(name, states),
    ]
    return ops, grown


def delete_topic(image: ClusterImage, name: str) -> list[Op]:
    """Delete all nodes of the topic, children first. Brokers then delete its logs."""
    topic = find_topic(image, name)
    ops: list[Op] = [controller_fence(image)]
    known = [state.partition for state in topic.partitions if state.version != NO_VERSION]
    for partition in known:
        ops.append(Delete(znodes.partition_state_path(name, partition)))
        ops.append(Delete(znodes.partition_path(name, partition)))
    if known:
        ops.append(Delete(znodes.partitions_path(name)))
    ops.append(Delete(znodes.topic_path(name), None if topic.version == UNKNOWN_VERSION else topic.version))
    if Entity(EntityType.TOPIC, name) in image.configs:
        ops.append(Delete(znodes.config_path(EntityType.TOPIC, name)))
    if name in image.topics_to_delete:
        ops.append(Delete(znodes.delete_topic_path(name)))
    return ops


def delete_marked_topics(image: ClusterImage, *, enabled: bool) -> Iterator[list[Op]]:
    """Delete the topics that tools have marked in `/admin/delete_topics`, as Kafka's controller did.

    The mark is deleted together with its topic. If there is no such topic, or deletion is not `enabled`, only the mark
    is deleted. A topic whose node is damaged keeps its mark until the node is repaired.
    """
    for name in sorted(image.topics_to_delete):
        if name in image.topics and enabled:
            yield delete_topic(image, name)
        elif name in image.topics or znodes.topic_path(name) not in image.damaged:
            yield [controller_fence(image), Delete(znodes.delete_topic_path(name))]


def _count(partitions: int, default: int) -> int:
    count = default if partitions == UNSET else partitions
    if count <= 0:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"A topic cannot have {count} partitions.")
    _check_not_too_many(count)
    return count


def _check_not_too_many(partitions: int) -> None:
    if partitions > MAX_PARTITIONS_PER_REQUEST:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"At most {MAX_PARTITIONS_PER_REQUEST} partitions can be created at once, not {partitions}.",
        )


def _factor(replication_factor: int, default: int) -> int:
    factor = default if replication_factor == UNSET else replication_factor
    if factor <= 0:
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, f"A topic cannot have {factor} replicas.")
    return factor


def _enough_brokers(image: ClusterImage, factor: int) -> list[Broker]:
    brokers = list(image.brokers.values())
    if factor > len(brokers):
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"{factor} replicas are asked for, but only {len(brokers)} broker(s) are available.",
        )
    return brokers


def _checked_new_assignment(
    image: ClusterImage, partitions: int, replication_factor: int, assignment: Assignment
) -> list[tuple[int, ...]]:
    for asked, what in ((replication_factor, "the replication factor"), (partitions, "the number of partitions")):
        if asked != UNSET:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"With replicas assigned by hand, {what} must be left at {UNSET}."
            )
    _check_not_too_many(len(assignment))
    if not all(partition in assignment for partition in range(len(assignment))):
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "Assigned partitions must be numbered from 0 without gaps."
        )
    factor = len(assignment[0])
    return [check_replicas(image, partition, assignment[partition], factor) for partition in range(len(assignment))]


def check_replicas(
    image: ClusterImage, partition: int, replicas: Sequence[int], factor: int | None = None
) -> tuple[int, ...]:
    """Check replicas that a client assigned. If `factor` is None, any number of them is valid."""
    problem = None
    if not replicas:
        problem = "no replicas"
    elif len(set(replicas)) != len(replicas):
        problem = "the same broker twice"
    elif unknown := [broker_id for broker_id in replicas if broker_id not in image.brokers]:
        problem = f"broker {unknown[0]}, which is not available"
    elif factor is not None and len(replicas) != factor:
        problem = f"{len(replicas)} replicas while the other partitions have {factor}"
    if problem is not None:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"Partition {partition} is assigned {problem}: {list(replicas)}."
        )
    return tuple(replicas)


def _random_below(bound: int, random_bytes: RandomBytes) -> int:
    return int.from_bytes(random_bytes(8)) % bound


def _unused_topic_id(image: ClusterImage, random_bytes: RandomBytes) -> TopicId:
    """Like Kafka, avoid ids whose printed form starts with a dash: tools would parse them as an option."""
    while True:
        topic_id = new_topic_id(random_bytes(16))
        reserved = topic_id in (ZERO_TOPIC_ID, METADATA_TOPIC_ID) or format_topic_id(topic_id).startswith("-")
        if not reserved and topic_id not in image.topics_by_id:
            return topic_id


def _new_partition(image: ClusterImage, partition: int, replicas: tuple[int, ...]) -> PartitionState:
    return PartitionState(
        partition, replicas[0], FIRST_LEADER_EPOCH, replicas, replicas, (), (), image.controller_epoch, version=0
    )


def _create_states(topic: str, states: Sequence[PartitionState]) -> list[Op]:
    return [Create(znodes.partition_state_path(topic, state.partition), encode_state(state)) for state in states]


def encode_state(state: PartitionState) -> bytes:
    return znodes.encode_partition_state(
        PartitionStateZnode(state.leader, state.leader_epoch, state.isr, state.controller_epoch)
    )
