"""Any interleaving of commits, transactions, deletions, failed appends and crashes leaves the right offsets."""

from itertools import count
from typing import NamedTuple, TypeAlias

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ottla.errors import ErrorCode
from ottla.groups.commands import PartitionCommit
from ottla.groups.core import GroupCore
from ottla.groups.group import ClassicGroup
from ottla.groups.memory import MemberMemory
from ottla.groups.parameters import GroupParameters
from ottla.groups.records import GroupRemoved, GroupStored, OffsetRemoved
from ottla.groups.results import CommitResult
from ottla.groups.state import EMPTY, STABLE
from ottla.model import ZERO_TOPIC_ID, Producer, TopicPartition
from tests.groups.shard import Logged, Shard, decode

GROUP = "g"
OTHER_GROUP = "h"
"""It has offsets only, and takes part in the same transactions."""
PARTITIONS = [TopicPartition("clicks", 0), TopicPartition("clicks", 1), TopicPartition("views", 0)]
PRODUCERS = [7, 8, 9]

Where: TypeAlias = tuple[str, TopicPartition]


class Written(NamedTuple):
    """An offset, and where its record stands among all that were ever written."""

    order: int
    offset: int


partitions = st.sampled_from(PARTITIONS)
several = st.lists(partitions, min_size=1, max_size=4)
producers = st.sampled_from(PRODUCERS)
picks = st.integers(0, 7)


