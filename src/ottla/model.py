"""The types that all layers share. Plain data: no behaviour, no imports from the rest of Ottla."""

import base64
import uuid
from typing import NamedTuple, NewType

TopicId = NewType("TopicId", bytes)
"""The id of a topic, 16 raw bytes. After a deletion a new topic may have the same name, but never the same id."""

LeaderEpoch = NewType("LeaderEpoch", int)
"""Counts the leaders of one partition: grows with every change of its leader or, by the controller, of its ISR."""

ControllerEpoch = NewType("ControllerEpoch", int)
"""Counts the controllers of a cluster, so that a former controller can be fenced."""

BrokerEpoch = NewType("BrokerEpoch", int)
"""Grows with every registration of a broker, so that a restarted broker can be told from its former self."""

ZERO_TOPIC_ID = TopicId(bytes(16))
METADATA_TOPIC = "__cluster_metadata"
METADATA_TOPIC_ID = TopicId(bytes(15) + b"\x01")
"""Apache Kafka reserves this name and this id for its metadata log. No topic gets them."""

GROUP_OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTION_STATE_TOPIC = "__transaction_state"
INTERNAL_TOPICS = frozenset({GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC})

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_LEADER_EPOCH = LeaderEpoch(-1)
FIRST_LEADER_EPOCH = LeaderEpoch(0)
NO_TIMESTAMP = -1
NO_OFFSET = -1

READ_COMMITTED = 1
"""The isolation level of a reader that skips records of open and aborted transactions."""
ISOLATION_LEVELS = (0, READ_COMMITTED)

EARLIEST_TIMESTAMP = -2
LATEST_TIMESTAMP = -1
MAX_TIMESTAMP = -3
EARLIEST_LOCAL_TIMESTAMP = -4
LATEST_TIERED_TIMESTAMP = -5
EARLIEST_PENDING_UPLOAD_TIMESTAMP = -6


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Producer(NamedTuple):
    """The id that the coordinator gave to a producer, and the epoch that fences its predecessors."""

    producer_id: int
    producer_epoch: int


def new_topic_id(random_bytes: bytes) -> TopicId:
    """A version 4 UUID from 16 random bytes, so that its printed form looks like Kafka's."""
    return TopicId(uuid.UUID(bytes=random_bytes, version=4).bytes)


def format_topic_id(topic_id: bytes) -> str:
    """Kafka prints ids as unpadded URL-safe base64, in tools and in `partition.metadata` alike."""
    return base64.urlsafe_b64encode(topic_id).rstrip(b"=").decode()


def parse_topic_id(text: str) -> TopicId:
    raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if len(raw) != 16:
        raise ValueError(f"a topic id has 16 bytes, {text!r} has {len(raw)}")
    return TopicId(raw)


def printable(text: str, limit: int = 500) -> str:
    """Text of a client for a log line. Control characters are escaped, so that the line stays one line. The text is cut
    after `limit` characters."""
    if len(text) > limit:
        text = f"{text[:limit]}..."
    if text.isprintable():
        return text
    return "".join(it if it.isprintable() else it.encode("unicode_escape").decode() for it in text)
