"""DescribeProducers (61), version 0: who writes to a partition, and since which offset in a transaction (KIP-664)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.cluster.topic_names import check_topic_name
from ottla.errors import KafkaError
from ottla.wire.api.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

if TYPE_CHECKING:
    from ottla.handlers.context import Broker, Context, Reply


def handle(broker: Broker, context: Context, request: DescribeProducersRequest) -> Reply:
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name,
                partitions=[_describe(broker, topic.name, index) for index in topic.partition_indexes],
            )
            for topic in request.topics
        ]
    )


def _describe(broker: Broker, topic: str, index: int) -> PartitionResponse:
    try:
        check_topic_name(topic)
        partition = broker.replicas.leader_of(topic, index)
    except KafkaError as error:
        return PartitionResponse(partition_index=index, error_code=error.code, error_message=error.message)
    return PartitionResponse(
        partition_index=index,
        active_producers=[
            ProducerState(
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                last_sequence=producer.last_sequence,
                last_timestamp=producer.last_timestamp,
                coordinator_epoch=producer.coordinator_epoch,
                current_txn_start_offset=producer.transaction_start,
            )
            for producer in partition.log.producers.active()
        ],
    )
