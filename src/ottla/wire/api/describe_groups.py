"""DescribeGroups: the state and members of classic groups.

v3 adds authorized operations (KIP-430); v4 static ids (KIP-345); v5 is flexible; v6 reports unknown groups as an
error, with a message (KIP-1043).
"""

from ottla.wire.api import DESCRIBE_GROUPS
from ottla.wire.schema import Request, Response, Struct, array, binary, boolean, int16, int32, string


class DescribeGroupsRequest(Request, api=DESCRIBE_GROUPS):
    groups: list[str] = array(string())
    include_authorized_operations: bool = boolean(since=3)


class DescribedGroupMember(Struct):
    member_id: str = string()
    group_instance_id: str | None = string(since=4, nullable_since=0, default=None)
    client_id: str = string()
    client_host: str = string()
    member_metadata: bytes = binary()
    member_assignment: bytes = binary()


class DescribedGroup(Struct):
    error_code: int = int16()
    error_message: str | None = string(since=6, nullable_since=0, default=None)
    group_id: str = string()
    group_state: str = string()
    protocol_type: str = string()
    protocol_data: str = string()
    members: list[DescribedGroupMember] = array(DescribedGroupMember)
    authorized_operations: int = int32(since=3, default=-(2**31))


class DescribeGroupsResponse(Response, api=DESCRIBE_GROUPS):
    throttle_time_ms: int = int32(since=1)
    groups: list[DescribedGroup] = array(DescribedGroup)
