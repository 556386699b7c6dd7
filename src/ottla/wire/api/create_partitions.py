"""CreatePartitions: add partitions to topics (KIP-195). v2 is flexible; v3 may be throttled (KIP-599)."""

from ottla.wire.api import CREATE_PARTITIONS
from ottla.wire.schema import Request, Response, Struct, array, boolean, int16, int32, string


class CreatePartitionsAssignment(Struct):
    broker_ids: list[int] = array(int32())


class CreatePartitionsTopic(Struct):
    name: str = string()
    count: int = int32()
    assignments: list[CreatePartitionsAssignment] | None = array(CreatePartitionsAssignment, nullable_since=0)


class CreatePartitionsRequest(Request, api=CREATE_PARTITIONS):
    topics: list[CreatePartitionsTopic] = array(CreatePartitionsTopic)
    timeout_ms: int = int32()
    validate_only: bool = boolean()


class CreatePartitionsTopicResult(Struct):
    name: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable_since=0, default=None)


class CreatePartitionsResponse(Response, api=CREATE_PARTITIONS):
    throttle_time_ms: int = int32()
    results: list[CreatePartitionsTopicResult] = array(CreatePartitionsTopicResult)
