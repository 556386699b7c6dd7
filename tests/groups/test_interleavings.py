"""Any interleaving of commands, timeouts, failed appends and crashes keeps what a group promises."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ottla.errors import ErrorCode
from ottla.groups.commands import LeavingMember, PartitionCommit, Protocol
from ottla.groups.coordinator import GroupCore
from ottla.groups.effects import TimerKey, TimerKind
from ottla.groups.group import Group
from ottla.groups.parameters import GroupParameters
from ottla.groups.records import GroupRemoved, GroupStored
from ottla.groups.results import CommitResult, JoinResult
from ottla.groups.state import COMPLETING_REBALANCE, EMPTY, PREPARING_REBALANCE, STABLE
from ottla.model import ZERO_TOPIC_ID, TopicPartition
from tests.groups.shell import Shell, protocols

GROUP = "g"
OFFERS = [
    protocols("range"),
    protocols("range", "sticky", "range"),
    protocols("sticky", "range", topics=("views",)),
]
PARTITIONS = [TopicPartition("clicks", 0), TopicPartition("clicks", 1), TopicPartition("views", 0)]

offers = st.sampled_from(OFFERS)
instances = st.sampled_from([None, None, "one", "two"])
sessions = st.sampled_from([6_000, 20_000])
rebalances = st.sampled_from([7_000, 30_000])
partitions = st.sampled_from(PARTITIONS)
picks = st.integers(0, 7)


class Interleavings(RuleBasedStateMachine):
    @initialize(delay=st.sampled_from([0, 3_000]), size=st.sampled_from([2, 100]), members=st.integers(0, 3))
    def start(self, delay: int, size: int, members: int) -> None:
        self.shell = Shell(GroupParameters(group_initial_rebalance_delay_ms=delay, group_max_size=size))
        self.member_ids: list[tuple[str, str | None]] = []
        self.committed: dict[TopicPartition, int] = {}
        self.last_generation = 0
        for _ in range(members):
            self.join(None, OFFERS[0], 20_000, 30_000, 3)
        self.settle()

    @property
    def group(self) -> Group | None:
        return self.shell.core.groups.get(GROUP)

    def pick_member(self, pick: int) -> tuple[str, str | None]:
        """A member of the group if there is one, else (or sometimes) one that was, or never was."""
        group = self.group
        members = list(group.members.values()) if group else []
        if members and pick < 6:
            member = members[pick % len(members)]
            return member.member_id, member.group_instance_id
        return self.member_ids[pick % len(self.member_ids)] if self.member_ids else ("nobody-0", None)

    @rule(instance=instances, offer=offers, session=sessions, rebalance=rebalances, version=st.sampled_from([3, 8, 9]))
    def join(
        self, instance: str | None, offer: tuple[Protocol, ...], session: int, rebalance: int, version: int
    ) -> None:
        token = self.shell.join(
            "client",
            instance_id=instance,
            offered=offer,
            session_timeout_ms=session,
            rebalance_timeout_ms=rebalance,
            version=version,
        )
        result = self.shell.replies.get(token)
        if isinstance(result, JoinResult) and result.error is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_ids.append((result.member_id, None))

    @rule(pick=picks, offer=offers, rebalance=rebalances)
    def join_again(self, pick: int, offer: tuple[Protocol, ...], rebalance: int) -> None:
        member_id, instance = self.pick_member(pick)
        self.shell.join(
            "client", member_id=member_id, instance_id=instance, offered=offer, rebalance_timeout_ms=rebalance
        )

    @rule()
    def everybody_joins_again(self) -> None:
        for member in list(self.group.members.values()) if self.group else []:
            self.shell.join(
                "client",
                member_id=member.member_id,
                instance_id=member.group_instance_id,
                offered=member.protocols,
                session_timeout_ms=member.session_timeout_ms,
                rebalance_timeout_ms=member.rebalance_timeout_ms,
            )

    @rule(pick=picks, back=st.sampled_from([0, 0, 0, 1]))
    def sync(self, pick: int, back: int) -> None:
        group = self.group
        generation = group.generation if group else 0
        assignments = dict.fromkeys(group.members, b"assigned") if group else {}
        member_id, instance = self.pick_member(pick)
        self.shell.sync(member_id, generation - back, assignments, instance_id=instance)

    @rule()
    def everybody_syncs(self) -> None:
        for pick in range(len(self.group.members) if self.group else 0):
            self.sync(pick, 0)

    @rule()
    def settle(self) -> None:
        """What well-behaved clients do: join when they are told to, sync when they have joined."""
        group = self.group
        if group is not None and group.state is PREPARING_REBALANCE:
            self.everybody_joins_again()
        while group is not None and group.state is PREPARING_REBALANCE and group.members and self.shell.timers:
            self.shell.fire_next()
        self.everybody_syncs()

    @rule(pick=picks)
    def heartbeat(self, pick: int) -> None:
        group = self.group
        member_id, instance = self.pick_member(pick)
        error = self.shell.heartbeat(member_id, group.generation if group else 0, instance_id=instance)
        known = group is not None and member_id in group.members
        assert known == (error in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS))

    @rule(pick=picks, by_instance=st.booleans())
    def leave(self, pick: int, by_instance: bool) -> None:
        member_id, instance = self.pick_member(pick)
        self.shell.leave(LeavingMember("" if by_instance and instance else member_id, instance))
        assert self.group is None or member_id not in self.group.members

    @rule(pick=picks, partition=partitions, offset=st.integers(0, 99), anonymous=st.booleans())
    def commit(self, pick: int, partition: TopicPartition, offset: int, anonymous: bool) -> None:
        group = self.group
        member_id, instance = ("", None) if anonymous else self.pick_member(pick)
        token = self.shell.commit(
            PartitionCommit(*partition, offset),
            member_id=member_id,
            instance_id=instance,
            generation_id=-1 if anonymous or group is None else group.generation,
        )
        result = self.shell.replies[token]
        assert isinstance(result, CommitResult)
        if result.errors == (ErrorCode.NONE,):
            self.committed[partition] = offset

    @rule(what=st.sampled_from(["offset", "group", "expired", "topic"]), partition=partitions)
    def delete(self, what: str, partition: TopicPartition) -> None:
        match what:
            case "offset":
                self.shell.delete_offsets(partition)
            case "group":
                self.shell.delete_groups(GROUP)
            case "expired":
                self.shell.expire_offsets()
            case "topic":
                self.shell.perform(self.shell.core.on_topics_deleted({partition.topic: ZERO_TOPIC_ID}))
        # What deletions do is checked elsewhere; here it is enough that what they leave stays.
        left = {(it.topic, it.partition) for it in self.shell.core.fetch_all_offsets(GROUP)}
        self.committed = {where: offset for where, offset in self.committed.items() if where in left}

    @rule(duration_ms=st.sampled_from([0, 1_000, 6_000, 40_000]))
    def wait(self, duration_ms: int) -> None:
        self.shell.wait(duration_ms)

    @precondition(lambda self: self.shell.timers)
    @rule()
    def next_timer(self) -> None:
        self.shell.fire_next()

    @rule(error=st.sampled_from([ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_LEADER_OR_FOLLOWER]))
    def next_append_fails(self, error: ErrorCode) -> None:
        self.shell.next_append_error = error

    @rule()
    def crash(self) -> None:
        before = self.group
        durable = describe(before) if before is not None and before.state in (STABLE, EMPTY) else None
        ahead = before is not None and before.generation != self.stored_generation()
        self.last_generation = self.stored_generation()
        self.shell.crash()
        # A failed append of an empty generation leaves memory one generation ahead of the log.
        if durable is not None and not ahead:
            assert self.group is not None
            assert describe(self.group) == durable

    def stored_generation(self) -> int:
        generation = 0
        for record in self.shell.stored():
            if isinstance(record, GroupStored):
                generation = record.generation
            elif isinstance(record, GroupRemoved):
                generation = 0
        return generation

    @invariant()
    def generation_never_goes_back(self) -> None:
        if self.group is None:
            self.last_generation = 0
        else:
            assert self.group.generation >= self.last_generation
            self.last_generation = self.group.generation

    @invariant()
    def one_leader_who_is_a_member(self) -> None:
        if self.group is not None:
            assert (self.group.leader in self.group.members) if self.group.members else self.group.leader is None

    @invariant()
    def the_books_are_right(self) -> None:
        group = self.group
        if group is None:
            return
        members = group.members.values()
        assert group.awaiting_join == sum(member.join_token is not None for member in members)
        assert group.static_members == {it.group_instance_id: it.member_id for it in members if it.group_instance_id}
        assert not group.pending_join & group.members.keys()
        assert group.pending_sync <= group.members.keys()
        assert not members or group.select_protocol() in {"range", "sticky"}

    @invariant()
    def requests_wait_only_where_the_state_says_so(self) -> None:
        group = self.group
        members = group.members.values() if group else []
        joining = {member.join_token for member in members if member.join_token is not None}
        syncing = {member.sync_token for member in members if member.sync_token is not None}
        assert sorted(joining | syncing, key=str) == sorted(self.shell.waiting, key=str)
        assert not joining or (group is not None and group.state is PREPARING_REBALANCE)
        assert not syncing or (group is not None and group.state is COMPLETING_REBALANCE)

    @invariant()
    def a_group_at_rest_is_complete(self) -> None:
        group = self.group
        if group is not None and group.state is STABLE:
            assert group.members
            assert all(member.assignment == b"assigned" for member in group.members.values())
        if group is not None and group.state is EMPTY:
            assert not group.members

    @invariant()
    def something_always_moves_a_group_on(self) -> None:
        group = self.group
        if group is None:
            return
        timers = self.shell.timers
        for member in group.members.values():
            assert timers[TimerKey(TimerKind.SESSION, GROUP, member.member_id)] <= member.session_deadline_ms
        for member_id in group.pending_join:
            assert TimerKey(TimerKind.SESSION, GROUP, member_id) in timers
        assert (TimerKey(TimerKind.JOIN, GROUP) in timers) == (group.state is PREPARING_REBALANCE)
        assert (TimerKey(TimerKind.SYNC, GROUP) in timers) == bool(group.pending_sync)

    @invariant()
    def committed_offsets_survive(self) -> None:
        expected = sorted((*where, offset) for where, offset in self.committed.items())
        for core in (self.shell.core, reloaded(self.shell)):
            offsets = core.fetch_all_offsets(GROUP)
            assert sorted((it.topic, it.partition, it.offset) for it in offsets) == expected

    def teardown(self) -> None:
        """Left alone, every group comes to rest and every request to an answer."""
        if not hasattr(self, "shell"):
            return
        for _ in range(200):
            if not self.shell.timers:
                break
            self.shell.fire_next()
        assert not self.shell.timers
        assert not self.shell.waiting
        assert self.group is None or self.group.state is EMPTY


def describe(group: Group) -> tuple[object, ...]:
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
    return (*durable, group.leader, group.subscribed_topics, members, list(group.offsets))


def reloaded(shell: Shell) -> GroupCore:
    core = GroupCore(shell.parameters, lambda: "never")
    for record in shell.stored():
        core.replay(record)
    return core


TestInterleavings = Interleavings.TestCase
TestInterleavings.settings = settings(max_examples=60, stateful_step_count=40, deadline=None, derandomize=True)
