"""OffsetFetch (9), versions 1-10: how far groups have come. Version 8 asks for several, 10 names topics by id.

An offset that is on its way to the other replicas may still be lost: whoever asks meanwhile is answered when it cannot.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ottla.coordinator_core.effects import response_error
from ottla.errors import ErrorCode, KafkaError
from ottla.model import NO_LEADER_EPOCH, NO_OFFSET, ZERO_TOPIC_ID, TopicId
from ottla.wire.api.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

if TYPE_CHECKING:
    from ottla.coordinator.groups import GroupOffsets
    from ottla.groups.records import OffsetCommitted
    from ottla.handlers.context import Broker, Context, Reply


def handle(broker: Broker, context: Context, request: OffsetFetchRequest) -> Reply:
    if context.api_version >= 8:
        # Nobody needs everything about a group twice, and that can be much more than was asked with.
        everything = {group.group_id: group for group in request.groups if group.topics is None}
        wanted = [*everything.values(), *(group for group in request.groups if group.topics is not None)]
    else:
        wanted = [OffsetFetchRequestGroup(group_id=request.group_id, topics=_topics(request))]
    waits: list[tuple[OffsetFetchResponseGroup, asyncio.Future[None]]] = []
    found = [_fetch(broker, context, group, request.require_stable, waits) for group in wanted]
    return _reply_when_committed(context, request, found, waits) if waits else _reply(context, request, found)


def _topics(request: OffsetFetchRequest) -> list[OffsetFetchRequestTopics] | None:
    if request.topics is None:
        return None
    return [
        OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes) for topic in request.topics
    ]


def _reply(context: Context, request: OffsetFetchRequest, found: list[OffsetFetchResponseGroup]) -> OffsetFetchResponse:
    if context.api_version >= 8:
        return OffsetFetchResponse(groups=found)
    return _for_one_group(found[0], request, context.api_version)


async def _reply_when_committed(
    context: Context,
    request: OffsetFetchRequest,
    found: list[OffsetFetchResponseGroup],
    waits: list[tuple[OffsetFetchResponseGroup, asyncio.Future[None]]],
) -> OffsetFetchResponse:
    await asyncio.wait([wait for _, wait in waits])
    for group, wait in waits:
        error = wait.exception()
        if error is not None:
            code = error.code if isinstance(error, KafkaError) else ErrorCode.UNKNOWN_SERVER_ERROR
            group.error_code, group.topics = response_error(code), []
    return _reply(context, request, found)


def _fetch(
    broker: Broker,
    context: Context,
    wanted: OffsetFetchRequestGroup,
    require_stable: bool,
    waits: list[tuple[OffsetFetchResponseGroup, asyncio.Future[None]]],
) -> OffsetFetchResponseGroup:
    response = OffsetFetchResponseGroup(group_id=wanted.group_id)
    try:
        offsets = broker.groups.committed(wanted.group_id)
    except KafkaError as error:
        response.error_code = error.code
        return response
    if offsets.wait is not None:
        waits.append((response, offsets.wait))
    if wanted.topics is None:
        response.topics = _everything(broker, context, offsets)
    else:
        response.topics = [_answer(broker, context, topic, offsets) for topic in wanted.topics]
    if require_stable:
        _withhold_unstable(broker, context, response.topics, offsets)
    return response


def _withhold_unstable(
    broker: Broker, context: Context, topics: list[OffsetFetchResponseTopics], offsets: GroupOffsets
) -> None:
    """A transaction may be about to move these offsets: the client has to wait for its end (KIP-447)."""
    for topic in topics:
        name = topic.name
        if context.api_version >= 10:
            found = broker.metadata.image.topic_by_id(TopicId(topic.topic_id))
            name = found.name if found is not None else ""
        for index, partition in enumerate(topic.partitions):
            if offsets.is_unstable(name, partition.partition_index):
                topic.partitions[index] = _partition(partition.partition_index, None)
                topic.partitions[index].error_code = ErrorCode.UNSTABLE_OFFSET_COMMIT


def _answer(
    broker: Broker, context: Context, wanted: OffsetFetchRequestTopics, offsets: GroupOffsets
) -> OffsetFetchResponseTopics:
    answer = OffsetFetchResponseTopics(name=wanted.name, topic_id=wanted.topic_id)
    name, code = wanted.name, ErrorCode.NONE
    if context.api_version >= 10:
        topic = broker.metadata.image.topic_by_id(TopicId(wanted.topic_id))
        if topic is None:
            code = ErrorCode.UNKNOWN_TOPIC_ID
        else:
            name = topic.name
    for index in wanted.partition_indexes:
        partition = _partition(index, offsets.get(name, index, TopicId(wanted.topic_id)))
        partition.error_code = code
        answer.partitions.append(partition)
    return answer


def _everything(broker: Broker, context: Context, offsets: GroupOffsets) -> list[OffsetFetchResponseTopics]:
    answers: dict[str, OffsetFetchResponseTopics] = {}
    for committed in offsets.all():
        topic = broker.metadata.image.topics.get(committed.topic)
        if topic is None and context.api_version >= 10:
            continue
        answer = answers.setdefault(
            committed.topic,
            OffsetFetchResponseTopics(name=committed.topic, topic_id=topic.topic_id if topic else ZERO_TOPIC_ID),
        )
        answer.partitions.append(_partition(committed.partition, committed))
    return list(answers.values())


def _partition(index: int, committed: OffsetCommitted | None) -> OffsetFetchResponsePartitions:
    if committed is None:
        return OffsetFetchResponsePartitions(
            partition_index=index, committed_offset=NO_OFFSET, committed_leader_epoch=NO_LEADER_EPOCH, metadata=""
        )
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
    )


def _for_one_group(found: OffsetFetchResponseGroup, request: OffsetFetchRequest, version: int) -> OffsetFetchResponse:
    """Versions 1-7. Version 1 has no error of its own, so a refusal goes to every partition."""
    topics = [
        OffsetFetchResponseTopic(
            name=topic.name,
            partitions=[
                OffsetFetchResponsePartition(
                    partition_index=partition.partition_index,
                    committed_offset=partition.committed_offset,
                    committed_leader_epoch=partition.committed_leader_epoch,
                    metadata=partition.metadata,
                    error_code=partition.error_code,
                )
                for partition in topic.partitions
            ],
        )
        for topic in found.topics
    ]
    if found.error_code and version < 2:
        topics = [
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=index, committed_offset=NO_OFFSET, metadata="", error_code=found.error_code
                    )
                    for index in topic.partition_indexes
                ],
            )
            for topic in request.topics or ()
        ]
    return OffsetFetchResponse(topics=topics, error_code=found.error_code)
