"""SyncGroup (14), versions 0-5: the leader sends the assignments, and every member gets its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.errors import ErrorCode, KafkaError
from ottla.groups.commands import Sync
from ottla.wire.api.sync_group import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    import asyncio

    from ottla.groups.results import SyncResult
    from ottla.handlers.context import Broker
    from ottla.handlers.exchange import Exchange, Reply


def handle(broker: Broker, exchange: Exchange, request: SyncGroupRequest) -> Reply:
    if exchange.api_version >= 5 and (request.protocol_type is None or request.protocol_name is None):
        return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    command = Sync(
        group_id=request.group_id,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        generation_id=request.generation_id,
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignments={entry.member_id: entry.assignment for entry in request.assignments},
    )
    try:
        waiting = broker.groups.sync(command)
    except KafkaError as error:
        return SyncGroupResponse(error_code=error.code)
    return _answer(waiting)


async def _answer(waiting: asyncio.Future[SyncResult]) -> SyncGroupResponse:
    """A separate function, so that the request does not stay in memory while the member waits for the leader."""
    try:
        result = await waiting
    except KafkaError as error:
        return SyncGroupResponse(error_code=error.code)
    return SyncGroupResponse(
        error_code=result.error,
        protocol_type=result.protocol_type,
        protocol_name=result.protocol_name,
        assignment=result.assignment,
    )
