"""Heartbeat: a member of a classic group reports that it is alive. The reply tells whether the group is rebalancing.

v3 adds static members (KIP-345); v4 is flexible.
"""

from ottla.wire.api import HEARTBEAT
from ottla.wire.schema import Request, Response, int16, int32, string


class HeartbeatRequest(Request, api=HEARTBEAT):
    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string(since=3, nullable_since=0, default=None)


class HeartbeatResponse(Response, api=HEARTBEAT):
    throttle_time_ms: int = int32(since=1)
    error_code: int = int16()
