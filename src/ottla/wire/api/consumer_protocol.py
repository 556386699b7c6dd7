"""The messages between consumers in JoinGroup and SyncGroup: their subscriptions, and the leader's assignments.

They are opaque bytes for the broker, except that it reads the subscribed topics to reject the deletion of offsets in
use. Each starts with an int16 version that is not part of the schema. A reader decodes a newer version as the newest
version it knows.
"""

from ottla.wire.schema import Message, Struct, array, binary, int32, string


class TopicPartition(Struct):
    topic: str = string()
    partitions: list[int] = array(int32())


class ConsumerProtocolSubscription(Message, versions=(0, 3)):
    topics: list[str] = array(string())
    user_data: bytes | None = binary(nullable_since=0, default=None)
    owned_partitions: list[TopicPartition] = array(TopicPartition, since=1)
    generation_id: int = int32(since=2, default=-1)
    rack_id: str | None = string(since=3, nullable_since=0, default=None)


class ConsumerProtocolAssignment(Message, versions=(0, 3)):
    assigned_partitions: list[TopicPartition] = array(TopicPartition)
    user_data: bytes | None = binary(nullable_since=0, default=None)
