"""The records of a group coordinator in `__consumer_offsets`.

A record's key and value each start with an int16 version that is not part of the schema. In a key, the version is the
type of the record: 0 and 1 are an offset commit, 2 is a group's metadata. A record without a value is a tombstone.
"""

from ottla.model import TopicId
from ottla.wire.schema import Message, Struct, array, binary, int32, int64, string, uuid


class OffsetCommitKey(Message, versions=(0, 1)):
    group: str = string()
    topic: str = string()
    partition: int = int32()


class OffsetCommitValue(Message, versions=(0, 4), flexible=4):
    offset: int = int64()
    leader_epoch: int = int32(since=3, default=-1)
    metadata: str = string()
    commit_timestamp: int = int64()
    expire_timestamp: int = int64(since=1, until=1, default=-1)
    topic_id: TopicId = uuid(since=4, tag=0)


class GroupMetadataKey(Message, versions=(2, 2)):
    group: str = string()


class MemberMetadata(Struct):
    member_id: str = string()
    group_instance_id: str | None = string(since=3, nullable_since=0, default=None)
    client_id: str = string()
    client_host: str = string()
    rebalance_timeout: int = int32(since=1, default=-1)
    session_timeout: int = int32()
    subscription: bytes = binary()
    assignment: bytes = binary()


class GroupMetadataValue(Message, versions=(0, 4), flexible=4):
    protocol_type: str = string()
    generation: int = int32()
    protocol: str | None = string(nullable_since=0)
    leader: str | None = string(nullable_since=0)
    current_state_timestamp: int = int64(since=2, default=-1)
    members: list[MemberMetadata] = array(MemberMetadata)
