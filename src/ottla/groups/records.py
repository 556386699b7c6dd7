"""The records of `__consumer_offsets`, in Kafka's own format: docs/formats/consumer-offsets.md.

A key is a 2-byte record type and the fields of the key. A value is a 2-byte version and the fields of the value. A
record without a value is a tombstone, which has its own class here.
"""

import struct
from typing import NamedTuple, TypeAlias

from ottla.model import NO_LEADER_EPOCH, NO_TIMESTAMP, ZERO_TOPIC_ID, TopicId
from ottla.wire import codec
from ottla.wire.api.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)

OFFSET_COMMIT_LEGACY = 0
"""The record type of early brokers. It has the same fields. Ottla reads but never writes it."""
OFFSET_COMMIT = 1
GROUP_METADATA = 2

OFFSET_COMMIT_VALUE_VERSION = 4
"""The version that Kafka 4.3 writes. It is flexible, and the topic id is an optional tagged field."""
OFFSET_COMMIT_VALUE_WITH_EXPIRY = 1
"""The only version with an expiry timestamp for each offset."""
GROUP_METADATA_VALUE_VERSION = 3

_SHORT = struct.Struct(">h")


class OffsetCommitted(NamedTuple):
    """The committed offset of a group for a partition."""

    group: str
    topic: str
    partition: int
    offset: int
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str = ""
    commit_timestamp_ms: int = NO_TIMESTAMP
    expire_timestamp_ms: int = NO_TIMESTAMP
    topic_id: TopicId = ZERO_TOPIC_ID


class OffsetRemoved(NamedTuple):
    group: str
    topic: str
    partition: int


class StoredMember(NamedTuple):
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    """The member's metadata for the selected protocol. Metadata for other protocols is not stored."""
    assignment: bytes


class GroupStored(NamedTuple):
    """A stable group with its members and their assignments, or an empty group."""

    group: str
    generation: int = 0
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str | None = None
    state_timestamp_ms: int = NO_TIMESTAMP
    members: tuple[StoredMember, ...] = ()


class GroupRemoved(NamedTuple):
    group: str


Record: TypeAlias = OffsetCommitted | OffsetRemoved | GroupStored | GroupRemoved


def encode(record: Record) -> tuple[bytes, bytes | None]:
    """The key and the value of the record."""
    match record:
        case OffsetCommitted():
            return _offset_key(record), _offset_value(record)
        case OffsetRemoved():
            return _offset_key(record), None
        case GroupStored():
            return _group_key(record.group), _group_value(record)
        case GroupRemoved():
            return _group_key(record.group), None


def decode(key: bytes, value: bytes | None) -> Record | None:
    """The record, or None if this broker does not know its type or version. Such records are ignored (KIP-915)."""
    (record_type,) = _SHORT.unpack_from(key)
    if record_type in (OFFSET_COMMIT_LEGACY, OFFSET_COMMIT):
        offset_key, _ = codec.decode(OffsetCommitKey, key, record_type, 2)
        return _decode_offset(offset_key, value)
    if record_type == GROUP_METADATA:
        group_key, _ = codec.decode(GroupMetadataKey, key, record_type, 2)
        return _decode_group(group_key.group, value)
    return None


def _offset_key(record: OffsetCommitted | OffsetRemoved) -> bytes:
    key = OffsetCommitKey(group=record.group, topic=record.topic, partition=record.partition)
    return _SHORT.pack(OFFSET_COMMIT) + codec.encode(key, OFFSET_COMMIT)


def _group_key(group: str) -> bytes:
    return _SHORT.pack(GROUP_METADATA) + codec.encode(GroupMetadataKey(group=group), GROUP_METADATA)


def _offset_value(record: OffsetCommitted) -> bytes:
    expires = record.expire_timestamp_ms != NO_TIMESTAMP
    version = OFFSET_COMMIT_VALUE_WITH_EXPIRY if expires else OFFSET_COMMIT_VALUE_VERSION
    value = OffsetCommitValue(
        offset=record.offset,
        leader_epoch=record.leader_epoch,
        metadata=record.metadata,
        commit_timestamp=record.commit_timestamp_ms,
        expire_timestamp=record.expire_timestamp_ms,
        topic_id=record.topic_id,
    )
    return _SHORT.pack(version) + codec.encode(value, version)


def _decode_offset(key: OffsetCommitKey, value: bytes | None) -> Record | None:
    if value is None:
        return OffsetRemoved(key.group, key.topic, key.partition)
    (version,) = _SHORT.unpack_from(value)
    if version > OffsetCommitValue.max_version:
        return None
    stored, _ = codec.decode(OffsetCommitValue, value, version, 2)
    return OffsetCommitted(
        group=key.group,
        topic=key.topic,
        partition=key.partition,
        offset=stored.offset,
        leader_epoch=stored.leader_epoch,
        metadata=stored.metadata,
        commit_timestamp_ms=stored.commit_timestamp,
        expire_timestamp_ms=stored.expire_timestamp,
        topic_id=TopicId(bytes(stored.topic_id)),
    )


def _group_value(record: GroupStored) -> bytes:
    value = GroupMetadataValue(
        protocol_type=record.protocol_type or "",
        generation=record.generation,
        protocol=record.protocol,
        leader=record.leader,
        current_state_timestamp=record.state_timestamp_ms,
        members=[
            MemberMetadata(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.subscription,
                assignment=member.assignment,
            )
            for member in record.members
        ],
    )
    return _SHORT.pack(GROUP_METADATA_VALUE_VERSION) + codec.encode(value, GROUP_METADATA_VALUE_VERSION)


def _decode_group(group: str, value: bytes | None) -> Record | None:
    if value is None:
        return GroupRemoved(group)
    (version,) = _SHORT.unpack_from(value)
    if version > GroupMetadataValue.max_version:
        return None
    stored, _ = codec.decode(GroupMetadataValue, value, version, 2)
    return GroupStored(
        group=group,
        generation=stored.generation,
        protocol_type=stored.protocol_type or None,
        protocol=stored.protocol,
        leader=stored.leader,
        state_timestamp_ms=stored.current_state_timestamp,
        members=tuple(_decode_member(member) for member in stored.members),
    )


def _decode_member(member: MemberMetadata) -> StoredMember:
    # Version 0 has no rebalance timeout: the session timeout is used for both.
    rebalance_timeout = member.session_timeout if member.rebalance_timeout == -1 else member.rebalance_timeout
    return StoredMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=rebalance_timeout,
        session_timeout_ms=member.session_timeout,
        subscription=member.subscription,
        assignment=member.assignment,
    )
