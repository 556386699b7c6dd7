"""EndTxn (26), versions 0-5: commits or aborts a transaction. Version 5 also bumps the producer epoch (KIP-890)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.errors import KafkaError
from ottla.model import Producer
from ottla.txn.commands import PROTOCOL_1, PROTOCOL_2, EndTxn
from ottla.txn.results import for_older_client
from ottla.wire.api.end_txn import EndTxnRequest, EndTxnResponse

if TYPE_CHECKING:
    from ottla.handlers.context import Broker
    from ottla.handlers.exchange import Exchange

_FENCED_SINCE = 2
_EPOCH_BUMP_SINCE = 5


async def handle(broker: Broker, exchange: Exchange, request: EndTxnRequest) -> EndTxnResponse:
    command = EndTxn(
        request.transactional_id,
        Producer(request.producer_id, request.producer_epoch),
        request.committed,
        PROTOCOL_2 if exchange.api_version >= _EPOCH_BUMP_SINCE else PROTOCOL_1,
    )
    try:
        result = await broker.transactions.end_txn(command)
    except KafkaError as error:
        return EndTxnResponse(error_code=error.code)
    code = result.error if exchange.api_version >= _FENCED_SINCE else for_older_client(result.error)
    return EndTxnResponse(error_code=code, producer_id=result.producer_id, producer_epoch=result.producer_epoch)
