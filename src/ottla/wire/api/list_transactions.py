"""ListTransactions: the transactional ids that a broker coordinates (KIP-664).

v1 filters by duration (KIP-994), v2 by a pattern for transactional ids (KIP-1152).
"""

from ottla.wire.api import LIST_TRANSACTIONS
from ottla.wire.schema import Request, Response, Struct, array, int16, int32, int64, string


class ListTransactionsRequest(Request, api=LIST_TRANSACTIONS):
    state_filters: list[str] = array(string())
    producer_id_filters: list[int] = array(int64())
    duration_filter: int = int64(since=1, default=-1)
    transactional_id_pattern: str | None = string(since=2, nullable_since=2, default=None)


class TransactionState(Struct):
    transactional_id: str = string()
    producer_id: int = int64()
    transaction_state: str = string()


class ListTransactionsResponse(Response, api=LIST_TRANSACTIONS):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    unknown_state_filters: list[str] = array(string())
    transaction_states: list[TransactionState] = array(TransactionState)
