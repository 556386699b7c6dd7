"""OffsetForLeaderEpoch (23), versions 2-4: the end offset of a leader epoch, so that a client detects a truncation.

As in Kafka, a partition that occurs twice is answered twice: the reply is not longer than the request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.errors import KafkaError
from ottla.handlers.yielding import yielding
from ottla.wire.api.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)

if TYPE_CHECKING:
    from ottla.handlers.context import Broker
    from ottla.handlers.exchange import Exchange


async def handle(
    broker: Broker, exchange: Exchange, request: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse:
    topics = [(topic, OffsetForLeaderTopicResult(topic=topic.topic)) for topic in request.topics]
    each = ((result, wanted) for topic, result in topics for wanted in topic.partitions)
    async for result, wanted in yielding(broker.clock, each):
        result.partitions.append(_answer(broker, result.topic, wanted))
    return OffsetForLeaderEpochResponse(topics=[result for _, result in topics])


def _answer(broker: Broker, topic: str, wanted: OffsetForLeaderPartition) -> EpochEndOffset:
    answer = EpochEndOffset(partition=wanted.partition)
    try:
        partition = broker.replicas.leader_of(topic, wanted.partition)
        partition.check_leader_epoch(wanted.current_leader_epoch)
        answer.leader_epoch, answer.end_offset = partition.log.end_offset_for_epoch(wanted.leader_epoch)
    except KafkaError as error:
        answer.error_code = error.code
    return answer
