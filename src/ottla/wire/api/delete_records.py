"""DeleteRecords: move the start of a partition's log forward (KIP-107). v2 is flexible."""

from ottla.wire.api import DELETE_RECORDS
from ottla.wire.schema import Request, Response, Struct, array, int16, int32, int64, string


class DeleteRecordsPartition(Struct):
    partition_index: int = int32()
    offset: int = int64()


class DeleteRecordsTopic(Struct):
    name: str = string()
    partitions: list[DeleteRecordsPartition] = array(DeleteRecordsPartition)


class DeleteRecordsRequest(Request, api=DELETE_RECORDS):
    topics: list[DeleteRecordsTopic] = array(DeleteRecordsTopic)
    timeout_ms: int = int32()


class DeleteRecordsPartitionResult(Struct):
    partition_index: int = int32()
    low_watermark: int = int64()
    error_code: int = int16()


class DeleteRecordsTopicResult(Struct):
    name: str = string()
    partitions: list[DeleteRecordsPartitionResult] = array(DeleteRecordsPartitionResult)


class DeleteRecordsResponse(Response, api=DELETE_RECORDS):
    throttle_time_ms: int = int32()
    topics: list[DeleteRecordsTopicResult] = array(DeleteRecordsTopicResult)
