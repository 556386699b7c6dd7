"""Membership of classic groups: JoinGroup, SyncGroup, Heartbeat and LeaveGroup."""

from collections.abc import Callable, Sequence

from ottla.coordinator_core.effects import Now, Token, response_error
from ottla.errors import ErrorCode
from ottla.groups.commands import UNKNOWN_MEMBER, Join, LeavingMember, Sync
from ottla.groups.effects import Outcome
from ottla.groups.group import ClassicGroup, Member
from ottla.groups.memory import MemberMemory
from ottla.groups.parameters import NEW_MEMBER_JOIN_TIMEOUT_MS, GroupParameters
from ottla.groups.rebalance import Rebalance, dismiss, joined, session_timer
from ottla.groups.records import GroupStored
from ottla.groups.results import JoinResult, LeaveResult, LeftMember, SyncResult
from ottla.groups.state import COMPLETING_REBALANCE, EMPTY, PREPARING_REBALANCE, STABLE


class ClassicMembership:
    def __init__(
        self,
        groups: dict[str, ClassicGroup],
        rebalance: Rebalance,
        parameters: GroupParameters,
        new_uuid: Callable[[], str],
        memory: MemberMemory,
    ) -> None:
        self._groups = groups
        self._rebalance = rebalance
        self._parameters = parameters
        self._new_uuid = new_uuid
        self._memory = memory

    def join(self, token: Token, join: Join, now: Now, out: Outcome) -> None:
        group = self._groups.get(join.group_id)
        error = self._check_join(group, join)
        if error is not ErrorCode.NONE:
            out.reply(token, JoinResult(error, join.member_id))
        elif not self._memory.has_room(_added_bytes(group, join)):
            # Of the errors that clients know, only this one says that the broker has no room for the member.
            out.reply(token, JoinResult(ErrorCode.GROUP_MAX_SIZE_REACHED, join.member_id))
        elif group is None:
            self._join_new_group(token, join, now, out)
        elif not self._has_room(group, join.member_id):
            self._reject_full_group(group, token, join, now, out)
        elif join.member_id != UNKNOWN_MEMBER:
            self._join_known(group, token, join, now, out)
        else:
            self._join_unknown(group, token, join, now, out)

    def _check_join(self, group: ClassicGroup | None, join: Join) -> ErrorCode:
        limits = self._parameters
        if join.group_id == "":
            return ErrorCode.INVALID_GROUP_ID
        if not limits.group_min_session_timeout_ms <= join.session_timeout_ms <= limits.group_max_session_timeout_ms:
            return ErrorCode.INVALID_SESSION_TIMEOUT
        if group is None and join.member_id != UNKNOWN_MEMBER:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if not (group or ClassicGroup(join.group_id, self._memory)).supports(join.protocol_type, join.protocols):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        return ErrorCode.NONE

    def _join_new_group(self, token: Token, join: Join, now: Now, out: Outcome) -> None:
        """Create a group. The record of the empty group must be written before the first reply."""
        group = self._groups[join.group_id] = ClassicGroup(join.group_id, self._memory)
        group.state_timestamp_ms = now.wall_ms
        self._join_unknown(group, token, join, now, out)
        out.records.append(GroupStored(group.group_id, state_timestamp_ms=now.wall_ms))

        def undo(answer: Outcome, error: ErrorCode, _: Now) -> None:
            del self._groups[group.group_id]
            answer.timers.clear()
            for member in group.members.values():
                dismiss(group, member, response_error(error), UNKNOWN_MEMBER, answer)
            group.remove_all()

        out.undo = undo

    def _has_room(self, group: ClassicGroup, member_id: str) -> bool:
        """During a rebalance only members that have joined count. So when group.max.size was lowered, the first
        members can join again and the others are rejected."""
        if group.state is EMPTY:
            return True
        member = group.members.get(member_id)
        if group.state is PREPARING_REBALANCE:
            waits = member is not None and member.join_token is not None
            return waits or group.awaiting_join < self._parameters.group_max_size
        return member is not None or len(group.members) < self._parameters.group_max_size

    def _reject_full_group(self, group: ClassicGroup, token: Token, join: Join, now: Now, out: Outcome) -> None:
        out.reply(token, JoinResult(ErrorCode.GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER))
        if join.member_id != UNKNOWN_MEMBER:
            self._rebalance.remove(group, join.member_id, out)
            self._rebalance.complete_if_ready(group, now, out)

    def _join_unknown(self, group: ClassicGroup, token: Token, join: Join, now: Now, out: Outcome) -> None:
        if join.group_instance_id is not None:
            self._join_static(group, join.group_instance_id, token, join, now, out)
            return
        member_id = f"{join.client_id}-{self._new_uuid()}"
        if join.require_known_member_id:
            group.add_pending(member_id)
            out.set_timer(session_timer(group, member_id), now.steady_ms + join.session_timeout_ms)
            out.reply(token, JoinResult(ErrorCode.MEMBER_ID_REQUIRED, member_id))
        else:
            self._add(group, member_id, token, join, now, out)

    def _join_static(
        self, group: ClassicGroup, instance_id: str, token: Token, join: Join, now: Now, out: Outcome
    ) -> None:
        """A static member without a member id has restarted: it replaces its previous member id (KIP-345)."""
        member_id = f"{instance_id}-{self._new_uuid()}"
        old = group.members.get(group.static_members.get(instance_id, UNKNOWN_MEMBER))
        if old is None:
            self._add(group, member_id, token, join, now, out)
            return
        new = _new_member(join, member_id)
        new.assignment = old.assignment
        dismiss(group, old, ErrorCode.FENCED_INSTANCE_ID, old.member_id, out)
        out.cancel_timer(session_timer(group, old.member_id))
        old_leader = group.leader
        group.replace(old, new)
        self._rebalance.await_heartbeat(group, new, new.session_timeout_ms, now, out)
        if group.state is STABLE and group.protocol == group.select_protocol():
            leads = group.leader == new.member_id
            skip = leads and join.supports_skip_assignment
            # An older client gets its previous member id as the leader, so that it does not assign (KIP-814).
            out.reply(token, joined(group, new, group.leader if skip else old_leader, skip_assignment=skip))
            self._store_replacement(group, old, new, now, out)
        else:
            group.park_join(new, token)
            reason = _reason(f"static member {instance_id} restarted", join.reason)
            self._rebalance.prepare_or_complete(group, reason, now, out)

    def _store_replacement(self, group: ClassicGroup, old: Member, new: Member, now: Now, out: Outcome) -> None:
        """Store the new member id. The group stays stable."""
        assignments = {member.member_id: member.assignment for member in group.members.values()}
        out.records.append(group.stored(assignments, now))

        def undo(answer: Outcome, _: ErrorCode, now: Now) -> None:
            group.replace(new, old)
            old.timer_at_ms = None
            answer.cancel_timer(session_timer(group, new.member_id))
            self._rebalance.await_heartbeat(group, old, old.session_timeout_ms, now, answer)

        out.undo = undo

    def _join_known(self, group: ClassicGroup, token: Token, join: Join, now: Now, out: Outcome) -> None:
        if join.member_id in group.pending_join and join.group_instance_id is None:
            self._add(group, join.member_id, token, join, now, out)
            return
        error = group.check_member(join.member_id, join.group_instance_id)
        if error is not ErrorCode.NONE:
            out.reply(token, JoinResult(error, join.member_id))
            return
        member = group.members[join.member_id]
        leads = group.leader == member.member_id
        unchanged = member.protocols == join.protocols
        if unchanged and (group.state is COMPLETING_REBALANCE or (group.state is STABLE and not leads)):
            # The reply to the last JoinGroup may be lost, so repeat it. The leader of a stable group is different: it
            # joins again to start a rebalance, for example because a topic has new partitions.
            out.reply(token, joined(group, member, group.leader))
            return
        group.update_protocols(member, join.protocols)
        member.rebalance_timeout_ms, member.session_timeout_ms = join.rebalance_timeout_ms, join.session_timeout_ms
        superseded = group.park_join(member, token)
        if superseded is not None:
            out.reply(superseded, JoinResult(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))
        reason = _reason(f"{'leader' if leads else 'member'} {member.member_id} joined again", join.reason)
        self._rebalance.prepare_or_complete(group, reason, now, out)

    def _add(self, group: ClassicGroup, member_id: str, token: Token, join: Join, now: Now, out: Outcome) -> None:
        if not group.members:
            group.protocol_type = join.protocol_type
        if group.initial_delay is not None:
            group.initial_delay.member_added = True
        member = _new_member(join, member_id)
        member.is_new = True
        group.add(member)
        group.park_join(member, token)
        self._rebalance.await_heartbeat(group, member, NEW_MEMBER_JOIN_TIMEOUT_MS, now, out)
        self._rebalance.prepare_or_complete(group, _reason(f"new member {member_id}", join.reason), now, out)

    def sync(self, token: Token, sync: Sync, now: Now, out: Outcome) -> None:
        group = self._groups.get(sync.group_id)
        error = _check_sync(group, sync)
        if group is None or error is not ErrorCode.NONE:
            out.reply(token, SyncResult(error))
            return
        member = group.members[sync.member_id]
        assigns = group.state is COMPLETING_REBALANCE and group.leader == member.member_id
        if assigns and not self._memory.has_room(_added_assignments(group, sync)):
            out.reply(token, SyncResult(ErrorCode.GROUP_MAX_SIZE_REACHED))
            return
        group.pending_sync.discard(member.member_id)
        if not group.pending_sync:
            self._rebalance.clear_sync_timer(group, out)
        if group.state is STABLE:
            out.reply(token, _assigned(group, member.assignment))
            return
        superseded, member.sync_token = member.sync_token, token
        if superseded is not None:
            out.reply(superseded, SyncResult(ErrorCode.REBALANCE_IN_PROGRESS))
        if assigns:
            self._assign(group, sync, now, out)

    def _assign(self, group: ClassicGroup, sync: Sync, now: Now, out: Outcome) -> None:
        record = group.stored(sync.assignments or {}, now)
        out.records.append(record)
        for stored in record.members:
            member = group.members[stored.member_id]
            token, member.sync_token = member.sync_token, None
            if token is not None:
                out.reply(token, _assigned(group, stored.assignment))
                self._rebalance.await_heartbeat(group, member, member.session_timeout_ms, now, out)

        def undo(answer: Outcome, error: ErrorCode, now: Now) -> None:
            self._rebalance.prepare(group, f"the assignment could not be written: {error.name}", now, answer)

        out.undo = undo

    def heartbeat(
        self, group_id: str, member_id: str, group_instance_id: str | None, generation_id: int, now: Now
    ) -> ErrorCode:
        if group_id == "":
            return ErrorCode.INVALID_GROUP_ID
        group = self._groups.get(group_id)
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        error = group.check_member(member_id, group_instance_id)
        if error is not ErrorCode.NONE:
            return error
        if generation_id != group.generation:
            return ErrorCode.ILLEGAL_GENERATION
        group.members[member_id].touch(now.steady_ms)
        return ErrorCode.REBALANCE_IN_PROGRESS if group.state is PREPARING_REBALANCE else ErrorCode.NONE

    def leave(self, token: Token, group_id: str, leaving: Sequence[LeavingMember], now: Now, out: Outcome) -> None:
        if group_id == "":
            out.reply(token, LeaveResult(ErrorCode.INVALID_GROUP_ID))
            return
        group = self._groups.get(group_id)
        left = tuple(
            LeftMember(each.member_id, each.group_instance_id, self._leave_one(group, each, out)) for each in leaving
        )
        out.reply(token, LeaveResult(ErrorCode.NONE, left))
        gone = [each.member_id or each.group_instance_id or "" for each in left if each.error is ErrorCode.NONE]
        if group is None or not gone:
            return
        if group.state in (STABLE, COMPLETING_REBALANCE):
            self._rebalance.prepare(group, f"members left: {', '.join(gone)}", now, out)
        else:
            self._rebalance.complete_if_ready(group, now, out)

    def _leave_one(self, group: ClassicGroup | None, leaving: LeavingMember, out: Outcome) -> ErrorCode:
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        member_id = leaving.member_id
        if member_id == UNKNOWN_MEMBER and leaving.group_instance_id is not None:
            member_id = group.static_members.get(leaving.group_instance_id, UNKNOWN_MEMBER)
        if member_id not in group.pending_join:
            error = group.check_member(member_id, leaving.group_instance_id)
            if error is not ErrorCode.NONE:
                return error
        out.messages.append(f"Member {member_id} leaves group {group.group_id}: {leaving.reason or 'no reason given'}")
        self._rebalance.remove(group, member_id, out)
        return ErrorCode.NONE


