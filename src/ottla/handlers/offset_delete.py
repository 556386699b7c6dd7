"""OffsetDelete (47), version 0: forget a group's offsets for partitions it does not consume any more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.errors import ErrorCode, KafkaError
from ottla.model import TopicPartition
from ottla.wire.api.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

if TYPE_CHECKING:
    from ottla.handlers.context import Broker, Context


async def handle(broker: Broker, context: Context, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
    response = OffsetDeleteResponse()
    known: list[TopicPartition] = []
    answers: list[OffsetDeleteResponsePartition] = []
    for wanted in request.topics:
        topic = broker.metadata.image.topics.get(wanted.name)
        answer = OffsetDeleteResponseTopic(name=wanted.name)
        for partition in wanted.partitions:
            result = OffsetDeleteResponsePartition(partition_index=partition.partition_index)
            answer.partitions.append(result)
            if topic is None or not 0 <= partition.partition_index < len(topic.partitions):
                result.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                known.append(TopicPartition(wanted.name, partition.partition_index))
                answers.append(result)
        response.topics.append(answer)
    try:
        outcome = await broker.groups.delete_offsets(request.group_id, known)
    except KafkaError as error:
        return OffsetDeleteResponse(error_code=error.code)
    if outcome.error is not ErrorCode.NONE:
        return OffsetDeleteResponse(error_code=outcome.error)
    for result, code in zip(answers, outcome.errors, strict=True):
        result.error_code = code
    return response
