"""ElectLeaders (43), versions 0-2: elects the preferred leaders of partitions, or any living replicas (unclean)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.cluster.elections import ElectionType
from ottla.errors import ErrorCode, KafkaError
from ottla.model import TopicPartition
from ottla.wire.api.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

if TYPE_CHECKING:
    from ottla.handlers.context import Broker
    from ottla.handlers.exchange import Exchange


async def handle(broker: Broker, exchange: Exchange, request: ElectLeadersRequest) -> ElectLeadersResponse:
    topics = broker.metadata.image.topics
    if request.topic_partitions is None:
        wanted = [(name, list(range(len(topic.partitions)))) for name, topic in topics.items()]
    else:
        wanted = [(entry.topic, list(entry.partitions)) for entry in request.topic_partitions]
    response = ElectLeadersResponse()
    everything = [TopicPartition(topic, index) for topic, indexes in wanted for index in indexes]
    try:
        refused = await broker.metadata.elect_leaders(everything, _election(exchange, request))
    except KafkaError as error:
        refused, response.error_code = dict.fromkeys(everything, error), error.code
    for_all = request.topic_partitions is None
    response.replica_election_results = [
        ReplicaElectionResult(topic=topic, partition_result=_results(topic, indexes, refused, for_all))
        for topic, indexes in wanted
    ]
    return response


def _election(exchange: Exchange, request: ElectLeadersRequest) -> ElectionType:
    try:
        return ElectionType(request.election_type if exchange.api_version >= 1 else ElectionType.PREFERRED)
    except ValueError:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"There is no election type {request.election_type}.") from None


def _results(
    topic: str, indexes: list[int], refused: dict[TopicPartition, KafkaError], for_all: bool
) -> list[PartitionResult]:
    """If the request is for all partitions (`for_all`), the reply omits partitions that need no election."""
    results = []
    for index in indexes:
        error = refused.get(TopicPartition(topic, index))
        if error is None:
            results.append(PartitionResult(partition_id=index))
        elif not (for_all and error.code is ErrorCode.ELECTION_NOT_NEEDED):
            results.append(PartitionResult(partition_id=index, error_code=error.code, error_message=error.message))
    return results
