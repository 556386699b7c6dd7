"""OffsetDelete (47), version 0: deletes committed offsets of partitions that the group does not consume any more."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ottla.errors import ErrorCode, KafkaError
from ottla.handlers.topic_answers import TopicAnswers
from ottla.model import TopicPartition
from ottla.wire.api.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

if TYPE_CHECKING:
    from ottla.handlers.context import Broker
    from ottla.handlers.exchange import Exchange


async def handle(broker: Broker, exchange: Exchange, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
    if request.group_id == "":
        return OffsetDeleteResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    answers: TopicAnswers[OffsetDeleteResponseTopic] = TopicAnswers()
    known: list[TopicPartition] = []
    results: list[OffsetDeleteResponsePartition] = []
    for wanted in request.topics:
        topic = broker.metadata.image.topics.get(wanted.name)
        new_topic = partial(OffsetDeleteResponseTopic, name=wanted.name)
        served = new_topic()
        if topic is None:
            answers.refused(wanted.name, new_topic)
        for partition in wanted.partitions:
            result = OffsetDeleteResponsePartition(partition_index=partition.partition_index)
            if topic is None or not 0 <= partition.partition_index < len(topic.partitions):
                result.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                answers.refused(wanted.name, new_topic).partitions.append(result)
            else:
                known.append(TopicPartition(wanted.name, partition.partition_index))
                results.append(result)
                served.partitions.append(result)
        answers.serve(wanted.name, served)
    try:
        outcome = await broker.groups.delete_offsets(request.group_id, known)
    except KafkaError as error:
        return OffsetDeleteResponse(error_code=error.code)
    if outcome.error is not ErrorCode.NONE:
        return OffsetDeleteResponse(error_code=outcome.error)
    for result, code in zip(results, outcome.errors, strict=True):
        result.error_code = code
    return OffsetDeleteResponse(topics=answers.topics())