class OffsetInterleavings(RuleBasedStateMachine):
    """Groups without members; `test_interleavings` has the same with members that come and go."""

    @initialize()
    def start(self) -> None:
        self.begin(GroupParameters())

    def begin(self, parameters: GroupParameters) -> None:
        self.shard = Shard(parameters)
        self.member_ids: list[tuple[str, str | None]] = []
        self.committed: dict[Where, Written] = {}
        self.transactions: dict[int, dict[Where, Written]] = {}
        self.order = count()
        self.last_generation = 0

    @property
    def group(self) -> ClassicGroup | None:
        return self.shard.core.groups.get(GROUP)

    def pick_member(self, pick: int) -> tuple[str, str | None]:
        """A member of the group if there is one, else (or sometimes) one that was, or never was."""
        group = self.group
        members = list(group.members.values()) if group else []
        if members and pick < 6:
            member = members[pick % len(members)]
            return member.member_id, member.group_instance_id
        return self.member_ids[pick % len(self.member_ids)] if self.member_ids else ("nobody-0", None)

    def pick_committer(self, pick: int, anonymous: bool) -> tuple[str, str | None, int]:
        """Somebody with a claim to be in the group, or, where nobody is, mostly somebody without."""
        group = self.group
        if group is None or anonymous or (not group.members and pick < 6):
            return "", None, -1
        return *self.pick_member(pick), group.generation

    @rule(pick=picks, chosen=several, offset=st.integers(0, 99), anonymous=st.booleans())
    def commit(self, pick: int, chosen: list[TopicPartition], offset: int, anonymous: bool) -> None:
        member_id, instance, generation = self.pick_committer(pick, anonymous)
        token = self.shard.commit(
            *[PartitionCommit(*partition, offset + step) for step, partition in enumerate(chosen)],
            member_id=member_id,
            instance_id=instance,
            generation_id=generation,
        )
        result = self.shard.replies[token]
        assert isinstance(result, CommitResult)
        if result.errors == (ErrorCode.NONE,) * len(chosen):
            for step, partition in enumerate(chosen):
                self.committed[GROUP, partition] = Written(next(self.order), offset + step)

    @rule(
        pick=picks,
        producer_id=producers,
        chosen=several,
        offset=st.integers(0, 99),
        group_id=st.sampled_from([GROUP, GROUP, OTHER_GROUP]),
        anonymous=st.booleans(),
    )
    def commit_txn(
        self,
        pick: int,
        producer_id: int,
        chosen: list[TopicPartition],
        offset: int,
        group_id: str,
        anonymous: bool,
    ) -> None:
        member_id, instance, generation = self.pick_committer(pick, anonymous or group_id == OTHER_GROUP)
        known = generation == -1 or (self.group is not None and member_id in self.group.members)
        fails = self.shard.next_append_error is not None
        token = self.shard.commit_txn(
            Producer(producer_id, 0),
            *[PartitionCommit(*partition, offset + step) for step, partition in enumerate(chosen)],
            member_id=member_id,
            instance_id=instance,
            generation_id=generation,
            group_id=group_id,
        )
        result = self.shard.replies[token]
        assert isinstance(result, CommitResult)
        accepted = result.errors == (ErrorCode.NONE,) * len(chosen)
        assert accepted == (known and not fails)
        if accepted:
            pending = self.transactions.setdefault(producer_id, {})
            for step, partition in enumerate(chosen):
                pending[group_id, partition] = Written(next(self.order), offset + step)

    @rule(producer_id=producers, committed=st.booleans())
    def end_txn(self, producer_id: int, committed: bool) -> None:
        self.shard.end_txn(producer_id, committed=committed)
        for where, written in self.transactions.pop(producer_id, {}).items():
            if committed and (where not in self.committed or self.committed[where].order < written.order):
                self.committed[where] = written

    @precondition(lambda self: self.shard.core.groups)
    @rule(what=st.sampled_from(["offset", "group", "expired", "expired later", "topic"]), partition=partitions)
    def delete(self, what: str, partition: TopicPartition) -> None:
        written_before = len(self.shard.log)
        match what:
            case "offset":
                self.shard.delete_offsets(partition)
            case "group":
                self.shard.delete_groups(GROUP, OTHER_GROUP)
            case "expired":
                self.shard.expire_offsets()
            case "expired later":
                self.shard.wait(self.shard.parameters.offsets_retention_ms)
                self.shard.expire_offsets()
            case "topic":
                self.shard.perform(
                    self.shard.core.on_topics_deleted({partition.topic: ZERO_TOPIC_ID}, self.shard.core.group_ids())
                )
        # Which deletions are granted is checked elsewhere; here, that they take what they say and nothing else.
        for entry in self.shard.log[written_before:]:
            record = decode(entry) if isinstance(entry, Logged) else None
            if isinstance(record, OffsetRemoved):
                where = record.group, TopicPartition(record.topic, record.partition)
                assert not what.startswith("expired") or not self.is_pending(where)
                self.committed.pop(where, None)
                for pending in self.transactions.values():
                    pending.pop(where, None)
            elif isinstance(record, GroupRemoved):
                assert not any(self.is_pending((record.group, partition)) for partition in PARTITIONS)

    def is_pending(self, where: Where) -> bool:
        return any(where in pending for pending in self.transactions.values())

    @rule(error=st.sampled_from([ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_LEADER_OR_FOLLOWER]))
    def next_append_fails(self, error: ErrorCode) -> None:
        self.shard.next_append_error = error

    @rule()
    def crash(self) -> None:
        before = self.group
        durable = describe(before) if before is not None and before.state in (STABLE, EMPTY) else None
        ahead = before is not None and before.generation != self.stored_generation()
        self.last_generation = self.stored_generation()
        self.shard.crash()
        # A failed append of an empty generation leaves memory one generation ahead of the log, and a compacted log
        # knows nothing of a group that has nothing.
        if durable is not None and not ahead:
            assert describe(self.group or ClassicGroup(GROUP, MemberMemory())) == durable

    @rule()
    def compact(self) -> None:
        self.shard.compact()

    def stored_generation(self) -> int:
        generation = 0
        for record in self.shard.stored():
            if isinstance(record, GroupStored):
                generation = record.generation
            elif isinstance(record, GroupRemoved) and record.group == GROUP:
                generation = 0
        return generation

    @invariant()
    def offsets_are_those_that_were_written_last_and_not_taken_back(self) -> None:
        expected = {where: written.offset for where, written in self.committed.items()}
        every = [(group_id, partition) for group_id in (GROUP, OTHER_GROUP) for partition in PARTITIONS]
        for core in (self.shard.core, reloaded(self.shard)):
            found = [it for group_id in (GROUP, OTHER_GROUP) for it in core.fetch_all_offsets(group_id)]
            assert {(it.group, TopicPartition(it.topic, it.partition)): it.offset for it in found} == expected
            assert [core.is_unstable(group_id, *partition) for group_id, partition in every] == [
                self.is_pending(where) for where in every
            ]

    def teardown(self) -> None:
        """When all transactions have ended and all retention is over, nothing is left."""
        if not hasattr(self, "shell"):
            return
        self.shard.next_append_error = None
        for producer_id in PRODUCERS:
            self.end_txn(producer_id, committed=True)
        self.offsets_are_those_that_were_written_last_and_not_taken_back()
        self.shard.wait(self.shard.parameters.offsets_retention_ms)
        self.shard.expire_offsets()
        assert self.shard.core.groups == reloaded(self.shard).groups == {}


def describe(group: ClassicGroup) -> tuple[object, ...]:
    """All that is durable."""
    members = {
        member.member_id: (
            member.group_instance_id,
            member.client_id,
            member.client_host,
            member.session_timeout_ms,
            member.rebalance_timeout_ms,
            member.metadata(group.protocol),
            member.assignment,
        )
        for member in group.members.values()
    }
    durable = (group.state, group.state_timestamp_ms, group.generation, group.protocol_type, group.protocol)
    offsets = sorted(group.offsets), sorted(group.offsets.pending()), sorted(group.offsets.partitions())
    return (*durable, group.leader, group.subscribed_topics, members, *offsets)


def reloaded(shard: Shard) -> GroupCore:
    core = GroupCore(shard.parameters, lambda: "never")
    shard.replay_log(core)
    return core


TestOffsetInterleavings = OffsetInterleavings.TestCase
TestOffsetInterleavings.settings = settings(max_examples=150, stateful_step_count=30, deadline=None, derandomize=True)
