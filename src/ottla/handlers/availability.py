"""Which replicas of a partition a client can reach, for Metadata and DescribeTopicPartitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ottla.cluster.znodes import NO_LEADER
from ottla.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Collection, Container

    from ottla.cluster.image import PartitionState


class Availability(NamedTuple):
    error_code: ErrorCode
    leader: int
    """NO_LEADER also if the client cannot reach the leader."""
    offline_replicas: list[int]


def availability(state: PartitionState, reachable: Container[int], alive: Collection[int]) -> Availability:
    """`reachable` are the brokers of `alive` that have an address for the client."""
    offline = [replica for replica in state.replicas if replica not in reachable]
    if state.leader in reachable:
        return Availability(ErrorCode.NONE, state.leader, offline)
    listener_is_missing = state.leader in alive
    code = ErrorCode.LISTENER_NOT_FOUND if listener_is_missing else ErrorCode.LEADER_NOT_AVAILABLE
    return Availability(code, NO_LEADER, offline)
