"""AddOffsetsToTxn: a transaction will commit offsets of a group (KIP-98).

v2 may answer PRODUCER_FENCED; v3 is flexible; v4 may answer TRANSACTION_ABORTABLE (KIP-890). A client of transaction
protocol 2 does without it: its TxnOffsetCommit says the same.
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
