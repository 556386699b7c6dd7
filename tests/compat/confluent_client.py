"""confluent-kafka as the tests use it: produce and wait for reports, consume exactly so many messages."""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition

Headers = list[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True)
class Record:
    """What a client sends; None for the partition or timestamp leaves the choice to the client."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers | None = None
    timestamp: int | None = None
    partition: int | None = None


def produce(bootstrap: str, topic: str, records: Iterable[Record], **config: Any) -> list[Any]:
    """Send and wait; returns the delivered messages in the order of their reports, raises on the first failure."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, **_dotted(config)})
    reports: list[tuple[Any, Any]] = []
    for record in records:
        send(producer, topic, record, reports)
    assert producer.flush(60) == 0, "not every message was reported within 60 s"
    for error, _ in reports:
        if error is not None:
            raise KafkaException(error)
    return [message for _, message in reports]


def send(producer: Any, topic: str, record: Record, reports: list[tuple[Any, Any]]) -> None:
    """Hand one record to the producer; its report (error, message) is appended to `reports` later."""
    optional: dict[str, Any] = {
        "headers": record.headers,
        "timestamp": record.timestamp,
        "partition": record.partition,
    }
    producer.produce(
        topic,
        value=record.value,
        key=record.key,
        on_delivery=lambda error, message: reports.append((error, message)),
        **{name: value for name, value in optional.items() if value is not None},
    )
    producer.poll(0)


def values(count: int, prefix: str = "value") -> list[Record]:
    return [Record(f"{prefix}-{index}".encode()) for index in range(count)]


@contextmanager
def consumer(bootstrap: str, group: str, **config: Any) -> Iterator[Any]:
    settings = {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest", **_dotted(config)}
    client = Consumer(settings)
    try:
        yield client
    finally:
        client.close()


@contextmanager
def reader(bootstrap: str, **config: Any) -> Iterator[Any]:
    """A consumer that is told what to read and belongs to no group; librdkafka wants a group name nevertheless."""
    with consumer(bootstrap, "no-group", **{"enable_auto_commit": False, **config}) as client:
        yield client


def consume(client: Any, count: int, timeout: float = 60.0) -> list[Any]:
    """Exactly `count` messages, or fail."""
    messages: list[Any] = []
    deadline = time.monotonic() + timeout
    while len(messages) < count:
        message = client.poll(0.1)
        if message is not None:
            if message.error():
                raise KafkaException(message.error())
            messages.append(message)
        elif time.monotonic() >= deadline:
            raise AssertionError(f"{len(messages)} of {count} messages after {timeout} s")
    return messages


def read_partition(bootstrap: str, topic: str, count: int, partition: int = 0, offset: int = OFFSET_BEGINNING) -> Any:
    """Messages of one partition, by assignment, without taking part in a group."""
    with reader(bootstrap) as client:
        client.assign([TopicPartition(topic, partition, offset)])
        return consume(client, count)


def _dotted(config: dict[str, Any]) -> dict[str, Any]:
    """`on_commit` and its like are confluent-kafka's own names; everything else is librdkafka's, with dots."""
    return {name if name.startswith("on_") else name.replace("_", "."): value for name, value in config.items()}
