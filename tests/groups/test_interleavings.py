"""Any interleaving of commands, transactions, timeouts, failed appends and crashes keeps what a group promises."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from ottla.errors import ErrorCode
from ottla.groups.commands import LeavingMember, Protocol
from ottla.groups.effects import TimerKey, TimerKind
from ottla.groups.group import pending_size
from ottla.groups.parameters import GroupParameters
from ottla.groups.results import JoinResult
from ottla.groups.state import COMPLETING_REBALANCE, EMPTY, PREPARING_REBALANCE, STABLE
from tests.groups.shard import protocols
from tests.groups.test_offset_interleavings import GROUP, OffsetInterleavings, picks

OFFERS = [
    protocols("range"),
    protocols("range", "sticky", "range"),
    protocols("sticky", "range", topics=("views",)),
]

offers = st.sampled_from(OFFERS)
instances = st.sampled_from([None, None, "one", "two"])
sessions = st.sampled_from([6_000, 20_000])
rebalances = st.sampled_from([7_000, 30_000])


class Interleavings(OffsetInterleavings):
    @initialize(delay=st.sampled_from([0, 3_000]), size=st.sampled_from([2, 100]), members=st.integers(0, 3))
    def start(self, delay: int, size: int, members: int) -> None:
        self.begin(GroupParameters(group_initial_rebalance_delay_ms=delay, group_max_size=size))
        for _ in range(members):
            self.join(None, OFFERS[0], 20_000, 30_000, 3)
        self.settle()

    @rule(instance=instances, offer=offers, session=sessions, rebalance=rebalances, version=st.sampled_from([3, 8, 9]))
    def join(
        self, instance: str | None, offer: tuple[Protocol, ...], session: int, rebalance: int, version: int
    ) -> None:
        token = self.shard.join(
            "client",
            instance_id=instance,
            offered=offer,
            session_timeout_ms=session,
            rebalance_timeout_ms=rebalance,
            version=version,
        )
        result = self.shard.replies.get(token)
        if isinstance(result, JoinResult) and result.error is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_ids.append((result.member_id, None))

    @rule(pick=picks, offer=offers, rebalance=rebalances)
    def join_again(self, pick: int, offer: tuple[Protocol, ...], rebalance: int) -> None:
        member_id, instance = self.pick_member(pick)
        self.shard.join(
            "client", member_id=member_id, instance_id=instance, offered=offer, rebalance_timeout_ms=rebalance
        )

    @rule()
    def everybody_joins_again(self) -> None:
        for member in list(self.group.members.values()) if self.group else []:
            self.shard.join(
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
        self.shard.sync(member_id, generation - back, assignments, instance_id=instance)

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
        while group is not None and group.state is PREPARING_REBALANCE and group.members and self.shard.timers:
            self.shard.fire_next()
        self.everybody_syncs()

    @rule(pick=picks)
    def heartbeat(self, pick: int) -> None:
        group = self.group
        member_id, instance = self.pick_member(pick)
        error = self.shard.heartbeat(member_id, group.generation if group else 0, instance_id=instance)
        known = group is not None and member_id in group.members
        assert known == (error in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS))

    @rule(pick=picks, by_instance=st.booleans())
    def leave(self, pick: int, by_instance: bool) -> None:
        member_id, instance = self.pick_member(pick)
        self.shard.leave(LeavingMember("" if by_instance and instance else member_id, instance))
        assert self.group is None or member_id not in self.group.members

    @rule(duration_ms=st.sampled_from([0, 1_000, 6_000, 40_000]))
    def wait(self, duration_ms: int) -> None:
        self.shard.wait(duration_ms)

    @precondition(lambda self: self.shard.timers)
    @rule()
    def next_timer(self) -> None:
        self.shard.fire_next()

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
    def the_memory_of_members_is_counted(self) -> None:
        members = [member.size for group in self.shard.core.groups.values() for member in group.members.values()]
        pending = [pending_size(each) for group in self.shard.core.groups.values() for each in group.pending_join]
        topics = [group.subscription_bytes for group in self.shard.core.groups.values()]
        assert self.shard.core.memory.used == sum(members) + sum(pending) + sum(topics)

    @invariant()
    def requests_wait_only_where_the_state_says_so(self) -> None:
        group = self.group
        members = group.members.values() if group else []
        joining = {member.join_token for member in members if member.join_token is not None}
        syncing = {member.sync_token for member in members if member.sync_token is not None}
        assert sorted(joining | syncing, key=str) == sorted(self.shard.waiting, key=str)
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
        timers = self.shard.timers
        for member in group.members.values():
            assert timers[TimerKey(TimerKind.SESSION, GROUP, member.member_id)] <= member.session_deadline_ms
        for member_id in group.pending_join:
            assert TimerKey(TimerKind.SESSION, GROUP, member_id) in timers
        assert (TimerKey(TimerKind.JOIN, GROUP) in timers) == (group.state is PREPARING_REBALANCE)
        assert (TimerKey(TimerKind.SYNC, GROUP) in timers) == bool(group.pending_sync)

    def teardown(self) -> None:
        """Left alone, every group comes to rest and every request to an answer."""
        if not hasattr(self, "shell"):
            return
        for _ in range(200):
            if not self.shard.timers:
                break
            self.shard.fire_next()
        assert not self.shard.timers
        assert not self.shard.waiting
        assert self.group is None or self.group.state is EMPTY
        super().teardown()


TestInterleavings = Interleavings.TestCase
TestInterleavings.settings = settings(max_examples=60, stateful_step_count=40, deadline=None, derandomize=True)
