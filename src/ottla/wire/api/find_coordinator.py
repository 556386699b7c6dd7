"""FindCoordinator: the broker that coordinates a group or a transactional id.

v1 adds a key type for transactional ids; v3 is flexible; v4 looks up many keys at once (KIP-699); v5 may return
TRANSACTION_ABORTABLE (KIP-890); v6 adds share groups (KIP-932).
"""

from ottla.wire.api import FIND_COORDINATOR
from ottla.wire.schema import Request, Response, Struct, array, int8, int16, int32, string


class FindCoordinatorRequest(Request, api=FIND_COORDINATOR):
    key: str = string(until=3)
    key_type: int = int8(since=1)
    coordinator_keys: list[str] = array(string(), since=4)


class Coordinator(Struct):
    key: str = string()
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable_since=0, default=None)


class FindCoordinatorResponse(Response, api=FIND_COORDINATOR):
    throttle_time_ms: int = int32(since=1)
    error_code: int = int16(until=3)
    error_message: str | None = string(since=1, until=3, nullable_since=0, default=None)
    node_id: int = int32(until=3)
    host: str = string(until=3)
    port: int = int32(until=3)
    coordinators: list[Coordinator] = array(Coordinator, since=4)
