"""DeleteRecords (21), versions 0-2: advances the log start offset of partitions. -1 means to the high watermark.

As in Kafka, internal topics and topics without the cleanup policy delete are rejected. If the request has a partition
twice, the last offset is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.errors import ErrorCode, KafkaError
from ottla.handlers.distinct import distinct
from ottla.handlers.yielding import yielding
from ottla.model import INTERNAL_TOPICS
from ottla.wire.api.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

if TYPE_CHECKING:
    from ottla.handlers.context import Broker
    from ottla.handlers.exchange import Exchange


async def handle(broker: Broker, exchange: Exchange, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
    named = distinct(
        (topic.name, wanted.partition_index, wanted) for topic in request.topics for wanted in topic.partitions
    )
    topics = {name: DeleteRecordsTopicResult(name=name) for name in named.topics}
    each = ((name, wanted) for name, partitions in named.topics.items() for wanted in partitions.values())
    async for name, wanted in yielding(broker.clock, each):
        topics[name].partitions.append(_delete(broker, name, wanted))
    return DeleteRecordsResponse(topics=list(topics.values()))


def _delete(broker: Broker, topic: str, wanted: DeleteRecordsPartition) -> DeleteRecordsPartitionResult:
    result = DeleteRecordsPartitionResult(partition_index=wanted.partition_index, low_watermark=-1)
    try:
        partition = broker.replicas.leader_of(topic, wanted.partition_index)
        if topic in INTERNAL_TOPICS:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION)
        if "delete" not in partition.config.cleanup_policy:
            raise KafkaError(ErrorCode.POLICY_VIOLATION)
        result.low_watermark = partition.delete_records_before(wanted.offset)
    except KafkaError as error:
        result.error_code = error.code
    return result
