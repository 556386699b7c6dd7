"""LeaveGroup: members leave a classic group at once instead of timing out.

v3 removes several members, also by their static ids (KIP-345); v4 is flexible; v5 takes reasons (KIP-800).
"""

from ottla.wire.api import LEAVE_GROUP
from ottla.wire.schema import Request, Response, Struct, array, int16, int32, string


class MemberIdentity(Struct):
    member_id: str = string()
    group_instance_id: str | None = string(nullable_since=0, default=None)
    reason: str | None = string(since=5, nullable_since=0, default=None)


class LeaveGroupRequest(Request, api=LEAVE_GROUP):
    group_id: str = string()
    member_id: str = string(until=2)
    members: list[MemberIdentity] = array(MemberIdentity, since=3)


class MemberResponse(Struct):
    member_id: str = string()
    group_instance_id: str | None = string(nullable_since=0)
    error_code: int = int16()


class LeaveGroupResponse(Response, api=LEAVE_GROUP):
    throttle_time_ms: int = int32(since=1)
    error_code: int = int16()
    members: list[MemberResponse] = array(MemberResponse, since=3)
