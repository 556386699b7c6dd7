"""CreateTopics (19), versions 2-7: each topic succeeds or fails by itself.

Version 5 brings the topic's effective settings in the reply (KIP-525), 7 its id.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ottla.config.describe import describe_topic
from ottla.errors import ErrorCode, KafkaError
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
    counts = Counter(topic.name for topic in request.topics)
    once = [topic for topic in request.topics if counts[topic.name] == 1]
    results = [await _create(broker, topic, request.validate_only) for topic in once]
    results += [
        CreatableTopicResult(
            name=name,
            error_code=ErrorCode.INVALID_REQUEST,
            error_message="the request names the topic twice",
            configs=None,
        )
        for name, count in counts.items()
        if count > 1
    ]
    return CreateTopicsResponse(topics=results)


async def _create(broker: Broker, topic: CreatableTopic, validate_only: bool) -> CreatableTopicResult:
    overrides = {config.name: config.value for config in topic.configs if config.value is not None}
    try:
        created = await broker.controller.create_topic(
            topic.name,
            partitions=topic.num_partitions,
            replication_factor=topic.replication_factor,
            assignment=_assignment(topic),
            overrides=overrides,
            validate_only=validate_only,
        )
    except KafkaError as error:
        return CreatableTopicResult(name=topic.name, error_code=error.code, error_message=error.message, configs=None)
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
