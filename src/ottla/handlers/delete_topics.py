"""DeleteTopics (20), versions 1-6: deletes topics by name, or from version 6 on by id.

A topic that the request has twice, by name, by id or by both, is rejected and not deleted.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ottla.cluster.topics import find_topic
from ottla.errors import ErrorCode, KafkaError
from ottla.handlers.yielding import yielding
from ottla.model import ZERO_TOPIC_ID, TopicId
from ottla.wire.api.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

if TYPE_CHECKING:
    from ottla.handlers.context import Broker
    from ottla.handlers.exchange import Exchange


async def handle(broker: Broker, exchange: Exchange, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    wanted = (
        request.topics if exchange.api_version >= 6 else [DeleteTopicState(name=name) for name in request.topic_names]
    )
    if not broker.config.boolean("delete.topic.enable"):
        code = ErrorCode.TOPIC_DELETION_DISABLED if exchange.api_version >= 3 else ErrorCode.INVALID_REQUEST
        disabled = KafkaError(code, "delete.topic.enable is false")
        return DeleteTopicsResponse(responses=[_refused(state.name, state.topic_id, disabled) for state in wanted])
    responses: list[DeletableTopicResult] = []
    found: Counter[tuple[str, TopicId]] = Counter()
    for (name, topic_id), count in Counter((state.name, state.topic_id) for state in wanted).items():
        try:
            found[_find(broker, name, topic_id, count)] += 1
        except KafkaError as error:
            responses.append(_refused(name, topic_id, error))
    async for name, topic_id in yielding(broker.clock, found):
        responses.append(await _delete(broker, name, topic_id, found[name, topic_id]))
    return DeleteTopicsResponse(responses=responses)


def _find(broker: Broker, name: str | None, topic_id: TopicId, count: int) -> tuple[str, TopicId]:
    """The name and the id of a topic. `count` is how often the request has this name or id."""
    if name is None and topic_id == ZERO_TOPIC_ID:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
    if name is not None and topic_id != ZERO_TOPIC_ID:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id.")
    if count > 1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Duplicate topic {'id' if name is None else 'name'}.")
    image = broker.metadata.image
    topic = image.topic_by_id(topic_id) if name is None else find_topic(image, name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
    return topic.name, topic.topic_id


async def _delete(broker: Broker, name: str, topic_id: TopicId, count: int) -> DeletableTopicResult:
    try:
        if count > 1:
            text = "The provided topic name maps to an ID that was already supplied."
            raise KafkaError(ErrorCode.INVALID_REQUEST, text)
        await broker.metadata.delete_topic(name)
    except KafkaError as error:
        return _refused(name, topic_id, error)
    return DeletableTopicResult(name=name, topic_id=topic_id)


def _refused(name: str | None, topic_id: TopicId, error: KafkaError) -> DeletableTopicResult:
    return DeletableTopicResult(name=name, topic_id=topic_id, error_code=error.code, error_message=error.message)