def _check_sync(group: ClassicGroup | None, sync: Sync) -> ErrorCode:
    if sync.group_id == "":
        return ErrorCode.INVALID_GROUP_ID
    if group is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    error = group.check_member(sync.member_id, sync.group_instance_id)
    if error is not ErrorCode.NONE:
        return error
    if sync.generation_id != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if sync.protocol_type not in (None, group.protocol_type) or sync.protocol_name not in (None, group.protocol):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state is PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _added_bytes(group: ClassicGroup | None, join: Join) -> int:
    """How many more bytes the members take after this join. The member may replace its earlier state."""
    replaced = None
    if group is not None:
        replaced = group.members.get(join.member_id)
        if replaced is None and join.group_instance_id is not None:
            replaced = group.members.get(group.static_members.get(join.group_instance_id, UNKNOWN_MEMBER))
    return _new_member(join, join.member_id).size - (0 if replaced is None else replaced.size)


def _added_assignments(group: ClassicGroup, sync: Sync) -> int:
    """How many more bytes the members take after this assignment. Only assignments of members are kept."""
    assignments = sync.assignments or {}
    return sum(
        len(assignments.get(member.member_id, b"")) - len(member.assignment) for member in group.members.values()
    )


def _new_member(join: Join, member_id: str) -> Member:
    return Member(
        member_id=member_id,
        group_instance_id=join.group_instance_id,
        client_id=join.client_id,
        client_host=join.client_host,
        rebalance_timeout_ms=join.rebalance_timeout_ms,
        session_timeout_ms=join.session_timeout_ms,
        protocols=join.protocols,
    )


def _assigned(group: ClassicGroup, assignment: bytes) -> SyncResult:
    return SyncResult(ErrorCode.NONE, group.protocol_type, group.protocol, assignment)


def _reason(cause: str, client_reason: str) -> str:
    return f"{cause} ({client_reason})" if client_reason else cause
