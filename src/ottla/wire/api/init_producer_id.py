"""InitProducerId: get an id for an idempotent or transactional producer (KIP-98).

v2 is flexible; v3 lets a failed producer continue with a new epoch (KIP-360); v4 may return PRODUCER_FENCED; v5 may
return TRANSACTION_ABORTABLE (KIP-890). Kafka has an unstable v6 for two-phase commit (KIP-939).
"""

from ottla.wire.api import INIT_PRODUCER_ID
from ottla.wire.schema import Request, Response, int16, int32, int64, string


class InitProducerIdRequest(Request, api=INIT_PRODUCER_ID):
    transactional_id: str | None = string(nullable_since=0)
    transaction_timeout_ms: int = int32()
    producer_id: int = int64(since=3, default=-1)
    producer_epoch: int = int16(since=3, default=-1)


class InitProducerIdResponse(Response, api=INIT_PRODUCER_ID):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    producer_id: int = int64(default=-1)
    producer_epoch: int = int16()
