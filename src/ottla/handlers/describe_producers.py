"""DescribeProducers (61), version 0: the active producers of partitions and the start of their transactions (KIP-664).

Kafka describes a partition as often as the request has it. Ottla describes it once: a partition can have thousands of
producers, and repeating its index costs the client only four bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.cluster.topic_names import check_topic_name
from ottla.errors import ErrorCode, KafkaError
from ottla.handlers.distinct import distinct
from ottla.handlers.yielding import yielding
from ottla.wire.api.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

if TYPE_CHECKING:
    from ottla.handlers.context import Broker
    from ottla.handlers.exchange import Exchange

MAX_PRODUCERS = 50_000
"""The most producers in a reply, unless a single partition has more: about 2 MB on the wire, 20 MB in memory."""


async def handle(broker: Broker, exchange: Exchange, request: DescribeProducersRequest) -> DescribeProducersResponse:
    named = distinct((topic.name, index, index) for topic in request.topics for index in topic.partition_indexes)
    topics = {name: TopicResponse(name=name) for name in named.topics}
    room = MAX_PRODUCERS
    each = ((name, index) for name, partitions in named.topics.items() for index in partitions)
    async for name, index in yielding(broker.clock, each):
        answer = _describe(broker, name, index, room)
        room -= len(answer.active_producers)
        topics[name].partitions.append(answer)
    return DescribeProducersResponse(topics=list(topics.values()))


def _describe(broker: Broker, topic: str, index: int, room: int) -> PartitionResponse:
    try:
        check_topic_name(topic)
        partition = broker.replicas.leader_of(topic, index)
        if len(partition.log.producers) > room and room < MAX_PRODUCERS:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"the reply would have more than {MAX_PRODUCERS} producers; request fewer partitions at once",
            )
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
