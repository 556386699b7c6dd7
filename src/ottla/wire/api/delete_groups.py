"""DeleteGroups: delete empty groups and their offsets (KIP-229). v2 is flexible."""

from ottla.wire.api import DELETE_GROUPS
from ottla.wire.schema import Request, Response, Struct, array, int16, int32, string


class DeleteGroupsRequest(Request, api=DELETE_GROUPS):
    groups_names: list[str] = array(string())


class DeletableGroupResult(Struct):
    group_id: str = string()
    error_code: int = int16()


class DeleteGroupsResponse(Response, api=DELETE_GROUPS):
    throttle_time_ms: int = int32()
    results: list[DeletableGroupResult] = array(DeletableGroupResult)
