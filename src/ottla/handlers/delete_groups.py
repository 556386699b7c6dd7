"""DeleteGroups (42), versions 0-2: deletes groups without members, with all their offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.errors import KafkaError
from ottla.handlers.yielding import yielding
from ottla.wire.api.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse

if TYPE_CHECKING:
    from ottla.errors import ErrorCode
    from ottla.handlers.context import Broker
    from ottla.handlers.exchange import Exchange


async def handle(broker: Broker, exchange: Exchange, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(
        results=[
            DeletableGroupResult(group_id=group_id, error_code=await _delete(broker, group_id))
            async for group_id in yielding(broker.clock, dict.fromkeys(request.groups_names))
        ]
    )


async def _delete(broker: Broker, group_id: str) -> ErrorCode:
    try:
        return await broker.groups.delete(group_id)
    except KafkaError as error:
        return error.code
