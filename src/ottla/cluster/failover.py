"""Leader elections that the controller makes by itself when a broker has died, come back, or is about to stop.

The controller elects the first assigned replica that is alive and in sync, since in-sync replicas have all committed
records. If there is none, a topic with `unclean.leader.election.enable` gets another living replica as leader, and
loses the records that only dead replicas have.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache, partial

from ottla.cluster import znodes
from ottla.cluster.image import NO_VERSION, UNKNOWN_VERSION, ClusterImage, PartitionState, TopicState
from ottla.cluster.topics import controller_fence, encode_state
from ottla.cluster.znodes import NO_LEADER
from ottla.model import LeaderEpoch, TopicPartition
from ottla.store.interface import Create, Op, Set

MAX_STATES_IN_COMMIT = 200
"""A partition state has about 200 bytes with its path, and ZooKeeper accepts one megabyte per transaction."""


def lead_without(
    image: ClusterImage, allows_unclean: Callable[[str], bool], stopping: Collection[int] = ()
) -> list[tuple[TopicPartition, PartitionState]]:
    """The new states of partitions that are affected by brokers that are dead or `stopping`.

    A stopping broker keeps the partitions that no other broker can lead until it has stopped. So does a broker that
    restarts after a crash and is not registered yet.

    This runs for all partitions at every change of the image. So it computes the settings of a topic only if a
    partition has no in-sync replica left, and once per topic.
    """
    allows_unclean = cache(allows_unclean)
    return [
        (TopicPartition(topic.name, state.partition), wanted._replace(controller_epoch=image.controller_epoch))
        for topic, state in _partitions(image)
        if (wanted := successor(state, image.brokers, partial(allows_unclean, topic.name), stopping)) != state
    ]


def leave(image: ClusterImage, broker_id: int) -> list[tuple[TopicPartition, PartitionState]]:
    """The new states of partitions of a broker that may have lost the ends of its logs.

    As in KIP-966, the broker leaves the in-sync replicas and leads nothing until it has caught up. A partition has no
    leader while all other in-sync replicas are down. Where the broker is the only in-sync replica it stays in sync,
    since no other replica has more records.
    """
    changes = []
    for topic, state in _partitions(image):
        isr = tuple(replica for replica in state.isr if replica != broker_id)
        if isr and isr != state.isr:
            leader = state.leader
            if leader == broker_id:
                leader = next((it for it in state.replicas if it in isr and it in image.brokers), NO_LEADER)
            left = _led(state, leader, isr)._replace(controller_epoch=image.controller_epoch)
            changes.append((TopicPartition(topic.name, state.partition), left))
    return changes


def commits(image: ClusterImage, changes: Sequence[tuple[TopicPartition, PartitionState]]) -> Iterator[list[Op]]:
    """The changes as commits, each small enough for every store."""
    for start in range(0, len(changes), MAX_STATES_IN_COMMIT):
        ops: list[Op] = [controller_fence(image)]
        for partition, state in changes[start : start + MAX_STATES_IN_COMMIT]:
            path = znodes.partition_state_path(*partition)
            data = encode_state(state)
            ops.append(Create(path, data) if state.version == NO_VERSION else Set(path, data, state.version))
        yield ops


def _partitions(image: ClusterImage) -> Iterator[tuple[TopicState, PartitionState]]:
    """All partitions except those with a damaged state. Their write would fail, and with it the whole commit."""
    for topic in image.topics.values():
        for state in topic.partitions:
            if state.version != UNKNOWN_VERSION:
                yield topic, state


def successor(
    state: PartitionState, living: Collection[int], allows_unclean: Callable[[], bool], stopping: Collection[int] = ()
) -> PartitionState:
    """The state that a partition should have: its present state, or a new one with the next leader epoch."""
    available = [replica for replica in state.replicas if replica in living and replica not in stopping]
    if state.leader in available:
        return _without_dead(state, available)
    candidates = [replica for replica in available if replica in state.isr]
    if candidates:
        return _led(state, candidates[0], tuple(replica for replica in state.isr if replica in candidates))
    if state.leader in stopping:
        return state  # No other replica can lead: the broker leads until it has stopped.
    if available and allows_unclean():
        return _led(state, available[0], (available[0],))
    return state if state.leader == NO_LEADER else _led(state, NO_LEADER, state.isr)


def _without_dead(state: PartitionState, available: Sequence[int]) -> PartitionState:
    """Remove dead followers from the ISR. The leader would do so later, and until then acks=all waits for them."""
    isr = tuple(replica for replica in state.isr if replica in available)
    return state if isr == state.isr else _led(state, state.leader, isr)


def _led(state: PartitionState, leader: int, isr: tuple[int, ...]) -> PartitionState:
    return state._replace(leader=leader, leader_epoch=LeaderEpoch(state.leader_epoch + 1), isr=isr)
