"""The metadata of a cluster: its brokers, and the leaders of its partitions. Immutable."""

from collections.abc import Mapping
from dataclasses import dataclass

from ottla.env.network import Address
from ottla.errors import ErrorCode
from ottla.model import TopicId, TopicPartition
from ottla.wire.api.metadata import MetadataResponse, MetadataResponseTopic

NO_LEADER = -1


@dataclass(frozen=True, slots=True)
class Leader:
    node_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Topic:
    name: str
    topic_id: TopicId
    internal: bool
    leaders: Mapping[int, Leader]
    """By partition. A partition that has no leader now has `NO_LEADER`."""


@dataclass(frozen=True, slots=True)
class ClusterMetadata:
    brokers: Mapping[int, Address]
    topics: Mapping[str, Topic]
    errors: Mapping[str, int]
    """The error code of each requested topic that the broker could not describe."""

    def leader(self, topic_partition: TopicPartition) -> Leader | None:
        """The leader of the partition. None if there is none, or if the partition is unknown."""
        topic = self.topics.get(topic_partition.topic)
        leader = topic.leaders.get(topic_partition.partition) if topic else None
        return leader if leader is not None and leader.node_id in self.brokers else None

    def partitions(self) -> list[TopicPartition]:
        """The partitions of all topics, sorted."""
        return sorted(TopicPartition(topic.name, index) for topic in self.topics.values() for index in topic.leaders)


def cluster_metadata(response: MetadataResponse) -> ClusterMetadata:
    known = [topic for topic in response.topics if topic.name is not None]
    return ClusterMetadata(
        {broker.node_id: Address(broker.host, broker.port) for broker in response.brokers},
        {topic.name or "": _topic(topic) for topic in known if topic.error_code == ErrorCode.NONE},
        {topic.name or "": topic.error_code for topic in known if topic.error_code != ErrorCode.NONE},
    )


def _topic(topic: MetadataResponseTopic) -> Topic:
    leaders = {entry.partition_index: Leader(entry.leader_id, entry.leader_epoch) for entry in topic.partitions}
    return Topic(topic.name or "", topic.topic_id, topic.is_internal, leaders)
