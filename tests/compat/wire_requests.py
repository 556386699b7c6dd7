"""The requests that most wire tests need, with one topic and one partition."""

import uuid
from datetime import timedelta
from typing import Any

from kio.schema.errors import ErrorCode

from tests.compat.deadlines import eventually
from tests.compat.wire import Connection

LARGE = 50_000_000


def produce_one(
    connection: Connection,
    topic: str | uuid.UUID,
    records: bytes,
    *,
    version: int = 9,
    acks: int = -1,
    partition: int = 0,
) -> Any:
    """Send records to one partition; returns that partition's part of the reply."""
    topic_name = {"topic_id": topic} if isinstance(topic, uuid.UUID) else {"name": topic}
    reply = connection.call(
        "produce",
        version,
        transactional_id=None,
        acks=acks,
        timeout=timedelta(seconds=10),
        topic_data=[{**topic_name, "partition_data": [{"index": partition, "records": records}]}],
    )
    [answer] = reply.responses[0].partition_responses
    return answer


def new_producer(connection: Connection) -> tuple[int, int]:
    """A producer id and epoch; a broker that has just started may need a moment before it gives them out."""

    def asked() -> Any:
        reply = connection.call("init_producer_id", 4, transactional_id=None, transaction_timeout=timedelta(seconds=60))
        return reply if reply.error_code is ErrorCode.none else None

    reply = eventually(asked)
    return reply.producer_id, reply.producer_epoch


def fetch(connection: Connection, version: int = 12, *, wait_ms: int = 0, min_bytes: int = 1, **fields: Any) -> Any:
    settings = {"max_bytes": LARGE, "session_id": 0, "session_epoch": -1, "topics": [], **fields}
    return connection.call("fetch", version, max_wait=timedelta(milliseconds=wait_ms), min_bytes=min_bytes, **settings)


def fetch_topic(topic: str, offset: int, max_bytes: int = LARGE, partition: int = 0) -> dict[str, Any]:
    """The part of a fetch request that asks for one partition by the topic's name."""
    asked = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": max_bytes}
    return {"topic": topic, "partitions": [asked]}


def fetch_one(connection: Connection, topic: str, offset: int, **settings: Any) -> Any:
    """Fetch from one partition; returns that partition's part of the reply."""
    reply = fetch(connection, topics=[fetch_topic(topic, offset)], **settings)
    [answer] = reply.responses[0].partitions
    return answer


def topic_id_of(connection: Connection, topic: str) -> uuid.UUID:
    reply = connection.call("metadata", 12, topics=[{"topic_id": None, "name": topic}], allow_auto_topic_creation=False)
    topic_id: uuid.UUID = reply.topics[0].topic_id
    return topic_id
