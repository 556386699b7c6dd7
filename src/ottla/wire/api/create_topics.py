"""CreateTopics: create topics with a number of partitions or with given replicas.

v4 takes -1 for the broker's default partitions and replication factor (KIP-464); v5 is flexible and returns the
topic's configs (KIP-525); v6 may be throttled (KIP-599); v7 returns the topic id (KIP-516).
"""

from ottla.model import TopicId
from ottla.wire.api import CREATE_TOPICS
from ottla.wire.schema import Request, Response, Struct, array, boolean, int8, int16, int32, string, uuid


class CreatableReplicaAssignment(Struct):
    partition_index: int = int32()
    broker_ids: list[int] = array(int32())


class CreatableTopicConfig(Struct):
    name: str = string()
    value: str | None = string(nullable_since=0)


class CreatableTopic(Struct):
    name: str = string()
    num_partitions: int = int32()
    replication_factor: int = int16()
    assignments: list[CreatableReplicaAssignment] = array(CreatableReplicaAssignment)
    configs: list[CreatableTopicConfig] = array(CreatableTopicConfig)


class CreateTopicsRequest(Request, api=CREATE_TOPICS):
    topics: list[CreatableTopic] = array(CreatableTopic)
    timeout_ms: int = int32(default=60_000)
    validate_only: bool = boolean()


class CreatableTopicConfigs(Struct):
    name: str = string()
    value: str | None = string(nullable_since=0)
    read_only: bool = boolean()
    config_source: int = int8(default=-1)
    is_sensitive: bool = boolean()


class CreatableTopicResult(Struct):
    name: str = string()
    topic_id: TopicId = uuid(since=7)
    error_code: int = int16()
    error_message: str | None = string(nullable_since=0, default=None)
    topic_config_error_code: int = int16(since=5, tag=0)
    num_partitions: int = int32(since=5, default=-1)
    replication_factor: int = int16(since=5, default=-1)
    configs: list[CreatableTopicConfigs] | None = array(CreatableTopicConfigs, since=5, nullable_since=0)


class CreateTopicsResponse(Response, api=CREATE_TOPICS):
    throttle_time_ms: int = int32()
    topics: list[CreatableTopicResult] = array(CreatableTopicResult)
