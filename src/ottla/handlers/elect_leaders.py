"""ElectLeaders (43), versions 0-2: give partitions their preferred leader, or any replica that is left."""

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
    from ottla.handlers.context import Broker, Context


async def handle(broker: Broker, context: Context, request: ElectLeadersRequest) -> ElectLeadersResponse:
    try:
        election = ElectionType(request.election_type if context.api_version >= 1 else ElectionType.PREFERRED)
    except ValueError:
        return ElectLeadersResponse(error_code=ErrorCode.INVALID_REQUEST)
    topics = broker.controller.image.topics
    if request.topic_partitions is None:
        wanted = {name: list(range(len(topic.partitions))) for name, topic in topics.items()}
    else:
        wanted = {entry.topic: list(entry.partitions) for entry in request.topic_partitions}
    results = []
    for topic, indexes in wanted.items():
        answers = [await _elect(broker, topic, index, election) for index in indexes]
        if request.topic_partitions is None:
            answers = [answer for answer in answers if answer.error_code != ErrorCode.ELECTION_NOT_NEEDED]
        if answers:
            results.append(ReplicaElectionResult(topic=topic, partition_result=answers))
    return ElectLeadersResponse(replica_election_results=results)


async def _elect(broker: Broker, topic: str, index: int, election: ElectionType) -> PartitionResult:
    result = PartitionResult(partition_id=index, error_message=None)
    try:
        await broker.controller.elect_leader(TopicPartition(topic, index), election)
    except KafkaError as error:
        result.error_code, result.error_message = error.code, error.message
    return result
