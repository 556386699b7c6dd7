"""CreateTopics (19), versions 2-7. Each topic succeeds or fails independently.

From version 5 on, the reply has the effective settings of the topic (KIP-525), from version 7 on its id.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ottla.cluster.topics import MAX_PARTITIONS_PER_REQUEST, UNSET
from ottla.config.describe import describe_topic
from ottla.errors import ErrorCode, KafkaError
from ottla.handlers.yielding import yielding
from ottla.model import METADATA_TOPIC
from ottla.wire.api.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

if TYPE_CHECKING:
    from ottla.handlers.context import Broker
    from ottla.handlers.exchange import Exchange


async def handle(broker: Broker, exchange: Exchange, request: CreateTopicsRequest) -> CreateTopicsResponse:
    if sum(_partition_count(broker, topic) for topic in request.topics) > MAX_PARTITIONS_PER_REQUEST:
        too_many = KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"a request may create at most {MAX_PARTITIONS_PER_REQUEST} partitions",
        )
        return CreateTopicsResponse(topics=[_refused(topic.name, too_many) for topic in request.topics])
    refused = _invalid_names(request.topics)
    valid = [topic for topic in request.topics if topic.name not in refused]
    results = [await _create(broker, topic, request.validate_only) async for topic in yielding(broker.clock, valid)]
    return CreateTopicsResponse(topics=results + [_refused(name, error) for name, error in refused.items()])


def _invalid_names(topics: list[CreatableTopic]) -> dict[str, KafkaError]:
    """The errors of invalid names: names that occur twice, and the name of Apache Kafka's metadata log."""
    counts = Counter(topic.name for topic in topics)
    refused = {
        name: KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
        for name, count in counts.items()
        if count > 1
    }
    if counts[METADATA_TOPIC] == 1:
        text = f"Creation of internal topic {METADATA_TOPIC} is prohibited."
        refused[METADATA_TOPIC] = KafkaError(ErrorCode.INVALID_REQUEST, text)
    return refused


def _partition_count(broker: Broker, topic: CreatableTopic) -> int:
    if topic.assignments:
        return len(topic.assignments)
    return broker.config.integer("num.partitions") if topic.num_partitions == UNSET else max(0, topic.num_partitions)


def _refused(name: str, error: KafkaError) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=error.code, error_message=error.message)


async def _create(broker: Broker, topic: CreatableTopic, validate_only: bool) -> CreatableTopicResult:
    overrides = {config.name: config.value for config in topic.configs if config.value is not None}
    try:
        _refuse_null_configs(topic)
        created = await broker.metadata.create_topic(
            topic.name,
            partitions=topic.num_partitions,
            replication_factor=topic.replication_factor,
            assignment=_assignment(topic),
            overrides=overrides,
            validate_only=validate_only,
        )
    except KafkaError as error:
        return _refused(topic.name, error)
    return CreatableTopicResult(
        name=created.name,
        topic_id=created.topic_id,
        error_message=None,
        num_partitions=len(created.partitions),
        replication_factor=len(created.partitions[0].replicas),
        configs=[
            CreatableTopicConfigs(
                name=entry.name,
                value=entry.value,
                read_only=entry.read_only,
                config_source=entry.source,
                is_sensitive=entry.sensitive,
            )
            for entry in describe_topic(broker.config, overrides)
        ],
    )


def _refuse_null_configs(topic: CreatableTopic) -> None:
    nulls = ",".join(config.name for config in topic.configs if config.value is None)
    if nulls:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {nulls}")


def _assignment(topic: CreatableTopic) -> dict[int, list[int]]:
    assignment = {entry.partition_index: entry.broker_ids for entry in topic.assignments}
    if len(assignment) < len(topic.assignments):
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "a partition is assigned twice")
    return assignment
