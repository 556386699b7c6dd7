"""EndTxn: commit or abort a transaction (KIP-98).

v2 may return PRODUCER_FENCED; v3 is flexible; v4 may return TRANSACTION_ABORTABLE; v5 is transaction protocol 2: each
end increments the producer's epoch, and the reply has the producer's next id and epoch (both KIP-890).
"""

from ottla.wire.api import END_TXN
from ottla.wire.schema import Request, Response, boolean, int16, int32, int64, string


class EndTxnRequest(Request, api=END_TXN):
    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    committed: bool = boolean()


class EndTxnResponse(Response, api=END_TXN):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    producer_id: int = int64(since=5, default=-1)
    producer_epoch: int = int16(since=5, default=-1)
