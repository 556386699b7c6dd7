"""OffsetCommit (8), versions 2-10: commits offsets of a group. Version 10 has topic ids instead of names."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ottla.errors import ErrorCode, KafkaError
from ottla.groups.commands import Commit, PartitionCommit
from ottla.handlers.topic_answers import TopicAnswers
from ottla.model import TopicId
from ottla.wire.api.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from ottla.cluster.image import TopicState
    from ottla.handlers.context import Broker
    from ottla.handlers.exchange import Exchange


async def handle(broker: Broker, exchange: Exchange, request: OffsetCommitRequest) -> OffsetCommitResponse:
    answers: TopicAnswers[OffsetCommitResponseTopic] = TopicAnswers()
    commits: list[PartitionCommit] = []
    results: list[OffsetCommitResponsePartition] = []
    for wanted in request.topics:
        key = wanted.topic_id if exchange.api_version >= 10 else wanted.name
        new_topic = partial(OffsetCommitResponseTopic, name=wanted.name, topic_id=wanted.topic_id)
        topic, missing = _topic(broker, exchange, wanted)
        if topic is None:
            answers.refused(key, new_topic).partitions += [
                _refused(partition, missing) for partition in wanted.partitions
            ]
            continue
        served = new_topic()
        for partition in wanted.partitions:
            if not 0 <= partition.partition_index < len(topic.partitions):
                refused = _refused(partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                answers.refused(key, new_topic).partitions.append(refused)
                continue
            result = OffsetCommitResponsePartition(partition_index=partition.partition_index)
            served.partitions.append(result)
            results.append(result)
            commits.append(
                PartitionCommit(
                    topic.name,
                    partition.partition_index,
                    partition.committed_offset,
                    partition.committed_leader_epoch,
                    partition.committed_metadata,
                    TopicId(topic.topic_id),
                )
            )
        answers.serve(key, served)
    if commits:
        for result, code in zip(results, await _commit(broker, exchange, request, commits), strict=True):
            result.error_code = code
    return OffsetCommitResponse(topics=answers.topics())


def _refused(partition: OffsetCommitRequestPartition, error: ErrorCode) -> OffsetCommitResponsePartition:
    return OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=error)


def _topic(broker: Broker, exchange: Exchange, wanted: OffsetCommitRequestTopic) -> tuple[TopicState | None, ErrorCode]:
    image = broker.metadata.image
    if exchange.api_version >= 10:
        return image.topic_by_id(wanted.topic_id), ErrorCode.UNKNOWN_TOPIC_ID
    return image.topics.get(wanted.name), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def _commit(
    broker: Broker, exchange: Exchange, request: OffsetCommitRequest, commits: list[PartitionCommit]
) -> tuple[ErrorCode, ...]:
    command = Commit(
        group_id=request.group_id,
        partitions=commits,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        generation_id=request.generation_id_or_member_epoch,
        retention_time_ms=request.retention_time_ms,
        knows_group_id_not_found=exchange.api_version >= 9,
    )
    try:
        return (await broker.groups.commit(command)).errors
    except KafkaError as error:
        return (error.code,) * len(commits)
