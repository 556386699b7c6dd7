"""InitProducerId (22), versions 0-5: a new producer id for an idempotent producer.

Without a transactional id there is nothing to go on with, so an id that the client already has is not looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.errors import ErrorCode, KafkaError
from ottla.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from ottla.wire.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from ottla.handlers.context import Broker, Context, Reply


def handle(broker: Broker, context: Context, request: InitProducerIdRequest) -> Reply:
    if request.transactional_id is not None:
        return _refuse(ErrorCode.INVALID_REQUEST)
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        return _refuse(ErrorCode.INVALID_REQUEST)
    return _new_id(broker)


async def _new_id(broker: Broker) -> InitProducerIdResponse:
    try:
        return InitProducerIdResponse(producer_id=await broker.producer_ids.next(), producer_epoch=0)
    except KafkaError as error:
        return _refuse(error.code)


def _refuse(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH)
