"""DescribeTopicPartitions (75), version 0: topics in pages, so that each reply is small (KIP-966)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from ottla.cluster.topic_names import check_topic_name
from ottla.errors import ErrorCode, KafkaError
from ottla.handlers.availability import availability
from ottla.handlers.endpoints import endpoints
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
    from ottla.handlers.context import Broker
    from ottla.handlers.exchange import Exchange, Reply


def handle(broker: Broker, exchange: Exchange, request: DescribeTopicPartitionsRequest) -> Reply:
    cursor = request.cursor
    if cursor is not None and not _is_valid(cursor, request):
        return DescribeTopicPartitionsResponse(
            topics=[_refused(topic.name, ErrorCode.INVALID_REQUEST) for topic in request.topics]
        )
    topics = broker.metadata.image.topics
    names = sorted({topic.name for topic in request.topics} or topics)
    if cursor is not None:
        names = [name for name in names if name >= cursor.topic_name]
    limit = min(request.response_partition_limit, broker.config.integer("max.request.partition.size.limit"))
    room = max(1, limit)
    response = DescribeTopicPartitionsResponse()
    reachable = {node.id for node in endpoints(broker, exchange)}
    alive = broker.metadata.image.brokers
    for name in names:
        if not room:
            response.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        topic = topics.get(name)
        if topic is None:
            response.topics.append(_missing(name))
            continue
        first = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        page = topic.partitions[first : first + room]
        response.topics.append(_describe(topic, page, reachable, alive))
        room -= len(page)
        if first + len(page) < len(topic.partitions):
            response.next_cursor = Cursor(topic_name=name, partition_index=first + len(page))
            break
    return response


def _is_valid(cursor: Cursor, request: DescribeTopicPartitionsRequest) -> bool:
    """If the request lists topics, the cursor must be at one of them."""
    listed = not request.topics or any(topic.name == cursor.topic_name for topic in request.topics)
    return listed and cursor.partition_index >= 0


def _missing(name: str) -> DescribeTopicPartitionsResponseTopic:
    """The error for a missing topic. As in Apache Kafka, it has authorized operations."""
    try:
        check_topic_name(name)
    except KafkaError as error:
        refused = _refused(name, error.code)
    else:
        refused = _refused(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    refused.topic_authorized_operations = ON_TOPICS
    return refused


def _refused(name: str, code: ErrorCode) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(name=name, error_code=code)


def _describe(
    topic: TopicState, page: Sequence[PartitionState], reachable: Collection[int], alive: Collection[int]
) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        topic_authorized_operations=ON_TOPICS,
        partitions=[_describe_partition(state, reachable, alive) for state in page],
    )


def _describe_partition(
    state: PartitionState, reachable: Collection[int], alive: Collection[int]
) -> DescribeTopicPartitionsResponsePartition:
    """Ottla has no eligible leader replicas besides the ISR, so the lists of KIP-966 are empty."""
    error_code, leader, offline = availability(state, reachable, alive)
    return DescribeTopicPartitionsResponsePartition(
        error_code=error_code,
        partition_index=state.partition,
        leader_id=leader,
        leader_epoch=state.leader_epoch,
        replica_nodes=list(state.replicas),
        isr_nodes=list(state.isr),
        eligible_leader_replicas=[],
        last_known_elr=[],
        offline_replicas=offline,
    )
