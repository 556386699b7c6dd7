"""Decisions about leadership that the controller makes by itself: a broker has died, come back, or is about to stop.

A leader is taken from the living in-sync replicas, in the order in which the replicas were assigned, since these have
everything that was committed. Only a topic that allows it (`unclean.leader.election.enable`) takes another replica when
there is none, at the price of what only the dead have.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache

from ottla.cluster import znodes
from ottla.cluster.image import NO_VERSION, UNKNOWN_VERSION, ClusterImage, PartitionState, TopicState
from ottla.cluster.topics import controller_fence, encode_state
from ottla.cluster.znodes import NO_LEADER
from ottla.model import TopicPartition
from ottla.store.interface import Create, Op, Set

MAX_STATES_IN_COMMIT = 200
"""A state takes about 200 bytes with its path, and ZooKeeper takes a megabyte in one go."""


def lead_without(
    image: ClusterImage, allows_unclean: Callable[[str], bool], stopping: Collection[int] = ()
) -> list[tuple[TopicPartition, PartitionState]]:
    """The partitions that need another state because of brokers that are dead, or are `stopping`, and that state.

    A broker that stops keeps what nobody else can take over, until it is dead. So does one that has crashed and comes
    back, which is not among the living yet.
    """
    allows_unclean = cache(allows_unclean)  # Once per topic: a topic's settings take long to put together.
    return [
        (TopicPartition(topic.name, state.partition), wanted._replace(controller_epoch=image.controller_epoch))
        for topic, state in _partitions(image)
        if (wanted := successor(state, image.brokers, allows_unclean(topic.name), stopping)) != state
    ]


def leave(image: ClusterImage, broker_id: int) -> list[tuple[TopicPartition, PartitionState]]:
    """The partitions that need another state because a broker may have lost the ends of its logs, and that state.

    It is in sync with nobody then, as in KIP-966, and leads nothing before it has caught up; nobody does, where those
    who are in sync are not back yet. Only what it alone had in sync stays, since nobody has more.
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
    """The changes as lists of operations, each of a size that any store accepts."""
    for start in range(0, len(changes), MAX_STATES_IN_COMMIT):
        ops: list[Op] = [controller_fence(image)]
        for partition, state in changes[start : start + MAX_STATES_IN_COMMIT]:
            path = znodes.partition_state_path(*partition)
            data = encode_state(state)
            ops.append(Create(path, data) if state.version == NO_VERSION else Set(path, data, state.version))
        yield ops


def _partitions(image: ClusterImage) -> Iterator[tuple[TopicState, PartitionState]]:
    """All but those whose state is damaged: a commit that cannot succeed would fail for its neighbours too."""
    for topic in image.topics.values():
        for state in topic.partitions:
            if state.version != UNKNOWN_VERSION:
                yield topic, state


def successor(
    state: PartitionState, living: Collection[int], allows_unclean: bool, stopping: Collection[int] = ()
) -> PartitionState:
    """The state that a partition should have: the one it has, or another with the next leader epoch."""
    staying = [replica for replica in state.replicas if replica in living and replica not in stopping]
    if state.leader in staying:
        return _without_dead(state, staying)
    candidates = [replica for replica in staying if replica in state.isr]
    if candidates:
        return _led(state, candidates[0], tuple(replica for replica in state.isr if replica in candidates))
    if state.leader in stopping:
        return state  # No other replica can take over: the broker leads until it is gone.
    if allows_unclean and staying:
        return _led(state, staying[0], (staying[0],))
    return state if state.leader == NO_LEADER else _led(state, NO_LEADER, state.isr)


def _without_dead(state: PartitionState, staying: Sequence[int]) -> PartitionState:
    """The leader would notice dead followers by itself, but until then acks=all waits for them."""
    isr = tuple(replica for replica in state.isr if replica in staying)
    return state if isr == state.isr else _led(state, state.leader, isr)


def _led(state: PartitionState, leader: int, isr: tuple[int, ...]) -> PartitionState:
    return state._replace(leader=leader, leader_epoch=state.leader_epoch + 1, isr=isr)
