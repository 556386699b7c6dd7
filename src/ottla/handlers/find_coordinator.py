"""FindCoordinator (10), versions 0-6: the broker that coordinates a group or a transactional id.

The first request creates `__consumer_offsets` or `__transaction_state`. Version 4 has several keys (KIP-699).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.errors import ErrorCode, KafkaError
from ottla.handlers.endpoints import endpoint
from ottla.handlers.yielding import yielding
from ottla.wire.api.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

if TYPE_CHECKING:
    from ottla.handlers.context import Broker
    from ottla.handlers.exchange import Exchange

_GROUP = 0
_TRANSACTION = 1


async def handle(broker: Broker, exchange: Exchange, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    if exchange.api_version >= 4:
        keys = dict.fromkeys(request.coordinator_keys)
        return FindCoordinatorResponse(
            coordinators=[
                await _find(broker, exchange, request.key_type, key) async for key in yielding(broker.clock, keys)
            ]
        )
    found = await _find(broker, exchange, request.key_type, request.key)
    return FindCoordinatorResponse(
        error_code=found.error_code,
        error_message=found.error_message,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


async def _find(broker: Broker, exchange: Exchange, key_type: int, key: str) -> Coordinator:
    try:
        if key_type == _GROUP:
            leader = await broker.groups.locate(key)
        elif key_type == _TRANSACTION:
            leader = await broker.transactions.locate(key)
        else:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"unsupported coordinator type {key_type}")
        node = endpoint(broker, exchange, leader)
        if node is None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"broker {leader} has no address for this listener")
    except KafkaError as error:
        return Coordinator(key=key, node_id=-1, port=-1, error_code=error.code, error_message=error.message)
    return Coordinator(key=key, node_id=node.id, host=node.host, port=node.port, error_message=None)
