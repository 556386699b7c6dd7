"""AddOffsetsToTxn: announce that a transaction will commit offsets of a group (KIP-98).

v2 may return PRODUCER_FENCED; v3 is flexible; v4 may return TRANSACTION_ABORTABLE (KIP-890). A client with transaction
protocol 2 does not send it: its TxnOffsetCommit also adds the group.
"""

from ottla.wire.api import ADD_OFFSETS_TO_TXN
from ottla.wire.schema import Request, Response, int16, int32, int64, string


class AddOffsetsToTxnRequest(Request, api=ADD_OFFSETS_TO_TXN):
    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    group_id: str = string()


class AddOffsetsToTxnResponse(Response, api=ADD_OFFSETS_TO_TXN):
    throttle_time_ms: int = int32()
    error_code: int = int16()
