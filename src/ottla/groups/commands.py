"""The commands to a group, as plain data."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ottla.model import NO_LEADER_EPOCH, NO_TIMESTAMP, ZERO_TOPIC_ID, Producer, TopicId

NO_GENERATION = -1
UNKNOWN_MEMBER = ""
"""The member id of a client that has none yet."""


class Protocol(NamedTuple):
    """An assignment protocol that a member supports. The metadata is the subscription; only clients read it."""

    name: str
    metadata: bytes


class Join(NamedTuple):
    group_id: str
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[Protocol, ...]
    reason: str = ""
    require_known_member_id: bool = True
    """KIP-394, JoinGroup 4 and up: a new dynamic member gets an id and must join again with it."""
    supports_skip_assignment: bool = True
    """KIP-814, JoinGroup 9: the reply may tell a returning static leader to skip the assignment."""


class Sync(NamedTuple):
    group_id: str
    member_id: str
    group_instance_id: str | None
    generation_id: int
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: Mapping[str, bytes] | None = None
    """By member id. Only the leader's assignments are used."""


class LeavingMember(NamedTuple):
    """A member by its member id. Administrators may name a static member by its instance id alone."""

    member_id: str
    group_instance_id: str | None = None
    reason: str | None = None


class PartitionCommit(NamedTuple):
    topic: str
    partition: int
    offset: int
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str | None = None
    topic_id: TopicId = ZERO_TOPIC_ID


class Commit(NamedTuple):
    group_id: str
    partitions: Sequence[PartitionCommit]
    member_id: str = UNKNOWN_MEMBER
    group_instance_id: str | None = None
    generation_id: int = NO_GENERATION
    retention_time_ms: int = NO_TIMESTAMP
    """Only OffsetCommit 2 to 4 can set it. Otherwise `offsets.retention.minutes` applies."""
    knows_group_id_not_found: bool = True
    """OffsetCommit 9 and up: the client knows the error GROUP_ID_NOT_FOUND."""


class TxnCommit(NamedTuple):
    """TxnOffsetCommit: the offsets take effect when the producer's transaction is committed."""

    group_id: str
    producer: Producer
    partitions: Sequence[PartitionCommit]
    member_id: str = UNKNOWN_MEMBER
    """The consumer. It is fenced if it is not a member of the current generation (KIP-447, version 3 and up)."""
    group_instance_id: str | None = None
    generation_id: int = NO_GENERATION
