"""JoinGroup (11), versions 0-9: joins a group or its next generation. The reply waits until all members have joined.

From version 4 on, a new member gets its id first and joins again (KIP-394). Version 5 has static members (KIP-345).
In version 9, a static leader that restarts can skip the assignment (KIP-814).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.errors import ErrorCode, KafkaError
from ottla.groups.commands import Join, Protocol
from ottla.wire.api.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember

if TYPE_CHECKING:
    from ottla.groups.results import JoinResult
    from ottla.handlers.context import Broker
    from ottla.handlers.exchange import Exchange


_MAX_NAME = 32_000
"""A member id begins with the instance id or client id, and must fit into a string of the protocol."""


async def handle(broker: Broker, exchange: Exchange, request: JoinGroupRequest) -> JoinGroupResponse:
    version = exchange.api_version
    if len((request.group_instance_id or exchange.client_id or "").encode()) > _MAX_NAME:
        return JoinGroupResponse(error_code=ErrorCode.INVALID_REQUEST, member_id=request.member_id)
    command = Join(
        group_id=request.group_id,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        client_id=exchange.client_id or "",
        client_host=f"/{exchange.peer.host}",
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=request.rebalance_timeout_ms if version >= 1 else request.session_timeout_ms,
        protocol_type=request.protocol_type,
        protocols=tuple(Protocol(p.name, p.metadata) for p in request.protocols),
        reason=request.reason or "",
        require_known_member_id=version >= 4,
        supports_skip_assignment=version >= 9,
    )
    try:
        result = await broker.groups.join(command)
    except KafkaError as error:
        return JoinGroupResponse(error_code=error.code, member_id=request.member_id)
    return _response(result, version)


def _response(result: JoinResult, version: int) -> JoinGroupResponse:
    # The field is nullable only from version 7 on.
    name = result.protocol_name if version >= 7 else result.protocol_name or ""
    return JoinGroupResponse(
        error_code=result.error,
        generation_id=result.generation_id,
        protocol_type=result.protocol_type,
        protocol_name=name,
        leader=result.leader,
        skip_assignment=result.skip_assignment,
        member_id=result.member_id,
        members=[
            JoinGroupResponseMember(
                member_id=member.member_id, group_instance_id=member.group_instance_id, metadata=member.metadata
            )
            for member in result.members
        ],
    )
