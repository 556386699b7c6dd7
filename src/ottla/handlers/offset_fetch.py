"""OffsetFetch (9), versions 1-10: the committed offsets of groups. Version 8 has several groups, 10 has topic ids.

The reply waits until all in-sync replicas have stored the offsets. Before that the offsets may be lost.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ottla.coordinator_core.effects import response_error
from ottla.errors import ErrorCode, KafkaError
from ottla.handlers.yielding import yielding
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
    from ottla.handlers.context import Broker
    from ottla.handlers.exchange import Exchange

_MAX_REPEATED = 10_000
MAX_OFFSETS = 100_000
"""The most offsets in a reply, unless the first group has more: 2 MB on the wire without metadata, 20 MB in memory."""


async def handle(broker: Broker, exchange: Exchange, request: OffsetFetchRequest) -> OffsetFetchResponse:
    wanted = request.groups
    if exchange.api_version < 8:
        wanted = [OffsetFetchRequestGroup(group_id=request.group_id, topics=_topics(request))]
    waits: list[tuple[OffsetFetchResponseGroup, asyncio.Future[None]]] = []
    repeats = _Repeats()
    found: list[OffsetFetchResponseGroup] = []
    offsets = 0
    async for group in yielding(broker.clock, wanted):
        answer = OffsetFetchResponseGroup(group_id=group.group_id)
        found.append(answer)
        repeats.count_named(group)
        if not repeats.exhausted and offsets <= MAX_OFFSETS:
            _fetch(broker, exchange, group, request.require_stable, answer, waits)
            repeats.count_everything(group, answer)
            offsets += sum(len(topic.partitions) for topic in answer.topics)
        if len(found) > 1 and offsets > MAX_OFFSETS:
            answer.error_code, answer.topics = ErrorCode.INVALID_REQUEST, []
        if repeats.exhausted:
            answer.error_code, answer.topics = ErrorCode.INVALID_REQUEST, []
    if waits:
        await _wait_until_committed(waits)
    if exchange.api_version >= 8:
        return OffsetFetchResponse(groups=found)
    return _for_one_group(found[0], request, exchange.api_version)


class _Repeats:
    """Bounds the reply. As in Kafka, a partition is answered as often as the request has it. The metadata of a single
    offset can have thousands of bytes, and a group can have many offsets."""

    def __init__(self) -> None:
        self._seen: set[tuple[str, str, bytes, int]] = set()
        self._everything: set[str] = set()
        self._left = _MAX_REPEATED

    @property
    def exhausted(self) -> bool:
        return self._left < 0

    def count_named(self, group: OffsetFetchRequestGroup) -> None:
        for topic in group.topics or ():
            before = len(self._seen)
            self._seen.update((group.group_id, topic.name, topic.topic_id, it) for it in topic.partition_indexes)
            self._left -= len(topic.partition_indexes) - (len(self._seen) - before)

    def count_everything(self, group: OffsetFetchRequestGroup, answer: OffsetFetchResponseGroup) -> None:
        if group.topics is None:
            if group.group_id in self._everything:
                self._left -= 1 + sum(len(topic.partitions) for topic in answer.topics)
            self._everything.add(group.group_id)


def _topics(request: OffsetFetchRequest) -> list[OffsetFetchRequestTopics] | None:
    if request.topics is None:
        return None
    return [
        OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes) for topic in request.topics
    ]


async def _wait_until_committed(waits: list[tuple[OffsetFetchResponseGroup, asyncio.Future[None]]]) -> None:
    await asyncio.wait([wait for _, wait in waits])
    for group, wait in waits:
        error = wait.exception()
        if error is not None:
            code = error.code if isinstance(error, KafkaError) else ErrorCode.UNKNOWN_SERVER_ERROR
            group.error_code, group.topics = response_error(code), []


def _fetch(
    broker: Broker,
    exchange: Exchange,
    wanted: OffsetFetchRequestGroup,
    require_stable: bool,
    response: OffsetFetchResponseGroup,
    waits: list[tuple[OffsetFetchResponseGroup, asyncio.Future[None]]],
) -> None:
    try:
        offsets = broker.groups.committed(wanted.group_id)
    except KafkaError as error:
        response.error_code = error.code
        return
    if offsets.wait is not None:
        waits.append((response, offsets.wait))
    if wanted.topics is None:
        response.topics = _everything(broker, exchange, offsets)
    else:
        answers = [_answer(broker, exchange, topic, offsets) for topic in wanted.topics]
        # As in Kafka, topics whose ids are unknown come last.
        response.topics = [*(it for it, known in answers if known), *(it for it, known in answers if not known)]
    if require_stable:
        _withhold_unstable(broker, exchange, response.topics, offsets)


def _withhold_unstable(
    broker: Broker, exchange: Exchange, topics: list[OffsetFetchResponseTopics], offsets: GroupOffsets
) -> None:
    """Replace offsets that an open transaction may change by UNSTABLE_OFFSET_COMMIT (KIP-447). The client retries."""
    for topic in topics:
        name = topic.name
        if exchange.api_version >= 10:
            found = broker.metadata.image.topic_by_id(TopicId(topic.topic_id))
            name = found.name if found is not None else ""
        for index, partition in enumerate(topic.partitions):
            if offsets.is_unstable(name, partition.partition_index):
                topic.partitions[index] = _partition(partition.partition_index, None)
                topic.partitions[index].error_code = ErrorCode.UNSTABLE_OFFSET_COMMIT


def _answer(
    broker: Broker, exchange: Exchange, wanted: OffsetFetchRequestTopics, offsets: GroupOffsets
) -> tuple[OffsetFetchResponseTopics, bool]:
    """The answer for a topic, and whether the topic is known."""
    answer = OffsetFetchResponseTopics(name=wanted.name, topic_id=wanted.topic_id)
    name, code = wanted.name, ErrorCode.NONE
    if exchange.api_version >= 10:
        topic = broker.metadata.image.topic_by_id(TopicId(wanted.topic_id))
        if topic is None:
            code = ErrorCode.UNKNOWN_TOPIC_ID
        else:
            name = topic.name
    for index in wanted.partition_indexes:
        partition = _partition(index, offsets.get(name, index, TopicId(wanted.topic_id)))
        partition.error_code = code
        answer.partitions.append(partition)
    return answer, code is ErrorCode.NONE


def _everything(broker: Broker, exchange: Exchange, offsets: GroupOffsets) -> list[OffsetFetchResponseTopics]:
    answers: dict[str, OffsetFetchResponseTopics] = {}
    for committed in offsets.all():
        topic = broker.metadata.image.topics.get(committed.topic)
        if topic is None and exchange.api_version >= 10:
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
    """Versions 1-7. Version 1 has no top-level error, so every partition gets the error of the group."""
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
