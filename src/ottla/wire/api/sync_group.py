"""SyncGroup: the leader of a classic group sends the assignments, and each member gets its own.

v3 adds static members (KIP-345); v4 is flexible; v5 repeats the protocol, to detect a mismatch (KIP-559).
"""

from ottla.wire.api import SYNC_GROUP
from ottla.wire.schema import Request, Response, Struct, array, binary, int16, int32, string


class SyncGroupRequestAssignment(Struct):
    member_id: str = string()
    assignment: bytes = binary()


class SyncGroupRequest(Request, api=SYNC_GROUP):
    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string(since=3, nullable_since=0, default=None)
    protocol_type: str | None = string(since=5, nullable_since=0, default=None)
    protocol_name: str | None = string(since=5, nullable_since=0, default=None)
    assignments: list[SyncGroupRequestAssignment] = array(SyncGroupRequestAssignment)


class SyncGroupResponse(Response, api=SYNC_GROUP):
    throttle_time_ms: int = int32(since=1)
    error_code: int = int16()
    protocol_type: str | None = string(since=5, nullable_since=0, default=None)
    protocol_name: str | None = string(since=5, nullable_since=0, default=None)
    assignment: bytes = binary()
