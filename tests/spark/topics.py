"""Topics with known content, and what a plain consumer reads from them."""

import hashlib
import uuid
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import pyarrow as pa
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from ottla.spark.options import SourceOptions, parse_source_options


class Row(NamedTuple):
    """A record as all readers see it."""

    key: bytes | None
    value: bytes | None
    topic: str
    partition: int
    offset: int
    timestamp: int
    headers: tuple[tuple[str, bytes | None], ...] = ()


def make_topic(
    bootstrap: str,
    partitions: int = 1,
    config: Mapping[str, str] | None = None,
    name: str | None = None,
    replicas: int = 1,
) -> str:
    """Records are kept whatever their age: `fill` gives them timestamps that are years old."""
    name = name or f"spark-{uuid.uuid4().hex[:12]}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    new = NewTopic(name, partitions, replicas, config={"retention.ms": "-1", **(config or {})})
    admin.create_topics([new])[name].result(60)
    return name


def add_partitions(bootstrap: str, topic: str, total: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_partitions([NewPartitions(topic, total)])[topic].result(60)


def delete_records(bootstrap: str, topic: str, before: int, partition: int = 0) -> None:
    wanted = TopicPartition(topic, partition, before)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_records([wanted])[wanted].result(60)


def fill(bootstrap: str, topic: str, rows: Iterable[tuple[int, bytes | None]], **settings: Any) -> None:
    """Values by partition, with keys and headers on some; timestamps count seconds."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, **settings})
    for index, (partition, value) in enumerate(rows):
        producer.produce(
            topic,
            value,
            b"key-%d" % index if index % 3 else None,
            partition,
            timestamp=1_700_000_000_000 + 1000 * index,
            headers=[("index", str(index).encode()), ("none", None)] if index % 5 == 0 else None,
        )
        producer.poll(0)
    assert producer.flush(60) == 0


def transactions(bootstrap: str, topic: str, outcomes: Iterable[bool], rows: int = 5, partitions: int = 1) -> None:
    """One transaction after the other by one producer; True commits it, False aborts it."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"txn-{uuid.uuid4().hex}"})
    producer.init_transactions(60)
    for number, committed in enumerate(outcomes):
        producer.begin_transaction()
        for index in range(rows):
            producer.produce(topic, f"{number}-{index}-{committed}".encode(), partition=index % partitions)
        producer.flush(60)
        if committed:
            producer.commit_transaction(60)
        else:
            producer.abort_transaction(60)


def consume(bootstrap: str, topic: str, partitions: int = 1, isolation: str = "read_uncommitted") -> list[Row]:
    """All records of a topic, as librdkafka reads them."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"oracle-{uuid.uuid4().hex}",
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "isolation.level": isolation,
            "fetch.message.max.bytes": 20_000_000,
        }
    )
    consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
    rows, ended = [], 0
    while ended < partitions:
        message = consumer.poll(60)
        assert message is not None, "the oracle heard nothing"
        if message.error():
            ended += 1
            continue
        headers = tuple((key, value) for key, value in message.headers() or ())
        place = (message.topic(), message.partition(), message.offset())
        rows.append(Row(message.key(), message.value(), *place, message.timestamp()[1], headers))
    consumer.close()
    return sorted(rows, key=lambda row: (row.partition, row.offset))


def ends(bootstrap: str, topic: str, partitions: int) -> list[int]:
    """The high watermarks: offsets in use, those of markers and of open transactions too."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "watcher", "isolation.level": "read_uncommitted"}
    consumer = Consumer(settings)
    found = [consumer.get_watermark_offsets(TopicPartition(topic, index), 60)[1] for index in range(partitions)]
    consumer.close()
    return found


def committed(bootstrap: str, group: str, topic: str, partitions: int) -> list[int]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    found = consumer.committed([TopicPartition(topic, index) for index in range(partitions)], 60)
    consumer.close()
    return [each.offset for each in found]


def rows_of(batches: Iterable[pa.RecordBatch]) -> list[Row]:
    """Arrow batches, as ours, in the same form."""
    rows = []
    for batch in batches:
        for entry in batch.to_pylist():
            headers = tuple((header["key"], header["value"]) for header in entry.get("headers") or ())
            timestamp = round(entry["timestamp"].timestamp() * 1000)
            place = (entry["topic"], entry["partition"], entry["offset"])
            rows.append(Row(entry["key"], entry["value"], *place, timestamp, headers))
    return sorted(rows, key=lambda row: (row.partition, row.offset))


def digest(rows: Iterable[Row]) -> str:
    return hashlib.sha256(repr(list(rows)).encode()).hexdigest()


def options(bootstrap: str, topic: str, **more: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, **more}


def parsed(bootstrap: str, topic: str, **more: str) -> SourceOptions:
    return parse_source_options(options(bootstrap, topic, **more), streaming=False)


def parsed_stream(bootstrap: str, topic: str, **more: str) -> SourceOptions:
    return parse_source_options(options(bootstrap, topic, **more), streaming=True)
