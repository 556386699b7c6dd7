"""The smallest caller a `GroupCore` can have: a list for a log, a dictionary for timers, a number for a clock."""

import struct
from collections.abc import Callable
from itertools import count
from typing import NamedTuple

from ottla.coordinator_core.effects import Now, Reply, SetTimer
from ottla.errors import ErrorCode
from ottla.groups import records
from ottla.groups.commands import Commit, Join, LeavingMember, PartitionCommit, Protocol, Sync, TxnCommit
from ottla.groups.core import GroupCore
from ottla.groups.effects import Outcome, TimerKey
from ottla.groups.memory import MAX_MEMBER_BYTES, MemberMemory
from ottla.groups.parameters import GroupParameters
from ottla.groups.records import Record
from ottla.groups.results import JoinResult, Result
from ottla.model import Producer, TopicPartition

WALL_START_MS = 1_700_000_000_000


def subscription(*topics: str) -> bytes:
    """What a consumer sends as protocol metadata, in version 0: topics, and no user data."""
    names = b"".join(struct.pack(">h", len(topic)) + topic.encode() for topic in topics)
    return struct.pack(">hi", 0, len(topics)) + names + struct.pack(">i", -1)


def protocols(*names: str, topics: tuple[str, ...] = ("clicks",)) -> tuple[Protocol, ...]:
    return tuple(Protocol(name, subscription(*topics)) for name in names)


class Logged(NamedTuple):
    """A record, and the producer of its batch if that is a transactional one."""

    key: bytes
    value: bytes | None
    producer: Producer | None = None


class End(NamedTuple):
    """A control record: the end of a producer's transaction."""

    producer_id: int
    committed: bool


