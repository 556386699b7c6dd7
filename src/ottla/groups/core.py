"""The groups of one partition of `__consumer_offsets`, as one object without I/O.

The caller must follow this order:

1. To load: `replay` every record of the partition and `replay_end_txn` every transaction marker, in log order, then
   call `on_loaded`. After a failure, replay into a new object: a marker that is replayed twice would also end offsets
   that were written after it.
2. A command returns an `Outcome`. If it has records, append them to the partition and call `written`. If the append
   fails, call `append_failed` and use the outcome that it returns instead. Call no other command in between. If the
   outcome has a producer, append its records as one transactional batch of that producer.
3. Set the timers, log the messages, and send the replies when the records are committed. A reply must also wait for
   earlier records that are not committed yet.
4. After a transaction marker is appended to the partition, call `replay_end_txn` before the next command.
5. When another broker leads the partition: call `unload`, send its replies, and drop the object.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from ottla.coordinator_core.command_gate import CommandGate
from ottla.coordinator_core.effects import MAX_PORTION, Now, Token
from ottla.errors import ErrorCode
from ottla.groups.commands import UNKNOWN_MEMBER, Commit, Join, LeavingMember, PartitionCommit, Sync, TxnCommit
from ottla.groups.effects import Outcome, TimerKey
from ottla.groups.group import ClassicGroup
from ottla.groups.membership import ClassicMembership
from ottla.groups.memory import MemberMemory
from ottla.groups.offsets import is_expired
from ottla.groups.parameters import GroupParameters
from ottla.groups.rebalance import Rebalance, dismiss
from ottla.groups.records import GroupRemoved, GroupStored, OffsetCommitted, OffsetRemoved, Record
from ottla.groups.results import (
    CommitResult,
    DeleteGroupsResult,
    DeleteOffsetsResult,
    DescribedGroup,
    DescribedMember,
    ListedGroup,
)
from ottla.groups.state import COMPLETING_REBALANCE, DEAD, EMPTY, PREPARING_REBALANCE, STABLE
from ottla.model import NO_TIMESTAMP, ZERO_TOPIC_ID, TopicId, TopicPartition
from ottla.records.format import MAX_INT64

_MAX_DELETION_BYTES = 1 << 18
"""A group is deleted by one batch if its tombstones have at most this many bytes."""

_OFFSETS_IN_PORTION = 10_000
"""To look at this many offsets takes some milliseconds."""

_TOMBSTONE_BYTES = 400
"""The largest tombstone without its group id: a topic name, a partition, and the overhead of the record."""


class GroupCore:
    def __init__(
        self, parameters: GroupParameters, new_uuid: Callable[[], str], memory: MemberMemory | None = None
    ) -> None:
        self._parameters = parameters
        self.memory = memory or MemberMemory()
        """Read-only for callers."""
        self.groups: dict[str, ClassicGroup] = {}
        """Read-only for callers."""
        self._rebalance = Rebalance(parameters)
        self._membership = ClassicMembership(self.groups, self._rebalance, parameters, new_uuid, self.memory)
        self._transactions: dict[int, dict[tuple[str, TopicPartition], None]] = {}
        """By producer id, the groups and partitions with pending offsets of its open transaction. The groups and the
        offsets may have been deleted since."""
        self._gate: CommandGate[Outcome] = CommandGate()

    def replay(self, record: Record, producer_id: int | None = None) -> None:
        """Apply a written record. Durable state changes only here and in `replay_end_txn`.

        Records of a transactional batch have a producer id. Their offsets are pending until its transaction ends.
        """
        match record:
            case OffsetCommitted():
                self._replay_offset(record, producer_id)
            case OffsetRemoved():
                if record.group in self.groups:
                    self.groups[record.group].offsets.remove(record.topic, record.partition)
            case GroupStored():
                self._group(record.group).restore(record)
            case GroupRemoved():
                self._remove_group(record.group)

    def _replay_offset(self, record: OffsetCommitted, producer_id: int | None) -> None:
        offsets = self._group(record.group).offsets
        if producer_id is None:
            offsets.put(record)
        else:
            offsets.put_pending(record, producer_id)
            location = record.group, TopicPartition(record.topic, record.partition)
            self._transactions.setdefault(producer_id, {})[location] = None

    def replay_end_txn(self, producer_id: int, *, committed: bool) -> None:
        """Apply a written marker: commit or drop the pending offsets of a transaction."""
        self._gate.check_ready()
        for group_id, partition in self._transactions.pop(producer_id, ()):
            if group_id in self.groups:
                self.groups[group_id].offsets.end_pending(partition, producer_id, committed=committed)

    def on_loaded(self, now: Now) -> Outcome:
        """End the load. Every member gets a whole session timeout to find its new coordinator."""
        out = self._begin()
        for group in self.groups.values():
            for member in group.members.values():
                self._rebalance.await_heartbeat(group, member, member.session_timeout_ms, now, out)
            if len(group.members) > self._parameters.group_max_size:
                self._rebalance.prepare(group, "more members than group.max.size", now, out)
        return self._gate.end(out)

    def written(self, outcome: Outcome) -> None:
        self._gate.settle(outcome)
        producer_id = None if outcome.producer is None else outcome.producer.producer_id
        for record in outcome.records:
            self.replay(record, producer_id)

    def append_failed(self, outcome: Outcome, error: ErrorCode, now: Now) -> Outcome:
        """Undo a command whose records could not be appended. Returns the effects that replace those of `outcome`."""
        self._gate.settle(outcome)
        answer = Outcome()
        answer.replies = [reply.failed(error) for reply in outcome.replies]
        answer.timers = list(outcome.timers)
        answer.messages = list(outcome.messages)
        if outcome.undo is not None:
            outcome.undo(answer, error, now)
        return answer

    def fail(self) -> None:
        """Reject every further command: the state in memory may differ from the log."""
        self._gate.fail()

    def unload(self, now: Now) -> Outcome:
        """Answer all waiting requests with NOT_COORDINATOR."""
        out = Outcome()
        for group in self.groups.values():
            group.transition(DEAD, now)
            for member in group.members.values():
                dismiss(group, member, ErrorCode.NOT_COORDINATOR, member.member_id, out)
        self.groups.clear()
        self.memory.used = 0
        self._transactions.clear()
        return out

    def join(self, token: Token, command: Join, now: Now) -> Outcome:
        out = self._begin()
        self._membership.join(token, command, now, out)
        return self._gate.end(out)

    def sync(self, token: Token, command: Sync, now: Now) -> Outcome:
        out = self._begin()
        self._membership.sync(token, command, now, out)
        return self._gate.end(out)

    def leave(self, token: Token, group_id: str, members: Sequence[LeavingMember], now: Now) -> Outcome:
        out = self._begin()
        self._membership.leave(token, group_id, members, now, out)
        return self._gate.end(out)

    def heartbeat(
        self, group_id: str, member_id: str, group_instance_id: str | None, generation_id: int, now: Now
    ) -> ErrorCode:
        """The most frequent command. It has no effects: it only moves the session deadline of the member."""
        return self._membership.heartbeat(group_id, member_id, group_instance_id, generation_id, now)

    def timer_fired(self, key: TimerKey, now: Now) -> Outcome:
        out = self._begin()
        group = self.groups.get(key.group_id)
        if group is not None:
            self._rebalance.timer_fired(key.kind, group, key.member_id, now, out)
        return self._gate.end(out)

    def commit_offsets(self, token: Token, command: Commit, now: Now) -> Outcome:
        out = self._begin()
        group = self.groups.get(command.group_id)
        error = _check_commit(group, command)
        if error is not ErrorCode.NONE:
            out.reply(token, CommitResult((error,) * len(command.partitions)))
            return self._gate.end(out)
        if group is not None and group.state in (STABLE, PREPARING_REBALANCE):
            group.members[command.member_id].touch(now.steady_ms)
        self._write_offsets(token, command, _expiry(command.retention_time_ms, now), now, out)
        return self._gate.end(out)

    def commit_txn_offsets(self, token: Token, command: TxnCommit, now: Now) -> Outcome:
        """Does not renew the session of the consumer: the producer may be alive while the consumer is not."""
        out = self._begin()
        error = _check_txn_commit(self.groups.get(command.group_id), command)
        if error is not ErrorCode.NONE:
            out.reply(token, CommitResult((error,) * len(command.partitions)))
            return self._gate.end(out)
        out.producer = command.producer
        self._write_offsets(token, command, NO_TIMESTAMP, now, out)
        return self._gate.end(out)

    def _write_offsets(
        self, token: Token, command: Commit | TxnCommit, expire_timestamp_ms: int, now: Now, out: Outcome
    ) -> None:
        errors = []
        for partition in command.partitions:
            if _utf16_length(partition.metadata) > self._parameters.offset_metadata_max_bytes:
                errors.append(ErrorCode.OFFSET_METADATA_TOO_LARGE)
            else:
                errors.append(ErrorCode.NONE)
                out.records.append(_committed(command.group_id, partition, expire_timestamp_ms, now))
        out.reply(token, CommitResult(tuple(errors)))

    def fetch_offset(
        self, group_id: str, topic: str, partition: int, topic_id: TopicId = ZERO_TOPIC_ID
    ) -> OffsetCommitted | None:
        """None if nothing is committed, or only for an earlier topic with this name."""
        group = self.groups.get(group_id)
        return None if group is None else group.offsets.get(topic, partition, topic_id)

    def fetch_all_offsets(self, group_id: str) -> list[OffsetCommitted]:
        group = self.groups.get(group_id)
        return [] if group is None else list(group.offsets)

    def is_unstable(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether an open transaction may change the offset. A client that requires stable offsets then gets
        UNSTABLE_OFFSET_COMMIT (KIP-447)."""
        group = self.groups.get(group_id)
        return group is not None and group.offsets.is_pending(topic, partition)

    def delete_offsets(self, token: Token, group_id: str, partitions: Sequence[TopicPartition]) -> Outcome:
        out = self._begin()
        group = self.groups.get(group_id)
        if group is None:
            out.reply(token, DeleteOffsetsResult(ErrorCode.GROUP_ID_NOT_FOUND))
        elif group.state is not EMPTY and not group.uses_consumer_protocol:
            # The broker cannot parse the subscriptions of other protocols, so the members may still read the topics.
            out.reply(token, DeleteOffsetsResult(ErrorCode.NON_EMPTY_GROUP))
        else:
            errors = tuple(self._delete_offset(group, partition, out) for partition in partitions)
            out.reply(token, DeleteOffsetsResult(ErrorCode.NONE, errors))
        return self._gate.end(out)

    def _delete_offset(self, group: ClassicGroup, partition: TopicPartition, out: Outcome) -> ErrorCode:
        if group.is_subscribed_to(partition.topic):
            return ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        if group.offsets.get(*partition) is not None or group.offsets.is_pending(*partition):
            out.records.append(OffsetRemoved(group.group_id, *partition))
        return ErrorCode.NONE

    def portions(self) -> Iterator[list[str]]:
        """All group ids, in lists of groups with about `_OFFSETS_IN_PORTION` offsets together. The caller may run
        commands while it iterates."""
        portion: list[str] = []
        size = 0
        for group in tuple(self.groups.values()):
            portion.append(group.group_id)
            size += 1 + len(group.offsets)
            if size >= _OFFSETS_IN_PORTION:
                yield portion
                portion, size = [], 0
        if portion:
            yield portion

    def _existing(self, group_ids: Iterable[str]) -> Iterator[ClassicGroup]:
        return (group for group_id in group_ids if (group := self.groups.get(group_id)) is not None)

    def expire_offsets(self, now: Now, group_ids: Iterable[str], max_records: int = MAX_PORTION) -> Outcome:
        """Called periodically. Removes offsets past their retention, and empty groups without offsets.

        Each call returns at most `max_records` records. Call again until the outcome has no records.
        """
        out = self._begin()
        for group in self._existing(group_ids):
            room = max_records - len(out.records)
            if room <= 0:
                break
            expired = [committed for committed in group.offsets if self._is_expired(group, committed, now)]
            out.records += [OffsetRemoved(group.group_id, gone.topic, gone.partition) for gone in expired[:room]]
            nothing_left = len(expired) == len(group.offsets) and not group.offsets.has_pending
            if group.state is EMPTY and nothing_left and len(expired) < room:
                out.records.append(GroupRemoved(group.group_id))
        return self._gate.end(out)

    def _is_expired(self, group: ClassicGroup, committed: OffsetCommitted, now: Now) -> bool:
        if group.offsets.is_pending(committed.topic, committed.partition):
            return False  # A tombstone would also remove the pending offset.
        start_ms = group.retention_start_ms(committed)
        retention_ms = self._parameters.offsets_retention_ms
        return start_ms is not None and is_expired(committed, start_ms, retention_ms, now.wall_ms)

    def on_topics_deleted(
        self, topics: Mapping[str, TopicId], group_ids: Iterable[str], max_records: int = MAX_PORTION
    ) -> Outcome:
        """Remove the offsets of deleted topics, so that a new topic with the same name does not get them. Call again
        until the outcome has no records."""
        out = self._begin()
        for group in self._existing(group_ids):
            room = max_records - len(out.records)
            if room <= 0:
                break
            gone = group.offsets.of_deleted_topics(topics)
            out.records += [OffsetRemoved(group.group_id, *partition) for partition in gone[:room]]
        return self._gate.end(out)

    def describe(self, group_id: str) -> DescribedGroup:
        group = self.groups.get(group_id)
        if group is None:
            return DescribedGroup(ErrorCode.GROUP_ID_NOT_FOUND, group_id, DEAD.value)
        protocol = group.protocol if group.state is STABLE else None
        return DescribedGroup(
            error=ErrorCode.NONE,
            group_id=group_id,
            state=group.state.value,
            protocol_type=group.protocol_type or "",
            protocol_name=protocol or "",
            members=tuple(
                DescribedMember(
                    member_id=member.member_id,
                    group_instance_id=member.group_instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    metadata=member.metadata(protocol),
                    assignment=member.assignment,
                )
                for member in group.members.values()
            ),
        )

    def list_groups(self, states: Collection[str] = (), types: Collection[str] = ()) -> Iterator[ListedGroup]:
        """All groups, or those in one of the states and of one of the types. The filters ignore case. The caller may
        run commands while it iterates."""
        states = {state.strip().lower() for state in states}
        types = {group_type.lower() for group_type in types}
        for group in tuple(self.groups.values()):
            if (not states or group.state.value.lower() in states) and (not types or group.type in types):
                yield ListedGroup(group.group_id, group.protocol_type or "", group.state.value, group.type)

    def group_ids(self) -> list[str]:
        return list(self.groups)

    def topics_of(self, group_id: str) -> Iterator[tuple[str, TopicId]]:
        """The topics of all committed and pending offsets of a group. A topic may occur several times."""
        group = self.groups.get(group_id)
        if group is not None:
            for committed in (*group.offsets, *group.offsets.pending()):
                yield committed.topic, committed.topic_id

    def shrink_group(self, group_id: str, max_records: int = MAX_PORTION) -> Outcome:
        """Called before an empty group is deleted. Removes offsets until one batch can delete the rest of the group.
        Call again until the outcome has no records."""
        out = self._begin()
        group = self.groups.get(group_id)
        if group is not None and group.state is EMPTY:
            partitions = group.offsets.partitions()
            if len(partitions) * (len(group_id.encode()) + _TOMBSTONE_BYTES) > _MAX_DELETION_BYTES:
                out.records += [OffsetRemoved(group_id, *gone) for gone in partitions[:max_records]]
        return self._gate.end(out)

    def delete_groups(self, token: Token, group_ids: Sequence[str]) -> Outcome:
        out = self._begin()
        errors = tuple(self._delete_group(group_id, out) for group_id in group_ids)
        out.reply(token, DeleteGroupsResult(errors))
        return self._gate.end(out)

    def _delete_group(self, group_id: str, out: Outcome) -> ErrorCode:
        group = self.groups.get(group_id)
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if group.state is not EMPTY:
            return ErrorCode.NON_EMPTY_GROUP
        out.records += [OffsetRemoved(group_id, *gone) for gone in group.offsets.partitions()]
        out.records.append(GroupRemoved(group_id))
        return ErrorCode.NONE

    def _begin(self) -> Outcome:
        self._gate.begin()
        return Outcome()

    def _group(self, group_id: str) -> ClassicGroup:
        """The group. If it does not exist, an empty group is created, which may get offsets without members."""
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = ClassicGroup(group_id, self.memory)
        return group

    def _remove_group(self, group_id: str) -> None:
        group = self.groups.pop(group_id, None)
        if group is None:
            return
        group.remove_all()
        if len(group.offsets) or group.offsets.has_pending:
            # The tombstones of the offsets may come later. Until then, a group without members keeps the offsets.
            self._group(group_id).offsets = group.offsets


