"""Decisions about the reassignment of partitions to other replicas (KIP-455).

During a reassignment a partition has both the target replicas, which come first, and the old ones. When all target
replicas are in sync, the controller removes the others. The topic's node lists `adding_replicas` and
`removing_replicas`, so that any controller can complete the reassignment. A change that removes replicas also writes
the partition's state with a new leader epoch. So a leader that still lists a removed replica in the ISR cannot write
that ISR: its compare-and-set fails.
"""

from collections.abc import Iterator, Mapping, Sequence

from ottla.cluster import znodes
from ottla.cluster.failover import MAX_STATES_IN_COMMIT
from ottla.cluster.image import (
    NO_VERSION,
    UNKNOWN_VERSION,
    ClusterImage,
    PartitionState,
    TopicState,
    topic_znode,
)
from ottla.cluster.topics import check_can_be_written, check_replicas, controller_fence, encode_state
from ottla.cluster.znodes import NO_LEADER
from ottla.errors import ErrorCode, KafkaError
from ottla.model import LeaderEpoch
from ottla.store.interface import Create, Op, Set

Targets = Mapping[int, Sequence[int] | None]
"""The target replicas of each partition. None cancels the reassignment."""

Refusals = dict[int, KafkaError]


def is_reassigning(state: PartitionState) -> bool:
    return bool(state.adding_replicas or state.removing_replicas)


def alter_reassignments(
    image: ClusterImage, name: str, targets: Targets, *, allow_factor_change: bool, allows_unclean: bool
) -> tuple[list[Op], Refusals]:
    """The operations for the partitions of one topic, and the errors of the partitions that are refused."""
    refused: Refusals = {}
    changed: dict[int, PartitionState] = {}
    for partition, target in targets.items():
        try:
            state = _find(image, name, partition)
            if target is None:
                changed[partition] = _cancelled(image, state, allows_unclean)
            else:
                changed[partition] = _retargeted(image, state, target, allow_factor_change)
        except KafkaError as error:
            refused[partition] = error
    changed = {partition: state for partition, state in changed.items() if state != image.partition(name, partition)}
    return (_write(image, image.topics[name], changed) if changed else []), refused


def complete_reassignments(image: ClusterImage) -> Iterator[list[Op]]:
    """The operations for partitions whose target replicas are all in sync. Each list is based on this image alone."""
    for topic in image.topics.values():
        done = {}
        for state in topic.partitions:
            if UNKNOWN_VERSION in (topic.version, state.version):
                continue
            if is_reassigning(state) and (completed := _completed(image, state)) is not None:
                done[state.partition] = completed
                if len(done) == MAX_STATES_IN_COMMIT:
                    break  # The rest must wait for this write, which changes the version of the topic's node.
        if done:
            yield _write(image, topic, done)


def _find(image: ClusterImage, name: str, partition: int) -> PartitionState:
    state = image.partition(name, partition)
    if state is None:
        missing = f"partition {name}-{partition}" if name in image.topics else f"topic {name!r}"
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no {missing}.")
    check_can_be_written(znodes.topic_path(name), image.topics[name].version)
    check_can_be_written(znodes.partition_state_path(name, partition), state.version)
    return state


def _retargeted(
    image: ClusterImage, state: PartitionState, target: Sequence[int], allow_factor_change: bool
) -> PartitionState:
    """Begin a reassignment, or replace the target of an ongoing one."""
    wanted = check_replicas(image, state.partition, target)
    factor = len([replica for replica in state.replicas if replica not in state.removing_replicas])
    if not allow_factor_change and len(wanted) != factor:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor would change from {factor} to {len(wanted)}, which the request does not allow.",
        )
    origin = _origin(state)
    removing = tuple(sorted(replica for replica in origin if replica not in wanted))
    adding = tuple(sorted(replica for replica in wanted if replica not in origin))
    kept = _with_replicas(image, state, wanted + removing)
    if kept is None:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"All in-sync replicas of partition {state.partition} would be removed at once.",
        )
    begun = kept._replace(adding_replicas=adding, removing_replicas=removing)
    return (_completed(image, begun) if is_reassigning(begun) else None) or begun


def _cancelled(image: ClusterImage, state: PartitionState, allows_unclean: bool) -> PartitionState:
    if not is_reassigning(state):
        raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "No reassignment of the partition is in progress.")
    origin = _origin(state)
    back = _with_replicas(image, state, origin)
    if back is None:
        alive = [replica for replica in origin if replica in image.brokers]
        if not (allows_unclean and alive):
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                "Only replicas that are being added are in sync; cancelling would lose records that the others lack.",
            )
        back = _led(state, alive[0], (alive[0],))._replace(replicas=origin)
    return back._replace(adding_replicas=(), removing_replicas=())


def _completed(image: ClusterImage, state: PartitionState) -> PartitionState | None:
    """The partition with the target replicas only. None while some of them are not in sync, or none can lead."""
    wanted = tuple(replica for replica in state.replicas if replica not in state.removing_replicas)
    if not set(wanted) <= set(state.isr):
        return None
    settled = _with_replicas(image, state, wanted)
    if settled is None or (settled.leader == NO_LEADER and state.leader != NO_LEADER):
        return None
    return settled._replace(adding_replicas=(), removing_replicas=())


def _origin(state: PartitionState) -> tuple[int, ...]:
    return tuple(replica for replica in state.replicas if replica not in state.adding_replicas)


def _with_replicas(image: ClusterImage, state: PartitionState, replicas: tuple[int, ...]) -> PartitionState | None:
    """The partition with these replicas, led by one of them. None if none of them is in sync."""
    isr = tuple(replica for replica in state.isr if replica in replicas)
    if not isr:
        return None
    settled = state._replace(replicas=replicas)
    if set(state.replicas) <= set(replicas):
        return settled
    if state.leader in isr:
        return _led(settled, state.leader, isr)
    leader = next((replica for replica in replicas if replica in isr and replica in image.brokers), NO_LEADER)
    return _led(settled, leader, isr)


def _led(state: PartitionState, leader: int, isr: tuple[int, ...]) -> PartitionState:
    return state._replace(leader=leader, leader_epoch=LeaderEpoch(state.leader_epoch + 1), isr=isr)


def _write(image: ClusterImage, topic: TopicState, changed: Mapping[int, PartitionState]) -> list[Op]:
    states = tuple(changed.get(state.partition, state) for state in topic.partitions)
    data = znodes.encode_topic(topic_znode(topic._replace(partitions=states)))
    ops: list[Op] = [controller_fence(image), Set(znodes.topic_path(topic.name), data, topic.version)]
    for partition, wanted in changed.items():
        if wanted.leader_epoch != topic.partitions[partition].leader_epoch:
            path = znodes.partition_state_path(topic.name, partition)
            state = encode_state(wanted._replace(controller_epoch=image.controller_epoch))
            ops.append(Create(path, state) if wanted.version == NO_VERSION else Set(path, state, wanted.version))
    return ops
