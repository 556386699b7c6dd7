"""ListOffsets: the offset for a timestamp. Negative timestamps ask for the start or the end of the log.

v2 adds isolation levels (KIP-98); v4 leader epochs (KIP-320); v5 may return OFFSET_NOT_AVAILABLE (KIP-207); v6 is
flexible. Later versions add special timestamps: v7 -3, the record with the highest timestamp (KIP-734); v8 -4,
the earliest offset on local disk (KIP-405); v9 -5, the latest tiered offset (KIP-1005); v11 -6, the earliest offset
still to be uploaded (KIP-1023). v10 adds a timeout, because remote storage may be slow (KIP-1075).
"""

from ottla.wire.api import LIST_OFFSETS
from ottla.wire.schema import Request, Response, Struct, array, int8, int16, int32, int64, string


class ListOffsetsPartition(Struct):
    partition_index: int = int32()
    current_leader_epoch: int = int32(since=4, default=-1)
    timestamp: int = int64()


class ListOffsetsTopic(Struct):
    name: str = string()
    partitions: list[ListOffsetsPartition] = array(ListOffsetsPartition)


class ListOffsetsRequest(Request, api=LIST_OFFSETS):
    replica_id: int = int32()
    isolation_level: int = int8(since=2)
    topics: list[ListOffsetsTopic] = array(ListOffsetsTopic)
    timeout_ms: int = int32(since=10)


class ListOffsetsPartitionResponse(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    timestamp: int = int64(default=-1)
    offset: int = int64(default=-1)
    leader_epoch: int = int32(since=4, default=-1)


class ListOffsetsTopicResponse(Struct):
    name: str = string()
    partitions: list[ListOffsetsPartitionResponse] = array(ListOffsetsPartitionResponse)


class ListOffsetsResponse(Response, api=LIST_OFFSETS):
    throttle_time_ms: int = int32(since=2)
    topics: list[ListOffsetsTopicResponse] = array(ListOffsetsTopicResponse)
