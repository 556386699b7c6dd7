"""AlterPartitionReassignments: assign other replicas to partitions (KIP-455). Null replicas cancel a reassignment.

v1 lets a client require that the number of replicas stays the same (KIP-860).
"""

from ottla.wire.api import ALTER_PARTITION_REASSIGNMENTS
from ottla.wire.schema import Request, Response, Struct, array, boolean, int16, int32, string


class ReassignablePartition(Struct):
    partition_index: int = int32()
    replicas: list[int] | None = array(int32(), nullable_since=0, default=None)


class ReassignableTopic(Struct):
    name: str = string()
    partitions: list[ReassignablePartition] = array(ReassignablePartition)


class AlterPartitionReassignmentsRequest(Request, api=ALTER_PARTITION_REASSIGNMENTS):
    timeout_ms: int = int32(default=60_000)
    allow_replication_factor_change: bool = boolean(since=1, default=True)
    topics: list[ReassignableTopic] = array(ReassignableTopic)


class ReassignablePartitionResponse(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable_since=0, default=None)


class ReassignableTopicResponse(Struct):
    name: str = string()
    partitions: list[ReassignablePartitionResponse] = array(ReassignablePartitionResponse)


class AlterPartitionReassignmentsResponse(Response, api=ALTER_PARTITION_REASSIGNMENTS):
    throttle_time_ms: int = int32()
    allow_replication_factor_change: bool = boolean(since=1, default=True)
    error_code: int = int16()
    error_message: str | None = string(nullable_since=0, default=None)
    responses: list[ReassignableTopicResponse] = array(ReassignableTopicResponse)
