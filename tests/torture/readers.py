"""Reads a topic from its first record to its end, with two clients. Each skips aborted records by itself."""

import asyncio
import time
import uuid
from typing import Any

from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioTopicPartition
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tests.torture.verdict import Record

_TIMEOUT = 60.0


def read(bootstrap: str, topic: str, partitions: int, *, committed: bool) -> dict[int, list[Record]]:
    """With librdkafka, which reports the end of a partition: for read_committed, the last stable offset."""
    client = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": uuid.uuid4().hex,
            "isolation.level": "read_committed" if committed else "read_uncommitted",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 20,
        }
    )
    found: dict[int, list[Record]] = {partition: [] for partition in range(partitions)}
    client.assign([TopicPartition(topic, partition, 0) for partition in found])
    open_partitions = set(found)
    deadline = time.monotonic() + _TIMEOUT
    while open_partitions:
        assert time.monotonic() < deadline, f"{topic} was not read to the end: {sorted(open_partitions)} are missing"
        for message in client.consume(1000, timeout=0.1):
            error = message.error()
            if error is None:
                found[message.partition()].append(Record(message.offset(), message.key(), message.value()))
            elif error.code() == KafkaError._PARTITION_EOF:
                open_partitions.discard(message.partition())
            else:
                raise KafkaException(error)
    client.close()
    return found


def read_committed_with_aiokafka(bootstrap: str, topic: str, partitions: int) -> dict[int, list[Record]]:
    return asyncio.run(asyncio.wait_for(_read_with_aiokafka(bootstrap, topic, partitions), _TIMEOUT))


async def _read_with_aiokafka(bootstrap: str, topic: str, partitions: int) -> dict[int, list[Record]]:
    client: Any = AIOKafkaConsumer(
        bootstrap_servers=bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
    )
    found: dict[int, list[Record]] = {partition: [] for partition in range(partitions)}
    places = [AioTopicPartition(topic, partition) for partition in found]
    await client.start()
    try:
        client.assign(places)
        ends = await client.end_offsets(places)
        while any([await client.position(place) < ends[place] for place in places]):
            for place, records in (await client.getmany(timeout_ms=200)).items():
                found[place.partition] += [Record(it.offset, it.key, it.value) for it in records]
    finally:
        await client.stop()
    return found
