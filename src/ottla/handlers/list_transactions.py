"""ListTransactions (66), versions 0-2: the transactional ids that this broker coordinates (KIP-664)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.errors import KafkaError
from ottla.handlers.yielding import yielding
from ottla.txn.listing import TransactionFilter
from ottla.wire.api.list_transactions import ListTransactionsRequest, ListTransactionsResponse, TransactionState

if TYPE_CHECKING:
    from ottla.handlers.context import Broker
    from ottla.handlers.exchange import Exchange


async def handle(broker: Broker, exchange: Exchange, request: ListTransactionsRequest) -> ListTransactionsResponse:
    try:
        wanted = TransactionFilter(
            request.state_filters,
            request.producer_id_filters,
            request.duration_filter,
            request.transactional_id_pattern,
        )
        found = [it async for it in yielding(broker.clock, broker.transactions.list(wanted)) if it is not None]
    except KafkaError as error:
        return ListTransactionsResponse(error_code=error.code)
    return ListTransactionsResponse(
        unknown_state_filters=wanted.unknown_states,
        transaction_states=[
            TransactionState(
                transactional_id=transaction.transactional_id,
                producer_id=transaction.producer_id,
                transaction_state=transaction.state,
            )
            for transaction in found
        ],
    )
