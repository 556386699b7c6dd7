"""OffsetCommit: commit the offsets of a group.

v2 to v4 let the client choose the retention of offsets; v6 adds leader epochs (KIP-320); v7 static members (KIP-345);
v8 is flexible; v9 supports the consumer group protocol, with a member epoch in place of the generation (KIP-848); v10
names topics by id.
"""

from ottla.model import TopicId
from ottla.wire.api import OFFSET_COMMIT
from ottla.wire.schema import Request, Response, Struct, array, int16, int32, int64, string, uuid


class OffsetCommitRequestPartition(Struct):
    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32(since=6, default=-1)
    committed_metadata: str | None = string(nullable_since=0)


class OffsetCommitRequestTopic(Struct):
    name: str = string(until=9)
    topic_id: TopicId = uuid(since=10)
    partitions: list[OffsetCommitRequestPartition] = array(OffsetCommitRequestPartition)


class OffsetCommitRequest(Request, api=OFFSET_COMMIT):
    group_id: str = string()
    generation_id_or_member_epoch: int = int32(default=-1)
    member_id: str = string()
    group_instance_id: str | None = string(since=7, nullable_since=0, default=None)
    retention_time_ms: int = int64(until=4, default=-1)
    topics: list[OffsetCommitRequestTopic] = array(OffsetCommitRequestTopic)


class OffsetCommitResponsePartition(Struct):
    partition_index: int = int32()
    error_code: int = int16()


class OffsetCommitResponseTopic(Struct):
    name: str = string(until=9)
    topic_id: TopicId = uuid(since=10)
    partitions: list[OffsetCommitResponsePartition] = array(OffsetCommitResponsePartition)


class OffsetCommitResponse(Response, api=OFFSET_COMMIT):
    throttle_time_ms: int = int32(since=3)
    topics: list[OffsetCommitResponseTopic] = array(OffsetCommitResponseTopic)
