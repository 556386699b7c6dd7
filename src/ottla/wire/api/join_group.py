"""JoinGroup: become a member of a classic group. The reply comes when all members have joined.

v1 separates the rebalance timeout from the session timeout (KIP-62); v4 makes a new member join twice, the second time
with the member id of the first reply (KIP-394); v5 adds static members (KIP-345); v6 is flexible; v7 returns the
protocol type (KIP-559); v8 takes a reason (KIP-800); v9 lets a leader skip the assignment (KIP-814).
"""

from ottla.wire.api import JOIN_GROUP
from ottla.wire.schema import Request, Response, Struct, array, binary, boolean, int16, int32, string


class JoinGroupRequestProtocol(Struct):
    name: str = string()
    metadata: bytes = binary()


class JoinGroupRequest(Request, api=JOIN_GROUP):
    group_id: str = string()
    session_timeout_ms: int = int32()
    rebalance_timeout_ms: int = int32(since=1, default=-1)
    member_id: str = string()
    group_instance_id: str | None = string(since=5, nullable_since=0, default=None)
    protocol_type: str = string()
    protocols: list[JoinGroupRequestProtocol] = array(JoinGroupRequestProtocol)
    reason: str | None = string(since=8, nullable_since=0, default=None)


class JoinGroupResponseMember(Struct):
    member_id: str = string()
    group_instance_id: str | None = string(since=5, nullable_since=0, default=None)
    metadata: bytes = binary()


class JoinGroupResponse(Response, api=JOIN_GROUP):
    throttle_time_ms: int = int32(since=2)
    error_code: int = int16()
    generation_id: int = int32(default=-1)
    protocol_type: str | None = string(since=7, nullable_since=0, default=None)
    protocol_name: str | None = string(nullable_since=7)
    leader: str = string()
    skip_assignment: bool = boolean(since=9)
    member_id: str = string()
    members: list[JoinGroupResponseMember] = array(JoinGroupResponseMember)
