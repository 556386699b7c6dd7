"""ConsumerGroupHeartbeat: the one request with which a member of a KIP-848 group joins, stays and leaves.

v1 adds subscriptions by a regular expression that the broker evaluates.
"""

from ottla.model import TopicId
from ottla.wire.api import CONSUMER_GROUP_HEARTBEAT
from ottla.wire.schema import Request, Response, Struct, array, int16, int32, nullable_struct, string, uuid


class ConsumerGroupHeartbeatTopicPartitions(Struct):
    topic_id: TopicId = uuid()
    partitions: list[int] = array(int32())


class ConsumerGroupHeartbeatRequest(Request, api=CONSUMER_GROUP_HEARTBEAT):
    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    instance_id: str | None = string(nullable_since=0, default=None)
    rack_id: str | None = string(nullable_since=0, default=None)
    rebalance_timeout_ms: int = int32(default=-1)
    subscribed_topic_names: list[str] | None = array(string(), nullable_since=0, default=None)
    subscribed_topic_regex: str | None = string(since=1, nullable_since=1, default=None)
    server_assignor: str | None = string(nullable_since=0, default=None)
    topic_partitions: list[ConsumerGroupHeartbeatTopicPartitions] | None = array(
        ConsumerGroupHeartbeatTopicPartitions, nullable_since=0, default=None
    )


class ConsumerGroupHeartbeatAssignment(Struct):
    topic_partitions: list[ConsumerGroupHeartbeatTopicPartitions] = array(ConsumerGroupHeartbeatTopicPartitions)


class ConsumerGroupHeartbeatResponse(Response, api=CONSUMER_GROUP_HEARTBEAT):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable_since=0, default=None)
    member_id: str | None = string(nullable_since=0, default=None)
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    assignment: ConsumerGroupHeartbeatAssignment | None = nullable_struct(ConsumerGroupHeartbeatAssignment)
