"""OffsetForLeaderEpoch (23), versions 2-4: where an epoch ended, so that a client notices a truncation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.errors import KafkaError
from ottla.wire.api.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)

if TYPE_CHECKING:
    from ottla.handlers.context import Broker, Context, Reply


def handle(broker: Broker, context: Context, request: OffsetForLeaderEpochRequest) -> Reply:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic, partitions=[_answer(broker, topic.topic, wanted) for wanted in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def _answer(broker: Broker, topic: str, wanted: OffsetForLeaderPartition) -> EpochEndOffset:
    answer = EpochEndOffset(partition=wanted.partition)
    try:
        partition = broker.replicas.leader_of(topic, wanted.partition)
        partition.check_leader_epoch(wanted.current_leader_epoch)
        answer.leader_epoch, answer.end_offset = partition.log.end_offset_for_epoch(wanted.leader_epoch)
    except KafkaError as error:
        answer.error_code = error.code
    return answer
