"""DescribeGroups (15), versions 0-6: state, protocol and members. Version 6 has an error for missing groups."""

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
    from ottla.handlers.context import Broker
    from ottla.handlers.exchange import Exchange


_MAX_SHOWN = 1000
"""The most characters of a group id in an error message, which must fit into a string of the protocol."""

_MAX_REPEATED_BYTES = 8 << 20
"""Bounds the reply. As in Kafka, a group is described as often as the request has it."""


async def handle(broker: Broker, exchange: Exchange, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
    operations = ON_GROUPS if request.include_authorized_operations else NOT_ASKED
    described: dict[str, DescribedGroup] = {}
    answers = []
    repeated = 0
    async for group_id in yielding(broker.clock, request.groups):
        answer = described.get(group_id)
        if answer is None:
            answer = described[group_id] = _describe(broker, exchange, group_id, operations)
        elif (repeated := repeated + _size(answer)) > _MAX_REPEATED_BYTES:
            answer = DescribedGroup(group_id=group_id, error_code=ErrorCode.INVALID_REQUEST)
        answers.append(answer)
    return DescribeGroupsResponse(groups=answers)


def _size(group: DescribedGroup) -> int:
    """The approximate size of a description in bytes."""
    return 200 + sum(400 + len(member.member_metadata) + len(member.member_assignment) for member in group.members)


def _describe(broker: Broker, exchange: Exchange, group_id: str, operations: int) -> DescribedGroup:
    try:
        found = broker.groups.describe(group_id)
    except KafkaError as error:
        return DescribedGroup(group_id=group_id, error_code=error.code)
    if found.error is ErrorCode.GROUP_ID_NOT_FOUND and exchange.api_version >= 6:
        return DescribedGroup(
            group_id=group_id,
            error_code=found.error,
            error_message=f"Group {group_id[:_MAX_SHOWN]} not found.",
            group_state=found.state,
        )
    return DescribedGroup(
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
