"""ListGroups: the groups that this broker coordinates.

v3 is flexible; v4 filters by state (KIP-518) and v5 by type (KIP-848).
"""

from ottla.wire.api import LIST_GROUPS
from ottla.wire.schema import Request, Response, Struct, array, int16, int32, string


class ListGroupsRequest(Request, api=LIST_GROUPS):
    states_filter: list[str] = array(string(), since=4)
    types_filter: list[str] = array(string(), since=5)


class ListedGroup(Struct):
    group_id: str = string()
    protocol_type: str = string()
    group_state: str = string(since=4)
    group_type: str = string(since=5)


class ListGroupsResponse(Response, api=LIST_GROUPS):
    throttle_time_ms: int = int32(since=1)
    error_code: int = int16()
    groups: list[ListedGroup] = array(ListedGroup)
