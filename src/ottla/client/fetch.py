"""Fetches from one partition, one at a time. The next fetch can run while the caller processes the last reply."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ottla.client.client import Client
from ottla.client.failures import check
from ottla.client.offsets import READ_UNCOMMITTED
from ottla.errors import ErrorCode, KafkaError
from ottla.model import TopicPartition
from ottla.wire.api.fetch import (
    AbortedTransaction,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)

_NAMED_FETCH = 12
"""The last version that has topic names instead of topic ids."""


@dataclass(frozen=True, slots=True)
class FetchSettings:
    isolation: int = READ_UNCOMMITTED
    max_bytes: int = 8 << 20
    max_wait_ms: int = 500
    min_bytes: int = 1


class Fetched(NamedTuple):
    """The reply for one partition. `records` are whole batches, perhaps followed by the start of another one."""

    fetch_offset: int
    records: memoryview
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: Sequence[AbortedTransaction]


class OffsetOutOfRange(KafkaError):  # noqa: N818 - the protocol's own name
    """The offset is not in the log: retention deleted it, or the log was truncated."""

    def __init__(self, topic_partition: TopicPartition, offset: int) -> None:
        super().__init__(ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {offset} of {topic_partition} is out of range")
        self.topic_partition = topic_partition
        self.offset = offset


class Fetcher:
    """Fetches from one partition. `begin` may send the next fetch early, `fetch` waits for its reply."""

    def __init__(self, client: Client, topic_partition: TopicPartition, settings: FetchSettings) -> None:
        self.topic_partition = topic_partition
        self._client = client
        self._settings = settings
        self._pending: tuple[int, asyncio.Task[Fetched]] | None = None

    def begin(self, offset: int, max_bytes: int | None = None) -> None:
        """Send a fetch. The next `fetch` at this offset returns its reply. `max_bytes` overrides the settings."""
        self.cancel()
        self._pending = offset, asyncio.ensure_future(self._fetch(offset, max_bytes or self._settings.max_bytes))

    def cancel(self) -> None:
        if self._pending is not None:
            self._pending[1].cancel()
            self._pending = None

    async def fetch(self, offset: int, max_bytes: int | None = None) -> Fetched:
        """Fetch records from an offset on; none if no record came within `max_wait_ms`. Retries while leaders move."""
        if self._pending is not None and self._pending[0] == offset:
            (_, task), self._pending = self._pending, None
            return await task
        self.cancel()
        return await self._fetch(offset, max_bytes or self._settings.max_bytes)

    async def _fetch(self, offset: int, max_bytes: int) -> Fetched:
        name = self.topic_partition
        what = f"fetch of {name} at {offset}"
        return await self._client.retry(what, lambda: self._attempt(offset, max_bytes), [name.topic])

    async def _attempt(self, offset: int, max_bytes: int) -> Fetched:
        topic, partition = self.topic_partition
        node_id = await self._client.leader(self.topic_partition)
        settings = self._settings
        wanted = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=max_bytes)
        request = FetchRequest(
            max_wait_ms=settings.max_wait_ms,
            min_bytes=settings.min_bytes,
            max_bytes=max_bytes,
            isolation_level=settings.isolation,
            session_epoch=-1,
            topics=[FetchTopic(topic=topic, partitions=[wanted])],
        )
        reply = await self._client.call(node_id, request, FetchResponse, highest=_NAMED_FETCH)
        check(reply.error_code, f"fetch of {self.topic_partition}")
        return self._fetched(offset, reply.responses[0].partitions[0])

    def _fetched(self, offset: int, answer: PartitionData) -> Fetched:
        if answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            raise OffsetOutOfRange(self.topic_partition, offset)
        check(answer.error_code, f"fetch of {self.topic_partition} at {offset}")
        records = answer.records if isinstance(answer.records, memoryview) else memoryview(b"")
        return Fetched(
            offset,
            records,
            answer.high_watermark,
            answer.last_stable_offset,
            answer.log_start_offset,
            answer.aborted_transactions or (),
        )
