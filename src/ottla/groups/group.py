"""One classic group: its members, their protocol and assignments, and their waiting requests.

During a rebalance the membership is in memory only. The durable state (generation, protocol, leader, members and
assignments of a stable or empty group) changes only by `restore` from a record.
"""

import struct
from collections import Counter
from collections.abc import Container, Mapping
from dataclasses import dataclass
from sys import getsizeof

from ottla.coordinator_core.effects import Now, Token
from ottla.errors import ErrorCode
from ottla.groups.commands import Protocol
from ottla.groups.memory import MemberMemory
from ottla.groups.offsets import Offsets
from ottla.groups.records import GroupStored, OffsetCommitted, StoredMember
from ottla.groups.results import JoinedMember
from ottla.groups.state import COMPLETING_REBALANCE, EMPTY, PREPARING_REBALANCE, STABLE, TRANSITIONS, GroupState
from ottla.model import NO_TIMESTAMP

CONSUMER_PROTOCOL_TYPE = "consumer"
"""The only protocol type whose metadata the broker can parse: it has the subscribed topics."""

_MEMBER_OVERHEAD = 1000
"""About the bytes of a member without its names, protocols and assignment."""

_PROTOCOL_OVERHEAD = 100

_TOPIC_BYTES = 150
"""About the bytes of a topic in the set of subscribed topics. In the metadata a topic may have three bytes."""

_MAX_SUBSCRIPTIONS = 100_000
"""The most topics of all members together that the broker parses. More would hold the event loop."""


@dataclass(slots=True)
class Member:
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[Protocol, ...]
    """In the member's order of preference."""
    assignment: bytes = b""
    join_token: Token | None = None
    sync_token: Token | None = None
    is_new: bool = False
    """True until the first JoinGroup is answered. Before that the client cannot send heartbeats."""
    session_deadline_ms: int = 0
    """Every heartbeat moves it. The timer is not moved: when it fires, the core checks the deadline."""
    timer_at_ms: int | None = None
    """The time of the session timer. Never later than the deadline."""
    counted_bytes: int = 0
    """The bytes of this member that the group has added to the memory of members."""

    @property
    def size(self) -> int:
        """About the bytes of memory that this member takes."""
        names = (self.member_id, self.group_instance_id, self.client_id, self.client_host)
        protocols = sum(_PROTOCOL_OVERHEAD + getsizeof(name) + getsizeof(data) for name, data in self.protocols)
        return _MEMBER_OVERHEAD + sum(map(getsizeof, names)) + protocols + getsizeof(self.assignment)

    def touch(self, steady_ms: int) -> None:
        """Renew the session. The deadline never moves to an earlier time, so the timer need not be set again."""
        self.session_deadline_ms = max(self.session_deadline_ms, steady_ms + self.session_timeout_ms)

    def metadata(self, protocol: str | None) -> bytes:
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")

    def vote(self, candidates: Container[str]) -> str:
        return next(name for name, _ in self.protocols if name in candidates)

    @property
    def excused_from_heartbeat(self) -> bool:
        """A member that waits for a reply sends no heartbeats. A new member must, or it could wait forever."""
        return not self.is_new and (self.join_token is not None or self.sync_token is not None)

    def stored(self, protocol: str | None, assignment: bytes) -> StoredMember:
        return StoredMember(
            member_id=self.member_id,
            group_instance_id=self.group_instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            session_timeout_ms=self.session_timeout_ms,
            subscription=self.metadata(protocol),
            assignment=assignment,
        )


@dataclass(slots=True)
class InitialDelay:
    """The delay before the first rebalance of an empty group. It restarts when a member joins."""

    delay_ms: int
    remaining_ms: int
    member_added: bool = False