class Shard:
    """Appends by encoding, so that every record that is replayed has been through the format and back."""

    def __init__(self, parameters: GroupParameters | None = None, member_bytes: int = MAX_MEMBER_BYTES) -> None:
        self.parameters = parameters or GroupParameters()
        self.member_bytes = member_bytes
        self.log: list[Logged | End] = []
        self.steady_ms = 0
        self.timers: dict[TimerKey, int] = {}
        self.replies: dict[object, Result] = {}
        self.asked: list[int] = []
        self.next_append_error: ErrorCode | None = None
        self.trace: Callable[[Outcome], None] = lambda _: None
        self._tokens = count(1)
        self._uuids = count(1)
        self.core = self._new_core()

    def _new_core(self) -> GroupCore:
        return GroupCore(self.parameters, lambda: str(next(self._uuids)), MemberMemory(limit=self.member_bytes))

    @property
    def now(self) -> Now:
        return Now(self.steady_ms, WALL_START_MS + self.steady_ms)

    def token(self) -> int:
        self.asked.append(next(self._tokens))
        return self.asked[-1]

    def perform(self, outcome: Outcome) -> Outcome:
        if outcome.records:
            if self.next_append_error is not None:
                error, self.next_append_error = self.next_append_error, None
                outcome = self.core.append_failed(outcome, error, self.now)
                assert not outcome.records
            else:
                self.log += [Logged(*records.encode(record), outcome.producer) for record in outcome.records]
                self.core.written(outcome)
        for change in outcome.timers:
            if isinstance(change, SetTimer):
                self.timers[change.key] = change.at_ms
            else:
                self.timers.pop(change.key, None)
        for reply in outcome.replies:
            self._answer(reply)
        self.trace(outcome)
        return outcome

    def _answer(self, reply: Reply[Result]) -> None:
        assert reply.token not in self.replies, f"request {reply.token} is answered twice"
        self.replies[reply.token] = reply.result

    def fire_next(self) -> TimerKey:
        """Goes to the time of the next timer and fires it."""
        key = min(self.timers, key=lambda key: self.timers[key])
        self.steady_ms = max(self.steady_ms, self.timers.pop(key))
        self.perform(self.core.timer_fired(key, self.now))
        return key

    def wait(self, duration_ms: int) -> None:
        until = self.steady_ms + duration_ms
        while self.timers and min(self.timers.values()) <= until:
            self.fire_next()
        self.steady_ms = until

    def crash(self) -> None:
        """The broker is gone with all that was not written; another one reads the log."""
        self.timers.clear()
        self.asked = [token for token in self.asked if token in self.replies]
        self.core = self._new_core()
        self.replay_log(self.core)
        self.perform(self.core.on_loaded(self.now))

    def replay_log(self, core: GroupCore) -> None:
        for entry in self.log:
            if isinstance(entry, End):
                core.replay_end_txn(entry.producer_id, committed=entry.committed)
            else:
                core.replay(decode(entry), None if entry.producer is None else entry.producer.producer_id)

    def compact(self) -> None:
        """What is left is, of each key, the last record that was not aborted, unless that is a tombstone; the cleaner
        stops where the first open transaction begins."""
        self.log = compacted(self.log)

    def stored(self) -> list[Record]:
        return [decode(entry) for entry in self.log if isinstance(entry, Logged)]

    @property
    def waiting(self) -> list[int]:
        return [token for token in self.asked if token not in self.replies]

    def join(
        self,
        client_id: str,
        *,
        member_id: str = "",
        instance_id: str | None = None,
        group_id: str = "g",
        protocol_type: str = "consumer",
        offered: tuple[Protocol, ...] | None = None,
        session_timeout_ms: int = 10_000,
        rebalance_timeout_ms: int = 60_000,
        version: int = 9,
    ) -> int:
        command = Join(
            group_id=group_id,
            member_id=member_id,
            group_instance_id=instance_id,
            client_id=client_id,
            client_host="/127.0.0.1",
            session_timeout_ms=session_timeout_ms,
            rebalance_timeout_ms=rebalance_timeout_ms,
            protocol_type=protocol_type,
            protocols=protocols("range") if offered is None else offered,
            require_known_member_id=version >= 4,
            supports_skip_assignment=version >= 9,
        )
        token = self.token()
        self.perform(self.core.join(token, command, self.now))
        return token

    def sync(
        self,
        member_id: str,
        generation_id: int,
        assignments: dict[str, bytes] | None = None,
        *,
        instance_id: str | None = None,
        group_id: str = "g",
        protocol_name: str | None = None,
    ) -> int:
        token = self.token()
        command = Sync(group_id, member_id, instance_id, generation_id, None, protocol_name, assignments)
        self.perform(self.core.sync(token, command, self.now))
        return token

    def heartbeat(
        self, member_id: str, generation_id: int, *, instance_id: str | None = None, group_id: str = "g"
    ) -> ErrorCode:
        return self.core.heartbeat(group_id, member_id, instance_id, generation_id, self.now)

    def leave(self, *members: LeavingMember, group_id: str = "g") -> int:
        token = self.token()
        self.perform(self.core.leave(token, group_id, members, self.now))
        return token

    def commit(
        self,
        *partitions: PartitionCommit,
        member_id: str = "",
        instance_id: str | None = None,
        generation_id: int = -1,
        group_id: str = "g",
        retention_time_ms: int = -1,
        version: int = 9,
    ) -> int:
        token = self.token()
        command = Commit(group_id, partitions, member_id, instance_id, generation_id, retention_time_ms, version >= 9)
        self.perform(self.core.commit_offsets(token, command, self.now))
        return token

    def commit_txn(
        self,
        producer: Producer,
        *partitions: PartitionCommit,
        member_id: str = "",
        instance_id: str | None = None,
        generation_id: int = -1,
        group_id: str = "g",
    ) -> int:
        token = self.token()
        command = TxnCommit(group_id, producer, partitions, member_id, instance_id, generation_id)
        self.perform(self.core.commit_txn_offsets(token, command, self.now))
        return token

    def end_txn(self, producer_id: int, *, committed: bool) -> None:
        self.log.append(End(producer_id, committed))
        self.core.replay_end_txn(producer_id, committed=committed)

    def delete_offsets(self, *partitions: TopicPartition, group_id: str = "g") -> int:
        token = self.token()
        self.perform(self.core.delete_offsets(token, group_id, partitions))
        return token

    def delete_groups(self, *group_ids: str) -> int:
        token = self.token()
        self.perform(self.core.delete_groups(token, group_ids))
        return token

    def expire_offsets(self) -> Outcome:
        return self.perform(self.core.expire_offsets(self.now, self.core.group_ids()))

    def stable_group(self, *clients: str, group_id: str = "g") -> list[str]:
        """A stable group, first generation, of dynamic members that speak an old version (no detour for an id)."""
        joins = [self.join(client, version=3, group_id=group_id) for client in clients]
        self.fire_next()
        while any(token not in self.replies for token in joins):
            self.fire_next()
        members = [result.member_id for result in map(self.replies.get, joins) if isinstance(result, JoinResult)]
        for member in reversed(members):
            self.sync(member, 1, {name: name.encode() for name in members}, group_id=group_id)
        return members


def decode(entry: Logged) -> Record:
    record = records.decode(entry.key, entry.value)
    assert record is not None
    return record


def compacted(log: list[Logged | End]) -> list[Logged | End]:
    ends: dict[int, bool] = {}
    aborted: set[int] = set()
    stable_end = len(log)
    for position, entry in reversed(list(enumerate(log))):
        if isinstance(entry, End):
            ends[entry.producer_id] = entry.committed
        elif entry.producer is not None:
            committed = ends.get(entry.producer.producer_id)
            if committed is None:
                stable_end = position
            elif not committed:
                aborted.add(position)
    newest: dict[bytes, int] = {}
    for position, entry in enumerate(log[:stable_end]):
        if isinstance(entry, Logged) and position not in aborted:
            newest[entry.key] = position
    return [
        entry
        for position, entry in enumerate(log)
        if isinstance(entry, End)
        or position >= stable_end
        or (newest.get(entry.key) == position and entry.value is not None)
    ]
