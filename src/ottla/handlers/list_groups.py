"""ListGroups (16), versions 0-5: all groups of this broker. Version 4 filters by state, 5 by type."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.errors import KafkaError
from ottla.handlers.yielding import yielding
from ottla.wire.api.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

if TYPE_CHECKING:
    from ottla.handlers.context import Broker
    from ottla.handlers.exchange import Exchange


async def handle(broker: Broker, exchange: Exchange, request: ListGroupsRequest) -> ListGroupsResponse:
    try:
        groups = broker.groups.list(request.states_filter, request.types_filter)
    except KafkaError as error:
        return ListGroupsResponse(error_code=error.code)
    return ListGroupsResponse(
        groups=[
            ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type,
                group_state=group.state,
                group_type=group.type,
            )
            async for group in yielding(broker.clock, groups)
        ]
    )
