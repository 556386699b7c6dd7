"""LeaveGroup (13), versions 0-5: removes members. From version 3 on, several at once, also static ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.errors import ErrorCode, KafkaError
from ottla.groups.commands import LeavingMember
from ottla.wire.api.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse

if TYPE_CHECKING:
    from ottla.handlers.context import Broker
    from ottla.handlers.exchange import Exchange


async def handle(broker: Broker, exchange: Exchange, request: LeaveGroupRequest) -> LeaveGroupResponse:
    several = exchange.api_version >= 3
    if several:
        members = [LeavingMember(m.member_id, m.group_instance_id, m.reason) for m in request.members]
    else:
        members = [LeavingMember(request.member_id)]
    try:
        result = await broker.groups.leave(request.group_id, members)
    except KafkaError as error:
        return LeaveGroupResponse(error_code=error.code)
    if not several:
        code = result.members[0].error if result.error is ErrorCode.NONE and result.members else result.error
        return LeaveGroupResponse(error_code=code)
    return LeaveGroupResponse(
        error_code=result.error,
        members=[
            MemberResponse(member_id=m.member_id, group_instance_id=m.group_instance_id, error_code=m.error)
            for m in result.members
        ],
    )
