"""CreatePartitions (37), versions 0-3: adds partitions to topics."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ottla.errors import ErrorCode, KafkaError
from ottla.handlers.yielding import yielding
from ottla.wire.api.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

if TYPE_CHECKING:
    from ottla.handlers.context import Broker
    from ottla.handlers.exchange import Exchange


async def handle(broker: Broker, exchange: Exchange, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
    counts = Counter(topic.name for topic in request.topics)
    results = [_duplicate(name) for name, count in counts.items() if count > 1]
    once = [topic for topic in request.topics if counts[topic.name] == 1]
    results += [await _grow(broker, topic, request.validate_only) async for topic in yielding(broker.clock, once)]
    return CreatePartitionsResponse(results=results)


def _duplicate(name: str) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(
        name=name, error_code=ErrorCode.INVALID_REQUEST, error_message="Duplicate topic name."
    )


async def _grow(broker: Broker, topic: CreatePartitionsTopic, validate_only: bool) -> CreatePartitionsTopicResult:
    assignment = None if topic.assignments is None else tuple(tuple(a.broker_ids) for a in topic.assignments)
    result = CreatePartitionsTopicResult(name=topic.name)
    try:
        await broker.metadata.create_partitions(topic.name, topic.count, assignment, validate_only=validate_only)
    except KafkaError as error:
        result.error_code, result.error_message = error.code, error.message
    return result
