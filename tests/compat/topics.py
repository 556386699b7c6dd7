"""Topics made through confluent-kafka's admin client, ready to use when the call returns."""

from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import NewTopic, OffsetSpec

from tests.compat.deadlines import eventually


def create(admin: Any, name: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
    new = NewTopic(name, num_partitions=partitions, replication_factor=1, config=dict(config or {}))
    admin.create_topics([new])[name].result(60)
    wait_until_ready(admin, name, partitions)


def wait_until_ready(admin: Any, name: str, partitions: int) -> None:
    """Creation is acknowledged by the controller; the broker learns of it, and that it leads, a moment later."""
    eventually(lambda: leaders(admin, name) >= partitions)
    question = {TopicPartition(name, partition): OffsetSpec.latest() for partition in range(partitions)}
    eventually(lambda: all(answer.exception(10) is None for answer in admin.list_offsets(question).values()))


def leaders(admin: Any, name: str) -> int:
    """How many of the topic's partitions have a leader; 0 while the topic is unknown."""
    description = admin.describe_topics(TopicCollection([name]))[name]
    try:
        return sum(1 for partition in description.result(60).partitions if partition.leader is not None)
    except KafkaException:
        return 0
