"""The rebalance of a classic group, from the first join to the next generation, and its timers.

The methods change only state in memory, and add all effects to an `Outcome`. A group becomes stable or empty only by
the replay of a record, never here.
"""

from ottla.coordinator_core.effects import Now
from ottla.errors import ErrorCode
from ottla.groups.commands import UNKNOWN_MEMBER
from ottla.groups.effects import Outcome, TimerKey, TimerKind
from ottla.groups.group import ClassicGroup, InitialDelay, Member
from ottla.groups.parameters import GroupParameters
from ottla.groups.results import JoinResult, SyncResult
from ottla.groups.state import COMPLETING_REBALANCE, EMPTY, PREPARING_REBALANCE, STABLE

_ABSENT_MEMBERS_PAUSE_MS = 1_000


class Rebalance:
    def __init__(self, parameters: GroupParameters) -> None:
        self.parameters = parameters

    def prepare_or_complete(self, group: ClassicGroup, reason: str, now: Now, out: Outcome) -> None:
        if group.state is PREPARING_REBALANCE:
            self.complete_if_ready(group, now, out)
        else:
            self.prepare(group, reason, now, out)

    def prepare(self, group: ClassicGroup, reason: str, now: Now, out: Outcome) -> None:
        """Make all members join again. Members that wait for SyncGroup get an error now, others with a heartbeat."""
        if group.state is COMPLETING_REBALANCE:
            self._cancel_syncs(group, now, out)
        group.pending_sync.clear()
        self.clear_sync_timer(group, out)
        out.messages.append(f"Group {group.group_id} rebalances after generation {group.generation}: {reason}")
        initial = group.state is EMPTY
        group.transition(PREPARING_REBALANCE, now)
        if initial:
            delay = self.parameters.group_initial_rebalance_delay_ms
            group.initial_delay = InitialDelay(delay, max(group.rebalance_timeout_ms - delay, 0))
            self._set_join_timer(group, delay, now, out)
        elif group.all_joined:
            self._complete_join(group, now, out)
        else:
            self._set_join_timer(group, group.rebalance_timeout_ms, now, out)

    def _cancel_syncs(self, group: ClassicGroup, now: Now, out: Outcome) -> None:
        for member in group.members.values():
            group.clear_assignment(member)
            token, member.sync_token = member.sync_token, None
            if token is not None:
                out.reply(token, SyncResult(ErrorCode.REBALANCE_IN_PROGRESS))
                self.await_heartbeat(group, member, member.session_timeout_ms, now, out)

    def complete_if_ready(self, group: ClassicGroup, now: Now, out: Outcome) -> None:
        """Complete the rebalance if all members have joined. The initial delay never ends early."""
        if group.state is PREPARING_REBALANCE and group.initial_delay is None and group.all_joined:
            self._complete_join(group, now, out)

    def _complete_join(self, group: ClassicGroup, now: Now, out: Outcome) -> None:
        self._clear_join_timer(group, out)
        for member in list(group.members.values()):
            if member.join_token is None and member.group_instance_id is None:
                out.messages.append(f"Group {group.group_id} continues without {member.member_id}, which did not join")
                self.remove(group, member.member_id, out)
        if not group.members:
            self._end_empty(group, now, out)
        elif not group.elect_joined_leader():
            # Only static members that have not joined are left. They stay in the group until their sessions expire. The
            # minimum pause is for clients with a rebalance timeout of zero: the timer would fire again immediately.
            self._set_join_timer(group, max(group.rebalance_timeout_ms, _ABSENT_MEMBERS_PAUSE_MS), now, out)
        else:
            self._begin_generation(group, now, out)

    def _begin_generation(self, group: ClassicGroup, now: Now, out: Outcome) -> None:
        group.next_generation(now)
        for member in group.members.values():
            token = group.take_join(member)
            if token is not None:
                out.reply(token, joined(group, member, group.leader))
            member.is_new = False
            self.await_heartbeat(group, member, member.session_timeout_ms, now, out)
        group.sync_deadline_ms = now.steady_ms + group.rebalance_timeout_ms
        out.set_timer(TimerKey(TimerKind.SYNC, group.group_id), group.sync_deadline_ms)
        size = len(group.members)
        out.messages.append(f"Group {group.group_id} begins generation {group.generation} with {size} members")

    def _end_empty(self, group: ClassicGroup, now: Now, out: Outcome) -> None:
        record = group.stored_empty(now)
        out.records.append(record)
        # If the append fails, the group becomes empty in memory anyway. A reload finds the previous generation, and its
        # members time out.
        out.undo = lambda *_: group.restore(record)
        out.messages.append(f"Group {group.group_id} is empty in generation {record.generation}")

    def timer_fired(self, kind: TimerKind, group: ClassicGroup, member_id: str, now: Now, out: Outcome) -> None:
        """A timer that fires early, or that is not needed any more, changes nothing."""
        match kind:
            case TimerKind.SESSION:
                self._session_timer_fired(group, member_id, now, out)
            case TimerKind.JOIN:
                self._join_timer_fired(group, now, out)
            case TimerKind.SYNC:
                self._sync_timer_fired(group, now, out)

    def _session_timer_fired(self, group: ClassicGroup, member_id: str, now: Now, out: Outcome) -> None:
        member = group.members.get(member_id)
        if member is not None:
            member.timer_at_ms = None
            if now.steady_ms < member.session_deadline_ms:
                self._arm_session_timer(group, member, out)
                return
            if member.excused_from_heartbeat:
                self.await_heartbeat(group, member, member.session_timeout_ms, now, out)
                return
        elif member_id not in group.pending_join:
            return
        out.messages.append(f"Session of member {member_id} of group {group.group_id} expired without a heartbeat")
        self.remove(group, member_id, out)
        if member is not None and group.state in (STABLE, COMPLETING_REBALANCE):
            self.prepare(group, f"session of {member_id} expired", now, out)
        elif group.state is PREPARING_REBALANCE and group.all_joined:
            self._complete_join(group, now, out)

    def _join_timer_fired(self, group: ClassicGroup, now: Now, out: Outcome) -> None:
        if group.join_deadline_ms is None:
            return
        if now.steady_ms < group.join_deadline_ms:
            out.set_timer(TimerKey(TimerKind.JOIN, group.group_id), group.join_deadline_ms)
            return
        delay = group.initial_delay
        if delay is not None and delay.member_added and delay.remaining_ms > 0:
            next_delay = min(self.parameters.group_initial_rebalance_delay_ms, delay.remaining_ms)
            group.initial_delay = InitialDelay(next_delay, max(delay.remaining_ms - delay.delay_ms, 0))
            self._set_join_timer(group, next_delay, now, out)
        else:
            self._complete_join(group, now, out)

    def _sync_timer_fired(self, group: ClassicGroup, now: Now, out: Outcome) -> None:
        if group.sync_deadline_ms is None:
            return
        if now.steady_ms < group.sync_deadline_ms:
            out.set_timer(TimerKey(TimerKind.SYNC, group.group_id), group.sync_deadline_ms)
            return
        late = sorted(group.pending_sync)
        for member_id in late:
            self.remove(group, member_id, out)
        self.prepare(group, f"no SyncGroup from {', '.join(late)}", now, out)

    def await_heartbeat(self, group: ClassicGroup, member: Member, timeout_ms: int, now: Now, out: Outcome) -> None:
        member.session_deadline_ms = now.steady_ms + timeout_ms
        self._arm_session_timer(group, member, out)

    def _arm_session_timer(self, group: ClassicGroup, member: Member, out: Outcome) -> None:
        if member.timer_at_ms is None or member.session_deadline_ms < member.timer_at_ms:
            member.timer_at_ms = member.session_deadline_ms
            out.set_timer(session_timer(group, member.member_id), member.session_deadline_ms)

    def _set_join_timer(self, group: ClassicGroup, delay_ms: int, now: Now, out: Outcome) -> None:
        group.join_deadline_ms = now.steady_ms + delay_ms
        out.set_timer(TimerKey(TimerKind.JOIN, group.group_id), group.join_deadline_ms)

    def _clear_join_timer(self, group: ClassicGroup, out: Outcome) -> None:
        if group.join_deadline_ms is not None:
            group.join_deadline_ms = None
            out.cancel_timer(TimerKey(TimerKind.JOIN, group.group_id))

    def clear_sync_timer(self, group: ClassicGroup, out: Outcome) -> None:
        if group.sync_deadline_ms is not None:
            group.sync_deadline_ms = None
            out.cancel_timer(TimerKey(TimerKind.SYNC, group.group_id))

    def remove(self, group: ClassicGroup, member_id: str, out: Outcome) -> None:
        """Remove a member or a pending member. Its waiting requests fail with UNKNOWN_MEMBER_ID."""
        member = group.members.get(member_id)
        if member is not None:
            dismiss(group, member, ErrorCode.UNKNOWN_MEMBER_ID, UNKNOWN_MEMBER, out)
        group.remove(member_id)
        out.cancel_timer(session_timer(group, member_id))


def session_timer(group: ClassicGroup, member_id: str) -> TimerKey:
    return TimerKey(TimerKind.SESSION, group.group_id, member_id)


def joined(group: ClassicGroup, member: Member, leader: str | None, *, skip_assignment: bool = False) -> JoinResult:
    return JoinResult(
        error=ErrorCode.NONE,
        member_id=member.member_id,
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        leader=leader or "",
        skip_assignment=skip_assignment,
        members=group.joined_members() if member.member_id == leader else (),
    )


def dismiss(group: ClassicGroup, member: Member, error: ErrorCode, reply_member_id: str, out: Outcome) -> None:
    """Answer the waiting requests of the member with an error."""
    join_token = group.take_join(member)
    if join_token is not None:
        out.reply(join_token, JoinResult(error, reply_member_id))
    sync_token, member.sync_token = member.sync_token, None
    if sync_token is not None:
        out.reply(sync_token, SyncResult(error))
