"""InitProducerId (22), versions 0-5: a new id for an idempotent producer, the id and epoch of a transactional producer.

Without a transactional id, the producer always gets a new id, and the id in the request is ignored. With one, the
coordinator bumps the epoch, which fences earlier producers, and aborts their open transaction. From version 3 on, a
producer can continue after an error (KIP-360). Version 4 has the error PRODUCER_FENCED.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.errors import ErrorCode, KafkaError
from ottla.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, Producer
from ottla.txn.commands import InitProducerId
from ottla.txn.results import for_older_client
from ottla.wire.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from ottla.handlers.context import Broker
    from ottla.handlers.exchange import Exchange

_FENCED_SINCE = 4


async def handle(broker: Broker, exchange: Exchange, request: InitProducerIdRequest) -> InitProducerIdResponse:
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        return _refuse(ErrorCode.INVALID_REQUEST)
    try:
        if request.transactional_id is None:
            return InitProducerIdResponse(producer_id=await broker.producer_ids.next(), producer_epoch=0)
        return await _init_transactional(broker, exchange, request, request.transactional_id)
    except KafkaError as error:
        return _refuse(error.code)


async def _init_transactional(
    broker: Broker, exchange: Exchange, request: InitProducerIdRequest, transactional_id: str
) -> InitProducerIdResponse:
    expected = None
    if request.producer_id != NO_PRODUCER_ID:
        expected = Producer(request.producer_id, request.producer_epoch)
    result = await broker.transactions.init_producer_id(
        InitProducerId(transactional_id, request.transaction_timeout_ms, expected)
    )
    error = result.error if exchange.api_version >= _FENCED_SINCE else for_older_client(result.error)
    return InitProducerIdResponse(
        error_code=error, producer_id=result.producer_id, producer_epoch=result.producer_epoch
    )


def _refuse(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH)
