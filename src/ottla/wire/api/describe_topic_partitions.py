"""DescribeTopicPartitions: partitions of topics, page by page, with their eligible leaders (KIP-966)."""

from ottla.model import TopicId
from ottla.wire.api import DESCRIBE_TOPIC_PARTITIONS
from ottla.wire.schema import Request, Response, Struct, array, boolean, int16, int32, nullable_struct, string, uuid


class TopicRequest(Struct):
    name: str = string()


class Cursor(Struct):
    topic_name: str = string()
    partition_index: int = int32()


class DescribeTopicPartitionsRequest(Request, api=DESCRIBE_TOPIC_PARTITIONS):
    topics: list[TopicRequest] = array(TopicRequest)
    response_partition_limit: int = int32(default=2000)
    cursor: Cursor | None = nullable_struct(Cursor)


class DescribeTopicPartitionsResponsePartition(Struct):
    error_code: int = int16()
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32(default=-1)
    replica_nodes: list[int] = array(int32())
    isr_nodes: list[int] = array(int32())
    eligible_leader_replicas: list[int] | None = array(int32(), nullable_since=0, default=None)
    last_known_elr: list[int] | None = array(int32(), nullable_since=0, default=None)
    offline_replicas: list[int] = array(int32())


class DescribeTopicPartitionsResponseTopic(Struct):
    error_code: int = int16()
    name: str | None = string(nullable_since=0)
    topic_id: TopicId = uuid()
    is_internal: bool = boolean()
    partitions: list[DescribeTopicPartitionsResponsePartition] = array(DescribeTopicPartitionsResponsePartition)
    topic_authorized_operations: int = int32(default=-(2**31))


class DescribeTopicPartitionsResponse(Response, api=DESCRIBE_TOPIC_PARTITIONS):
    throttle_time_ms: int = int32()
    topics: list[DescribeTopicPartitionsResponseTopic] = array(DescribeTopicPartitionsResponseTopic)
    next_cursor: Cursor | None = nullable_struct(Cursor)