def _check_commit(group: ClassicGroup | None, command: Commit) -> ErrorCode:
    anonymous = command.generation_id < 0
    if group is None:
        if anonymous:
            return ErrorCode.NONE
        return ErrorCode.GROUP_ID_NOT_FOUND if command.knows_group_id_not_found else ErrorCode.ILLEGAL_GENERATION
    if anonymous and group.state is EMPTY:
        return ErrorCode.NONE  # A consumer that assigns its own partitions, or an administrator.
    error = group.check_member(command.member_id, command.group_instance_id)
    if error is not ErrorCode.NONE:
        return error
    if command.generation_id != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if group.state is COMPLETING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS  # Another member may own the partitions by now.
    return ErrorCode.NONE


def _check_txn_commit(group: ClassicGroup | None, command: TxnCommit) -> ErrorCode:
    """Accepted during a rebalance: a member of the current generation may finish its transaction."""
    if command.group_id == "":
        return ErrorCode.INVALID_GROUP_ID
    anonymous = command.generation_id < 0
    if group is None:
        return ErrorCode.NONE if anonymous else ErrorCode.ILLEGAL_GENERATION
    if anonymous and group.state is EMPTY:
        return ErrorCode.NONE
    if anonymous and command.member_id == UNKNOWN_MEMBER and command.group_instance_id is None:
        return ErrorCode.NONE  # Before version 3 requests have no member id: only the producer epoch fences.
    error = group.check_member(command.member_id, command.group_instance_id)
    if error is not ErrorCode.NONE:
        return error
    return ErrorCode.NONE if command.generation_id == group.generation else ErrorCode.ILLEGAL_GENERATION


def _expiry(retention_time_ms: int, now: Now) -> int:
    """The expiry of an offset. It is limited to a valid timestamp, since a client may send any retention time."""
    if retention_time_ms == NO_TIMESTAMP:
        return NO_TIMESTAMP
    return min(max(now.wall_ms + retention_time_ms, 0), MAX_INT64)


def _committed(group_id: str, partition: PartitionCommit, expire_timestamp_ms: int, now: Now) -> OffsetCommitted:
    return OffsetCommitted(
        group=group_id,
        topic=partition.topic,
        partition=partition.partition,
        offset=partition.offset,
        leader_epoch=partition.leader_epoch,
        metadata=partition.metadata or "",
        commit_timestamp_ms=now.wall_ms,
        expire_timestamp_ms=expire_timestamp_ms,
        topic_id=partition.topic_id,
    )


def _utf16_length(text: str | None) -> int:
    """Kafka compares the length in UTF-16 code units with the limit, although the name of the setting says bytes."""
    if not text:
        return 0
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2
