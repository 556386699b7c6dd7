"""Requests for offsets by timestamp and for the committed offsets of groups."""

import asyncio
from collections.abc import Mapping
from typing import NamedTuple

from ottla.client.client import Client
from ottla.client.failures import check
from ottla.model import TopicPartition
from ottla.wire.api.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.wire.api.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.wire.api.offset_fetch import OffsetFetchRequest, OffsetFetchResponse

READ_UNCOMMITTED = 0
READ_COMMITTED = 1

_CONSUMER = -1
_NAMED_COMMIT = 9
"""The last version of OffsetCommit that has topic names instead of topic ids."""
_SINGLE_FETCH = 7
"""The last version of OffsetFetch for a single group."""


class OffsetAndTimestamp(NamedTuple):
    """A result of ListOffsets. Both are -1 if no record has the timestamp or a later one."""

    offset: int
    timestamp: int


async def list_offsets(
    client: Client, timestamps: Mapping[TopicPartition, int], *, isolation: int = READ_UNCOMMITTED
) -> dict[TopicPartition, OffsetAndTimestamp]:
    """The first offset at or after each timestamp. -2 is the start of the log, -1 its end. Retries while leaders move.

    With READ_COMMITTED, the end is the last stable offset.
    """

    async def attempt() -> dict[TopicPartition, OffsetAndTimestamp]:
        by_leader = await client.leaders(timestamps)
        answers = await asyncio.gather(
            *(
                _ask(client, node, {each: timestamps[each] for each in led}, isolation)
                for node, led in by_leader.items()
            )
        )
        return {partition: found for answer in answers for partition, found in answer.items()}

    return await client.retry("offsets", attempt, {each.topic for each in timestamps})


async def _ask(
    client: Client, node_id: int, timestamps: Mapping[TopicPartition, int], isolation: int
) -> dict[TopicPartition, OffsetAndTimestamp]:
    topics: dict[str, list[ListOffsetsPartition]] = {}
    for (topic, partition), timestamp in timestamps.items():
        topics.setdefault(topic, []).append(ListOffsetsPartition(partition_index=partition, timestamp=timestamp))
    request = ListOffsetsRequest(
        replica_id=_CONSUMER,
        isolation_level=isolation,
        topics=[ListOffsetsTopic(name=name, partitions=partitions) for name, partitions in topics.items()],
        timeout_ms=int(client.settings.request_timeout * 1000),
    )
    reply = await client.call(node_id, request, ListOffsetsResponse)
    found = {}
    for topic_reply in reply.topics:
        for entry in topic_reply.partitions:
            topic_partition = TopicPartition(topic_reply.name, entry.partition_index)
            check(entry.error_code, f"offsets of {topic_partition}")
            found[topic_partition] = OffsetAndTimestamp(entry.offset, entry.timestamp)
    return found


async def commit_offsets(client: Client, group: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Commit offsets for a group without members, as tools do. The coordinator rejects this if it has members."""
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for (topic, partition), offset in offsets.items():
        entry = OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset, committed_metadata="")
        topics.setdefault(topic, []).append(entry)
    request = OffsetCommitRequest(
        group_id=group,
        topics=[OffsetCommitRequestTopic(name=name, partitions=partitions) for name, partitions in topics.items()],
    )

    async def attempt() -> None:
        node_id = await client.coordinator(group)
        reply = await client.call(node_id, request, OffsetCommitResponse, highest=_NAMED_COMMIT)
        for topic_reply in reply.topics:
            for entry in topic_reply.partitions:
                check(entry.error_code, f"group {group} at {topic_reply.name}-{entry.partition_index}")

    await client.retry(f"commit of group {group}", attempt)


async def committed_offsets(client: Client, group: str, *, stable: bool = True) -> dict[TopicPartition, int]:
    """All committed offsets of a group. `stable` waits for open transactions that may change them (KIP-447)."""

    async def attempt() -> dict[TopicPartition, int]:
        node_id = await client.coordinator(group)
        request = OffsetFetchRequest(group_id=group, topics=None, require_stable=stable)
        reply = await client.call(node_id, request, OffsetFetchResponse, highest=_SINGLE_FETCH)
        check(reply.error_code, f"offsets of group {group}")
        found = {}
        for topic in reply.topics:
            for entry in topic.partitions:
                check(entry.error_code, f"group {group} at {topic.name}-{entry.partition_index}")
                found[TopicPartition(topic.name, entry.partition_index)] = entry.committed_offset
        return found

    return await client.retry(f"offsets of group {group}", attempt)
