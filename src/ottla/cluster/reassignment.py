"""Decisions about moving partitions to other replicas (KIP-455).

A partition that moves has the replicas of both sides, those it shall have first. When all of these are in sync, the
others are let go. What is under way is written in the topic's node, `adding_replicas` and `removing_replicas`, so that
any controller can go on with it; whoever lets replicas go writes the partition's state too, under a new leader epoch:
a leader that still counts with them finds that its own change of the state is refused.
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
from ottla.store.interface import Create, Op, Set

Targets = Mapping[int, Sequence[int] | None]
"""By partition: the replicas it shall have, or None for those it had before a reassignment began."""

Refusals = dict[int, KafkaError]


def is_reassigning(state: PartitionState) -> bool:
    return bool(state.adding_replicas or state.removing_replicas)


def alter_reassignments(
    image: ClusterImage, name: str, targets: Targets, *, allow_factor_change: bool, allows_unclean: bool
) -> tuple[list[Op], Refusals]:
    """What to write for the partitions of one topic, and why others of them are refused."""
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
    """What to write for the partitions whose new replicas are all in sync. Each list depends on the image alone."""
    for topic in image.topics.values():
        done = {}
        for state in topic.partitions:
            if UNKNOWN_VERSION in (topic.version, state.version):
                continue
            if is_reassigning(state) and (completed := _completed(image, state)) is not None:
                done[state.partition] = completed
                if len(done) == MAX_STATES_IN_COMMIT:
                    break  # The rest comes when these are written: the topic's node is another one then.
        if done:
            yield _write(image, topic, done)


def _find(image: ClusterImage, name: str, partition: int) -> PartitionState:
    state = image.partition(name, partition)
    if state is None:
        what = f"a partition {name}-{partition}" if name in image.topics else f"a topic {name!r}"
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is not {what}.")
    check_can_be_written(znodes.topic_path(name), image.topics[name].version)
    check_can_be_written(znodes.partition_state_path(name, partition), state.version)
    return state


def _retargeted(
    image: ClusterImage, state: PartitionState, target: Sequence[int], allow_factor_change: bool
) -> PartitionState:
    """A reassignment begins, or another target replaces that of one under way."""
    wanted = check_replicas(image, state.partition, target)
    factor = len([replica for replica in state.replicas if replica not in state.removing_replicas])
    if not allow_factor_change and len(wanted) != factor:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The number of replicas would change from {factor} to {len(wanted)}, which the request does not allow.",
        )
    origin = _origin(state)
    removing = tuple(sorted(replica for replica in origin if replica not in wanted))
    adding = tuple(sorted(replica for replica in wanted if replica not in origin))
    kept = _with_replicas(image, state, wanted + removing)
    if kept is None:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Only replicas that would be dropped at once are in sync for partition {state.partition}.",
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
                "Only replicas that were being added are in sync; going back would lose what the others lack.",
            )
        back = _led(state, alive[0], (alive[0],))._replace(replicas=origin)
    return back._replace(adding_replicas=(), removing_replicas=())


def _completed(image: ClusterImage, state: PartitionState) -> PartitionState | None:
    """The partition on its new replicas alone; None as long as not all of them are in sync, or none could lead."""
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
    """The partition with these replicas, one of them leading; None when none of them would be in sync."""
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
    return state._replace(leader=leader, leader_epoch=state.leader_epoch + 1, isr=isr)


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
