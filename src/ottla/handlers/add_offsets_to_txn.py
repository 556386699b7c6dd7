"""AddOffsetsToTxn (25), versions 0-4: announces that a transaction will commit offsets of a group.

The coordinator adds one partition to the transaction: the partition of `__consumer_offsets` that stores the group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.errors import KafkaError
from ottla.model import Producer
from ottla.txn.commands import PROTOCOL_1, AddPartitions
from ottla.txn.results import for_older_client
from ottla.wire.api.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

if TYPE_CHECKING:
    from ottla.errors import ErrorCode
    from ottla.handlers.context import Broker
    from ottla.handlers.exchange import Exchange

_FENCED_SINCE = 2


async def handle(broker: Broker, exchange: Exchange, request: AddOffsetsToTxnRequest) -> AddOffsetsToTxnResponse:
    error = await _add(broker, request)
    return AddOffsetsToTxnResponse(
        error_code=error if exchange.api_version >= _FENCED_SINCE else for_older_client(error)
    )


async def _add(broker: Broker, request: AddOffsetsToTxnRequest) -> ErrorCode:
    try:
        await broker.groups.locate(request.group_id)
        command = AddPartitions(
            request.transactional_id,
            Producer(request.producer_id, request.producer_epoch),
            [broker.groups.partition_of(request.group_id)],
            PROTOCOL_1,
        )
        return (await broker.transactions.add_partitions(command)).errors[0]
    except KafkaError as error:
        return error.code
