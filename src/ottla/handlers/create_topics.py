"""CreateTopics (19), versions 2-7: each topic succeeds or fails by itself.

Version 5 brings the topic's effective settings in the reply (KIP-525), 7 its id.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ottla.cluster.topics import MAX_PARTITIONS_PER_REQUEST, UNSET
from ottla.config.describe import describe_topic
from ottla.errors import ErrorCode, KafkaError
from ottla.handlers.yielding import yielding
from ottla.wire.api.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

if TYPE_CHECKING:
    from ottla.handlers.context import Broker, Context


async def handle(broker: Broker, context: Context, request: CreateTopicsRequest) -> CreateTopicsResponse:
    if sum(_partition_count(broker, topic) for topic in request.topics) > MAX_PARTITIONS_PER_REQUEST:
        too_many = KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"a request may create {MAX_PARTITIONS_PER_REQUEST} partitions, this one wants more",
        )
        return CreateTopicsResponse(topics=[_refused(topic.name, too_many) for topic in request.topics])
    counts = Counter(topic.name for topic in request.topics)
    once = [topic for topic in request.topics if counts[topic.name] == 1]
    results = [await _create(broker, topic, request.validate_only) async for topic in yielding(broker.clock, once)]
    twice = KafkaError(ErrorCode.INVALID_REQUEST, "the request names the topic twice")
    results += [_refused(name, twice) for name, count in counts.items() if count > 1]
    return CreateTopicsResponse(topics=results)


def _partition_count(broker: Broker, topic: CreatableTopic) -> int:
    if topic.assignments:
        return len(topic.assignments)
    return broker.config.integer("num.partitions") if topic.num_partitions == UNSET else max(0, topic.num_partitions)


def _refused(name: str, error: KafkaError) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=error.code, error_message=error.message)


async def _create(broker: Broker, topic: CreatableTopic, validate_only: bool) -> CreatableTopicResult:
    overrides = {config.name: config.value for config in topic.configs if config.value is not None}
    try:
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


def _assignment(topic: CreatableTopic) -> dict[int, list[int]]:
    assignment = {entry.partition_index: entry.broker_ids for entry in topic.assignments}
    if len(assignment) < len(topic.assignments):
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "a partition is assigned twice")
    return assignment
