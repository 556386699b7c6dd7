"""The results of commands, as plain data. Handlers translate them into responses of the request's version."""

from typing import NamedTuple, TypeAlias

from ottla.errors import ErrorCode
from ottla.groups.commands import NO_GENERATION, UNKNOWN_MEMBER


class JoinedMember(NamedTuple):
    """A member in the reply to the leader, which assigns the partitions."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


class JoinResult(NamedTuple):
    error: ErrorCode
    member_id: str
    generation_id: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()

    def failed(self, error: ErrorCode) -> "JoinResult":
        return JoinResult(error, UNKNOWN_MEMBER)


class SyncResult(NamedTuple):
    error: ErrorCode
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""

    def failed(self, error: ErrorCode) -> "SyncResult":
        return SyncResult(error)


class LeftMember(NamedTuple):
    member_id: str
    group_instance_id: str | None
    error: ErrorCode


class LeaveResult(NamedTuple):
    error: ErrorCode
    members: tuple[LeftMember, ...] = ()

    def failed(self, error: ErrorCode) -> "LeaveResult":
        return LeaveResult(error)


class CommitResult(NamedTuple):
    errors: tuple[ErrorCode, ...]
    """One for each partition of the command, in its order."""

    def failed(self, error: ErrorCode) -> "CommitResult":
        return CommitResult((error,) * len(self.errors))


class DeleteOffsetsResult(NamedTuple):
    error: ErrorCode
    errors: tuple[ErrorCode, ...] = ()
    """One for each partition of the command, in its order. Empty if the command failed as a whole."""

    def failed(self, error: ErrorCode) -> "DeleteOffsetsResult":
        return DeleteOffsetsResult(error)


class DeleteGroupsResult(NamedTuple):
    errors: tuple[ErrorCode, ...]
    """One for each group of the command, in its order."""

    def failed(self, error: ErrorCode) -> "DeleteGroupsResult":
        return DeleteGroupsResult((error,) * len(self.errors))


Result: TypeAlias = JoinResult | SyncResult | LeaveResult | CommitResult | DeleteOffsetsResult | DeleteGroupsResult


class DescribedMember(NamedTuple):
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    """The subscription under the chosen protocol; empty unless the group is stable."""
    assignment: bytes


class DescribedGroup(NamedTuple):
    error: ErrorCode
    """GROUP_ID_NOT_FOUND is sent from DescribeGroups 6 on. Older versions get a Dead group without an error."""
    group_id: str
    state: str
    protocol_type: str = ""
    protocol_name: str = ""
    members: tuple[DescribedMember, ...] = ()


class ListedGroup(NamedTuple):
    group_id: str
    protocol_type: str
    state: str
    type: str
