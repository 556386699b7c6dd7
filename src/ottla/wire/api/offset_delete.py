"""OffsetDelete: delete a group's offsets for topics it does not consume (KIP-496). Never became flexible."""

from ottla.wire.api import OFFSET_DELETE
from ottla.wire.schema import Request, Response, Struct, array, int16, int32, string


class OffsetDeleteRequestPartition(Struct):
    partition_index: int = int32()


class OffsetDeleteRequestTopic(Struct):
    name: str = string()
    partitions: list[OffsetDeleteRequestPartition] = array(OffsetDeleteRequestPartition)


class OffsetDeleteRequest(Request, api=OFFSET_DELETE):
    group_id: str = string()
    topics: list[OffsetDeleteRequestTopic] = array(OffsetDeleteRequestTopic)


class OffsetDeleteResponsePartition(Struct):
    partition_index: int = int32()
    error_code: int = int16()


class OffsetDeleteResponseTopic(Struct):
    name: str = string()
    partitions: list[OffsetDeleteResponsePartition] = array(OffsetDeleteResponsePartition)


class OffsetDeleteResponse(Response, api=OFFSET_DELETE):
    error_code: int = int16()
    throttle_time_ms: int = int32()
    topics: list[OffsetDeleteResponseTopic] = array(OffsetDeleteResponseTopic)
