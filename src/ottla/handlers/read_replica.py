"""Which replica a consumer should read from: one in its own rack, if the broker is set up to say so (KIP-392)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.handlers.context import Broker
    from ottla.replication.partition import Partition

RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
SELECTORS = (RACK_AWARE, "org.apache.kafka.common.replica.LeaderSelector")
"""Kafka's own; others would have to be loaded as Java classes."""


def selects_by_rack(broker: Broker, rack: str) -> bool:
    """Whether a consumer in this rack may be sent to another replica than the leader."""
    return bool(rack) and broker.config.get("replica.selector.class") == RACK_AWARE


def preferred_read_replica(broker: Broker, listener: str, rack: str, partition: Partition, offset: int) -> int | None:
    """The follower in the consumer's rack that has come furthest; None to read from the leader.

    Only one that is in sync and has the offset: another would send the consumer back, and that over and over again.
    """
    followers, brokers = partition.followers, broker.metadata.image.brokers
    leader = brokers.get(broker.id)
    if followers is None or leader is None or leader.rack == rack or not selects_by_rack(broker, rack):
        return None
    near = [
        replica
        for replica in followers.in_sync
        if (node := brokers.get(replica)) is not None
        and node.rack == rack
        and node.endpoint(listener) is not None
        and followers.has(replica, offset)
    ]
    return max(near, key=followers.progress, default=None)
