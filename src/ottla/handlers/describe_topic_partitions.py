"""DescribeTopicPartitions (75), version 0: topics page by page, so that a reply stays small (KIP-966)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.errors import ErrorCode
from ottla.handlers.operations import ON_TOPICS
from ottla.model import INTERNAL_TOPICS
from ottla.wire.api.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

if TYPE_CHECKING:
    from ottla.cluster.image import PartitionState, TopicState
    from ottla.handlers.context import Broker, Context, Reply


def handle(broker: Broker, context: Context, request: DescribeTopicPartitionsRequest) -> Reply:
    topics = broker.controller.image.topics
    names = sorted({topic.name for topic in request.topics} or topics)
    cursor = request.cursor
    if cursor is not None:
        names = [name for name in names if name >= cursor.topic_name]
    room = min(request.response_partition_limit, broker.config.integer("max.request.partition.size.limit"))
    response = DescribeTopicPartitionsResponse()
    for name in names:
        topic = topics.get(name)
        if topic is None:
            response.topics.append(
                DescribeTopicPartitionsResponseTopic(name=name, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            )
            continue
        first = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        last = min(len(topic.partitions), first + room)
        response.topics.append(_describe(topic, first, last))
        room -= last - first
        if last < len(topic.partitions):
            response.next_cursor = Cursor(topic_name=name, partition_index=last)
            break
    return response


def _describe(topic: TopicState, first: int, last: int) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        topic_authorized_operations=ON_TOPICS,
        partitions=[_describe_partition(state) for state in topic.partitions[first:last]],
    )


def _describe_partition(state: PartitionState) -> DescribeTopicPartitionsResponsePartition:
    return DescribeTopicPartitionsResponsePartition(
        error_code=ErrorCode.NONE if state.leader >= 0 else ErrorCode.LEADER_NOT_AVAILABLE,
        partition_index=state.partition,
        leader_id=state.leader,
        leader_epoch=state.leader_epoch,
        replica_nodes=list(state.replicas),
        isr_nodes=list(state.isr),
        eligible_leader_replicas=[],
        last_known_elr=[],
    )
