"""Every client behind the same two calls, so that each can read what another wrote."""

import asyncio
import json
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioTopicPartition
from kafka import KafkaConsumer, KafkaProducer, codec
from kafka import TopicPartition as PythonTopicPartition

from tests.compat import confluent_client
from tests.compat.confluent_client import Record
from tests.compat.deadlines import eventually

ALL_CODECS = frozenset({"none", "gzip", "snappy", "lz4", "zstd"})


def produce_confluent(bootstrap: str, topic: str, records: list[Record], compression: str) -> None:
    confluent_client.produce(bootstrap, topic, records, compression_type=compression, linger_ms=20)


def consume_confluent(bootstrap: str, topic: str, count: int) -> list[Record]:
    messages = confluent_client.read_partition(bootstrap, topic, count)
    return [Record(m.value(), m.key(), m.headers() or [], m.timestamp()[1]) for m in messages]


def produce_kafka_python(bootstrap: str, topic: str, records: list[Record], compression: str) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap, compression_type=_or_none(compression), linger_ms=20)
    futures = [producer.send(topic, r.value, key=r.key, headers=r.headers, timestamp_ms=r.timestamp) for r in records]
    for future in futures:
        future.get(timeout=60)
    producer.close()


def consume_kafka_python(bootstrap: str, topic: str, count: int) -> list[Record]:
    consumer = KafkaConsumer(bootstrap_servers=bootstrap)
    consumer.assign([PythonTopicPartition(topic, 0)])
    consumer.seek_to_beginning()
    records: list[Any] = []

    def enough() -> bool:
        for batch in consumer.poll(timeout_ms=200).values():
            records.extend(batch)
        return len(records) >= count

    eventually(enough)
    consumer.close()
    return [Record(r.value, r.key, list(r.headers), r.timestamp) for r in records]


def produce_aiokafka(bootstrap: str, topic: str, records: list[Record], compression: str) -> None:
    async def scenario() -> None:
        options = {"compression_type": _or_none(compression), "linger_ms": 20}
        async with AIOKafkaProducer(bootstrap_servers=bootstrap, **options) as producer:
            reports = [
                await producer.send(topic, r.value, r.key, timestamp_ms=r.timestamp, headers=r.headers) for r in records
            ]
            await asyncio.gather(*reports)

    asyncio.run(asyncio.wait_for(scenario(), 60))


def consume_aiokafka(bootstrap: str, topic: str, count: int) -> list[Record]:
    async def scenario() -> list[Record]:
        async with AIOKafkaConsumer(bootstrap_servers=bootstrap) as consumer:
            consumer.assign([AioTopicPartition(topic, 0)])
            await consumer.seek_to_beginning()
            records = [await consumer.getone() for _ in range(count)]
        return [Record(r.value, r.key, list(r.headers), r.timestamp) for r in records]

    return asyncio.run(asyncio.wait_for(scenario(), 60))


def produce_kcat(bootstrap: str, topic: str, records: list[Record], compression: str) -> None:
    """kcat takes the headers of all messages from its command line and stamps them with its own clock."""
    headers = [argument for name, value in records[0].headers or [] for argument in ("-H", f"{name}={_text(value)}")]
    lines = [f"{_text(record.key)}\t{_text(record.value)}" for record in records]
    command = ["kcat", "-b", bootstrap, "-P", "-t", topic, "-K", "\t", "-z", compression, *headers]
    subprocess.run(command, input="\n".join(lines).encode(), check=True, timeout=60)


def consume_kcat(bootstrap: str, topic: str, count: int) -> list[Record]:
    command = ["kcat", "-b", bootstrap, "-C", "-t", topic, "-o", "beginning", "-c", str(count), "-q", "-J"]
    output = subprocess.run(command, capture_output=True, check=True, timeout=60).stdout
    return [_from_json(json.loads(line)) for line in output.splitlines()]


def _from_json(message: dict[str, Any]) -> Record:
    flat = message.get("headers", [])
    headers = [(name, value.encode()) for name, value in zip(flat[::2], flat[1::2], strict=True)]
    return Record(message["payload"].encode(), message["key"].encode(), headers, message["ts"])


def _text(value: bytes | None) -> str:
    assert value is not None
    return value.decode()


def _or_none(compression: str) -> str | None:
    return None if compression == "none" else compression


@dataclass(frozen=True, slots=True)
class Client:
    name: str
    produce: Callable[[str, str, list[Record], str], None]
    consume: Callable[[str, str, int], list[Record]]
    codecs: frozenset[str] = ALL_CODECS
    keeps_timestamps: bool = True


def _kafka_python_codecs() -> frozenset[str]:
    """kafka-python borrows its codecs from optional packages."""
    optional = {
        "gzip": codec.has_gzip(),
        "snappy": codec.has_snappy(),
        "lz4": codec.has_lz4(),
        "zstd": codec.has_zstd(),
    }
    return frozenset({"none"} | {name for name, installed in optional.items() if installed})


CLIENTS = [
    Client("confluent", produce_confluent, consume_confluent),
    Client("kafka-python", produce_kafka_python, consume_kafka_python, codecs=_kafka_python_codecs()),
    Client("aiokafka", produce_aiokafka, consume_aiokafka),
]
if shutil.which("kcat"):
    CLIENTS.append(Client("kcat", produce_kcat, consume_kcat, keeps_timestamps=False))
