"""OffsetCommit (8), versions 2-10: remember how far a group has come. Version 10 names topics by id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.errors import ErrorCode, KafkaError
from ottla.groups.commands import Commit, PartitionCommit
from ottla.model import TopicId
from ottla.wire.api.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from ottla.cluster.image import TopicState
    from ottla.handlers.context import Broker, Context


async def handle(broker: Broker, context: Context, request: OffsetCommitRequest) -> OffsetCommitResponse:
    response = OffsetCommitResponse()
    commits: list[PartitionCommit] = []
    answers: list[OffsetCommitResponsePartition] = []
    for wanted in request.topics:
        answer = OffsetCommitResponseTopic(name=wanted.name, topic_id=wanted.topic_id)
        response.topics.append(answer)
        topic, missing = _topic(broker, context, wanted)
        for partition in wanted.partitions:
            result = OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=missing)
            answer.partitions.append(result)
            if topic is None:
                continue
            if not 0 <= partition.partition_index < len(topic.partitions):
                result.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                continue
            answers.append(result)
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
    if commits or not request.topics:
        for result, code in zip(answers, await _commit(broker, context, request, commits), strict=True):
            result.error_code = code
    return response


def _topic(broker: Broker, context: Context, wanted: OffsetCommitRequestTopic) -> tuple[TopicState | None, ErrorCode]:
    image = broker.metadata.image
    if context.api_version >= 10:
        return image.topic_by_id(wanted.topic_id), ErrorCode.UNKNOWN_TOPIC_ID
    return image.topics.get(wanted.name), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def _commit(
    broker: Broker, context: Context, request: OffsetCommitRequest, commits: list[PartitionCommit]
) -> tuple[ErrorCode, ...]:
    command = Commit(
        group_id=request.group_id,
        partitions=commits,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        generation_id=request.generation_id_or_member_epoch,
        retention_time_ms=request.retention_time_ms,
        knows_group_id_not_found=context.api_version >= 9,
    )
    try:
        return (await broker.groups.commit(command)).errors
    except KafkaError as error:
        return (error.code,) * len(commits)
