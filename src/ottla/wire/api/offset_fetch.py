"""OffsetFetch: the committed offsets of a group.

In v2, null means all topics, and the error of the group has a field of its own; v5 adds leader epochs (KIP-320); v6 is
flexible; v7 can wait for pending transactions (KIP-447); v8 takes many groups at once (KIP-709); v9 adds the member
and its epoch (KIP-848); v10 names topics by id.
"""

from ottla.model import TopicId
from ottla.wire.api import OFFSET_FETCH
from ottla.wire.schema import Request, Response, Struct, array, boolean, int16, int32, int64, string, uuid


class OffsetFetchRequestTopic(Struct):
    name: str = string()
    partition_indexes: list[int] = array(int32())


class OffsetFetchRequestTopics(Struct):
    name: str = string(until=9)
    topic_id: TopicId = uuid(since=10)
    partition_indexes: list[int] = array(int32())


class OffsetFetchRequestGroup(Struct):
    group_id: str = string()
    member_id: str | None = string(since=9, nullable_since=0, default=None)
    member_epoch: int = int32(since=9, default=-1)
    topics: list[OffsetFetchRequestTopics] | None = array(OffsetFetchRequestTopics, nullable_since=0)


class OffsetFetchRequest(Request, api=OFFSET_FETCH):
    group_id: str = string(until=7)
    topics: list[OffsetFetchRequestTopic] | None = array(OffsetFetchRequestTopic, until=7, nullable_since=2)
    groups: list[OffsetFetchRequestGroup] = array(OffsetFetchRequestGroup, since=8)
    require_stable: bool = boolean(since=7)


class OffsetFetchResponsePartition(Struct):
    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32(since=5, default=-1)
    metadata: str | None = string(nullable_since=0)
    error_code: int = int16()


class OffsetFetchResponseTopic(Struct):
    name: str = string()
    partitions: list[OffsetFetchResponsePartition] = array(OffsetFetchResponsePartition)


class OffsetFetchResponsePartitions(Struct):
    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32(default=-1)
    metadata: str | None = string(nullable_since=0)
    error_code: int = int16()


class OffsetFetchResponseTopics(Struct):
    name: str = string(until=9)
    topic_id: TopicId = uuid(since=10)
    partitions: list[OffsetFetchResponsePartitions] = array(OffsetFetchResponsePartitions)


class OffsetFetchResponseGroup(Struct):
    group_id: str = string()
    topics: list[OffsetFetchResponseTopics] = array(OffsetFetchResponseTopics)
    error_code: int = int16()


class OffsetFetchResponse(Response, api=OFFSET_FETCH):
    throttle_time_ms: int = int32(since=3)
    topics: list[OffsetFetchResponseTopic] = array(OffsetFetchResponseTopic, until=7)
    error_code: int = int16(since=2, until=7)
    groups: list[OffsetFetchResponseGroup] = array(OffsetFetchResponseGroup, since=8)
