"""AlterPartitionReassignments (45), versions 0-1: start, change or cancel the reassignment of each partition."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.errors import ErrorCode, KafkaError
from ottla.handlers.yielding import yielding
from ottla.wire.api.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopic,
    ReassignableTopicResponse,
)

if TYPE_CHECKING:
    from ottla.handlers.context import Broker
    from ottla.handlers.exchange import Exchange


async def handle(
    broker: Broker, exchange: Exchange, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    allowed = request.allow_replication_factor_change
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=allowed,
        responses=[await _alter(broker, topic, allowed) async for topic in yielding(broker.clock, request.topics)],
    )


async def _alter(broker: Broker, topic: ReassignableTopic, allow_factor_change: bool) -> ReassignableTopicResponse:
    targets = {partition.partition_index: partition.replicas for partition in topic.partitions}
    try:
        refused = await broker.metadata.alter_reassignments(
            topic.name, targets, allow_factor_change=allow_factor_change
        )
    except KafkaError as error:
        refused = dict.fromkeys(targets, error)
    return ReassignableTopicResponse(
        name=topic.name,
        partitions=[_result(partition.partition_index, refused) for partition in topic.partitions],
    )


def _result(partition: int, refused: dict[int, KafkaError]) -> ReassignablePartitionResponse:
    error = refused.get(partition)
    return ReassignablePartitionResponse(
        partition_index=partition,
        error_code=ErrorCode.NONE if error is None else error.code,
        error_message=None if error is None else error.message,
    )
