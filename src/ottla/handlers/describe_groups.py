"""DescribeGroups (15), versions 0-6: state, protocol and members. Version 6 says so when a group does not exist."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.errors import ErrorCode, KafkaError
from ottla.handlers.operations import NOT_ASKED, ON_GROUPS
from ottla.handlers.yielding import yielding
from ottla.wire.api.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

if TYPE_CHECKING:
    from ottla.handlers.context import Broker, Context


async def handle(broker: Broker, context: Context, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
    operations = ON_GROUPS if request.include_authorized_operations else NOT_ASKED
    wanted = yielding(broker.clock, dict.fromkeys(request.groups))
    return DescribeGroupsResponse(groups=[_describe(broker, context, group, operations) async for group in wanted])


def _describe(broker: Broker, context: Context, group_id: str, operations: int) -> DescribedGroup:
    try:
        found = broker.groups.describe(group_id)
    except KafkaError as error:
        return DescribedGroup(group_id=group_id, error_code=error.code, error_message=error.message)
    missing = found.error is ErrorCode.GROUP_ID_NOT_FOUND
    return DescribedGroup(
        error_code=ErrorCode.NONE if missing and context.api_version < 6 else found.error,
        error_message="The group does not exist." if missing else None,
        group_id=group_id,
        group_state=found.state,
        protocol_type=found.protocol_type,
        protocol_data=found.protocol_name,
        authorized_operations=operations,
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata,
                member_assignment=member.assignment,
            )
            for member in found.members
        ],
    )