class ClassicGroup:
    """Invariants: the leader is a member, `awaiting_join` is the number of members with a join token, and all members
    support at least one common protocol."""

    type = "classic"

    __slots__ = (
        "_memory",
        "_supporters",
        "awaiting_join",
        "generation",
        "group_id",
        "initial_delay",
        "join_deadline_ms",
        "leader",
        "members",
        "offsets",
        "pending_join",
        "pending_sync",
        "protocol",
        "protocol_type",
        "state",
        "state_timestamp_ms",
        "static_members",
        "subscribed_topics",
        "sync_deadline_ms",
    )

    def __init__(self, group_id: str, memory: MemberMemory) -> None:
        self.group_id = group_id
        self._memory = memory
        self.state = EMPTY
        self.state_timestamp_ms: int = NO_TIMESTAMP
        self.generation = 0
        self.protocol_type: str | None = None
        """None for a simple group, which only stores offsets."""
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}
        """The member id of each group instance id (KIP-345)."""
        self.pending_join: set[str] = set()
        """Member ids that clients got but have not joined with yet (KIP-394)."""
        self.pending_sync: set[str] = set()
        """Members of this generation that have not sent SyncGroup yet."""
        self.subscribed_topics: frozenset[str] | None = None
        """None if the broker cannot parse the subscriptions, or if they have too many topics."""
        self.offsets = Offsets()
        self.awaiting_join = 0
        self.initial_delay: InitialDelay | None = None
        self.join_deadline_ms: int | None = None
        self.sync_deadline_ms: int | None = None
        self._supporters: Counter[str] = Counter()

    def add(self, member: Member) -> None:
        self.members[member.member_id] = member
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member.member_id
        self._supporters.update(_names(member.protocols))
        if self.leader not in self.members:
            self.leader = member.member_id
        self._remove_pending(member.member_id)
        self._count(member)

    def add_pending(self, member_id: str) -> None:
        """Add a member id that a client got but has not joined with yet."""
        self.pending_join.add(member_id)
        self._memory.used += pending_size(member_id)

    def _remove_pending(self, member_id: str) -> None:
        if member_id in self.pending_join:
            self.pending_join.remove(member_id)
            self._memory.used -= pending_size(member_id)

    def _count(self, member: Member) -> None:
        size = member.size
        self._memory.used += size - member.counted_bytes
        member.counted_bytes = size

    def _uncount(self, member: Member) -> None:
        self._memory.used -= member.counted_bytes
        member.counted_bytes = 0

    def remove(self, member_id: str) -> Member | None:
        """Remove a member or a pending member. The caller answers its waiting requests."""
        self._remove_pending(member_id)
        self.pending_sync.discard(member_id)
        member = self.members.pop(member_id, None)
        if member is None:
            return None
        self._uncount(member)
        self._remove_support(member)
        if member.join_token is not None:
            self.awaiting_join -= 1
        if member.group_instance_id is not None:
            self.static_members.pop(member.group_instance_id, None)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        return member

    def remove_all(self) -> None:
        """Remove all members and pending members, because the group is deleted."""
        for member_id in (*self.members, *self.pending_join):
            self.remove(member_id)
        self._update_subscriptions()

    def replace(self, old: Member, new: Member) -> None:
        """Replace a static member that has restarted. If the old member led, the new one becomes the leader."""
        led = self.leader == old.member_id
        self.remove(old.member_id)
        self.add(new)
        if led:
            self.leader = new.member_id

    def update_protocols(self, member: Member, protocols: tuple[Protocol, ...]) -> None:
        self._remove_support(member)
        self._supporters.update(_names(protocols))
        member.protocols = protocols
        self._count(member)

    def _remove_support(self, member: Member) -> None:
        for name in _names(member.protocols):
            self._supporters[name] -= 1
            if self._supporters[name] == 0:
                del self._supporters[name]  # Otherwise a member that joins with new names again and again adds names.

    def clear_assignment(self, member: Member) -> None:
        member.assignment = b""
        self._count(member)

    def park_join(self, member: Member, token: Token) -> Token | None:
        """Let a JoinGroup wait for the rebalance. Returns the token of an earlier JoinGroup that it replaces."""
        earlier, member.join_token = member.join_token, token
        if earlier is None:
            self.awaiting_join += 1
        return earlier

    def take_join(self, member: Member) -> Token | None:
        token, member.join_token = member.join_token, None
        if token is not None:
            self.awaiting_join -= 1
        return token

    def check_member(self, member_id: str, group_instance_id: str | None) -> ErrorCode:
        if group_instance_id is not None:
            current = self.static_members.get(group_instance_id)
            if current is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if current != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    @property
    def all_joined(self) -> bool:
        return self.awaiting_join == len(self.members) and not self.pending_join

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def elect_joined_leader(self) -> bool:
        """Elect another leader if the present one has not joined. Returns False if no member has joined."""
        leader = self.members.get(self.leader) if self.leader is not None else None
        if leader is not None and leader.join_token is not None:
            return True
        for member in self.members.values():
            if member.join_token is not None:
                self.leader = member.member_id
                return True
        return False

    def supports(self, protocol_type: str, protocols: tuple[Protocol, ...]) -> bool:
        """Whether all members support at least one of these protocols."""
        if self.state is EMPTY:
            return protocol_type != "" and len(protocols) > 0
        return protocol_type == self.protocol_type and any(
            self._supporters[name] == len(self.members) for name, _ in protocols
        )

    def select_protocol(self) -> str:
        """Each member votes for the first of its protocols that all members support. The earliest vote breaks a tie."""
        candidates = {name for name, count in self._supporters.items() if count == len(self.members)}
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return votes.most_common(1)[0][0]

    @property
    def uses_consumer_protocol(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    def is_subscribed_to(self, topic: str) -> bool:
        """If the broker cannot parse the subscriptions of consumers, it assumes that they read every topic."""
        if self.subscribed_topics is None:
            return self.uses_consumer_protocol
        return topic in self.subscribed_topics

    def _update_subscriptions(self) -> None:
        self._memory.used -= self.subscription_bytes
        self.subscribed_topics = self._read_subscriptions()
        self._memory.used += self.subscription_bytes

    @property
    def subscription_bytes(self) -> int:
        return _TOPIC_BYTES * len(self.subscribed_topics or ())

    def _read_subscriptions(self) -> frozenset[str] | None:
        if not self.uses_consumer_protocol:
            return None
        topics: set[str] = set()
        room = _MAX_SUBSCRIPTIONS
        try:
            for member in self.members.values():
                subscribed = subscribed_topics(member.metadata(self.protocol), room)
                room -= len(subscribed)
                topics.update(subscribed)
        except ValueError:
            return None
        return frozenset(topics)

    def transition(self, target: GroupState, now: Now) -> None:
        TRANSITIONS.check(self.state, target)
        self.state = target
        self.state_timestamp_ms = now.wall_ms

    def next_generation(self, now: Now) -> None:
        """Begin the next generation: select its protocol, and wait for the leader's assignment."""
        self.generation += 1
        self.protocol = self.select_protocol()
        self._update_subscriptions()
        self.pending_sync = set(self.members)
        self.initial_delay = None
        self.transition(COMPLETING_REBALANCE, now)

    def joined_members(self) -> tuple[JoinedMember, ...]:
        return tuple(
            JoinedMember(member.member_id, member.group_instance_id, member.metadata(self.protocol))
            for member in self.members.values()
        )

    def stored(self, assignments: Mapping[str, bytes], now: Now) -> GroupStored:
        """The record of the stable group in the current generation, with these assignments."""
        return GroupStored(
            group=self.group_id,
            generation=self.generation,
            protocol_type=self.protocol_type,
            protocol=self.protocol,
            leader=self.leader,
            state_timestamp_ms=now.wall_ms,
            members=tuple(
                member.stored(self.protocol, assignments.get(member.member_id, b"")) for member in self.members.values()
            ),
        )

    def stored_empty(self, now: Now) -> GroupStored:
        """The record of the empty group."""
        return GroupStored(
            group=self.group_id,
            generation=self.generation + 1,
            protocol_type=self.protocol_type,
            state_timestamp_ms=now.wall_ms,
        )

    def restore(self, record: GroupStored) -> None:
        """Apply a record. Known members keep the state that is not stored: tokens, timers, and protocols that were not
        selected."""
        if self.state is PREPARING_REBALANCE and self.members:
            return  # The record of a new group: its first members have joined already.
        target = STABLE if record.members else EMPTY
        if self.state in (PREPARING_REBALANCE, COMPLETING_REBALANCE):
            TRANSITIONS.check(self.state, target)
        self.state = target  # The log has only these two states, so a replay may go from one to the other.
        self.state_timestamp_ms = record.state_timestamp_ms
        self.generation = record.generation
        self.protocol_type = record.protocol_type
        self.protocol = record.protocol
        self.initial_delay = None
        known, self.members, self.static_members = self.members, {}, {}
        for member in known.values():
            self._uncount(member)
        self._supporters.clear()
        for stored in record.members:
            self.add(_restored_member(known.get(stored.member_id), stored, record.protocol))
        self.leader = record.leader if record.leader in self.members else next(iter(self.members), None)
        self._update_subscriptions()

    def retention_start_ms(self, committed: OffsetCommitted) -> int | None:
        """The start of the retention of an offset, or None while the group uses the offset (KIP-211)."""
        if self.protocol_type is None:
            return committed.commit_timestamp_ms
        if self.state is EMPTY:
            has_timestamp = self.state_timestamp_ms != NO_TIMESTAMP
            return self.state_timestamp_ms if has_timestamp else committed.commit_timestamp_ms
        if self.state is STABLE and self.subscribed_topics is not None and not self.is_subscribed_to(committed.topic):
            return committed.commit_timestamp_ms
        return None


def pending_size(member_id: str) -> int:
    """About the bytes of memory that a pending member id takes."""
    return _MEMBER_OVERHEAD + getsizeof(member_id)


def _names(protocols: tuple[Protocol, ...]) -> set[str]:
    """Each name once, even if the client lists it twice."""
    return {name for name, _ in protocols}


def _restored_member(known: Member | None, stored: StoredMember, protocol: str | None) -> Member:
    if known is not None and known.metadata(protocol) == stored.subscription:
        known.client_id, known.client_host = stored.client_id, stored.client_host
        known.rebalance_timeout_ms, known.session_timeout_ms = stored.rebalance_timeout_ms, stored.session_timeout_ms
        known.assignment = stored.assignment
        return known
    return Member(
        member_id=stored.member_id,
        group_instance_id=stored.group_instance_id,
        client_id=stored.client_id,
        client_host=stored.client_host,
        rebalance_timeout_ms=stored.rebalance_timeout_ms,
        session_timeout_ms=stored.session_timeout_ms,
        protocols=(Protocol(protocol or "", stored.subscription),),
        assignment=stored.assignment,
    )


def subscribed_topics(metadata: bytes, most: int = _MAX_SUBSCRIPTIONS) -> list[str]:
    """The topics in a consumer's subscription. All versions begin with the version, then the topics. Raises ValueError
    if there are more than `most`."""
    try:
        _, count = struct.unpack_from(">hi", metadata)
        if count > most:
            raise ValueError(f"{count} topics are too many")
        position, topics = 6, []
        for _ in range(count):
            (length,) = struct.unpack_from(">h", metadata, position)
            position += 2 + length
            if length < 0 or position > len(metadata):
                raise ValueError("a topic name is cut short")
            topics.append(metadata[position - length : position].decode())
        return topics
    except struct.error as error:
        raise ValueError("a subscription is cut short") from error
