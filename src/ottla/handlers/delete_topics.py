"""DeleteTopics (20), versions 1-6: by name, or from version 6 on by id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.errors import ErrorCode, KafkaError
from ottla.handlers.yielding import yielding
from ottla.model import ZERO_TOPIC_ID
from ottla.wire.api.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

if TYPE_CHECKING:
    from ottla.handlers.context import Broker, Context


async def handle(broker: Broker, context: Context, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    wanted = (
        request.topics if context.api_version >= 6 else [DeleteTopicState(name=name) for name in request.topic_names]
    )
    return DeleteTopicsResponse(
        responses=[await _delete(broker, topic) async for topic in yielding(broker.clock, wanted)]
    )


async def _delete(broker: Broker, wanted: DeleteTopicState) -> DeletableTopicResult:
    result = DeletableTopicResult(name=wanted.name, topic_id=wanted.topic_id)
    try:
        name = _name(broker, wanted)
        result.name = name
        if not broker.config.boolean("delete.topic.enable"):
            raise KafkaError(ErrorCode.TOPIC_DELETION_DISABLED, "delete.topic.enable is false")
        deleted = await broker.metadata.delete_topic(name)
        result.topic_id = deleted.topic_id
    except KafkaError as error:
        result.error_code, result.error_message = error.code, error.message
    return result


def _name(broker: Broker, wanted: DeleteTopicState) -> str:
    if wanted.name is not None:
        if wanted.topic_id != ZERO_TOPIC_ID:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "give a topic's name or its id, not both")
        return wanted.name
    found = broker.metadata.image.topic_by_id(wanted.topic_id)
    if found is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
    return found.name
