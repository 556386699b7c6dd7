"""Fetch (1), versions 4-18: committed records from offsets on, at once or as soon as there are enough of them.

Records leave as slices of segment files. Version 7 brings sessions (KIP-227), 9 leader epochs, 13 topic ids.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from ottla.env.network import FileSlice
from ottla.errors import ErrorCode, KafkaError
from ottla.model import ISOLATION_LEVELS, READ_COMMITTED
from ottla.replication.fetch_sessions import FetchPartition, FetchSession, Key
from ottla.replication.waiting import DataWaiter, StableDataWaiter
from ottla.wire.api.fetch import AbortedTransaction, FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData

if TYPE_CHECKING:
    from ottla.handlers.context import Broker, Context, Reply
    from ottla.replication.partition import Partition

T = TypeVar("T")


def handle(broker: Broker, context: Context, request: FetchRequest) -> Reply:
    if request.isolation_level not in ISOLATION_LEVELS:
        return _refuse_all(request, ErrorCode.UNKNOWN_SERVER_ERROR)
    try:
        session = _session(broker, context, request)
    except KafkaError as error:
        return FetchResponse(error_code=error.code)
    fetch = Fetch(broker, request, session)
    fetch.read()
    if fetch.is_ready():
        return fetch.response()
    return fetch.wait(fetch.read_again)


def _refuse_all(request: FetchRequest, code: ErrorCode) -> FetchResponse:
    """What Kafka answers to a request that it cannot make sense of."""
    return FetchResponse(
        error_code=code,
        responses=[
            FetchableTopicResponse(
                topic=topic.topic,
                topic_id=topic.topic_id,
                partitions=[
                    PartitionData(partition_index=partition.partition, error_code=code, high_watermark=-1, records=b"")
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def _session(broker: Broker, context: Context, request: FetchRequest) -> FetchSession:
    by_id = context.api_version >= 13
    partitions = [
        FetchPartition(
            (topic.topic_id if by_id else topic.topic, partition.partition),
            partition.fetch_offset,
            partition.partition_max_bytes,
            partition.current_leader_epoch,
        )
        for topic in request.topics
        for partition in topic.partitions
    ]
    forgotten: list[Key] = [
        (topic.topic_id if by_id else topic.topic, partition)
        for topic in request.forgotten_topics_data
        for partition in topic.partitions
    ]
    return broker.fetch_sessions.begin(request.session_id, request.session_epoch, partitions, forgotten, by_id)


class Fetch:
    """One fetch: read, and when that finds too little, wait and read again."""

    def __init__(self, broker: Broker, request: FetchRequest, session: FetchSession) -> None:
        self._broker = broker
        self._request = request
        self._session = session
        self._committed_only = request.isolation_level == READ_COMMITTED
        self._answers: list[tuple[FetchPartition, PartitionData]] = []
        self._partitions: list[Partition] = []
        self._size = 0
        self._failed = False

    def is_ready(self) -> bool:
        request = self._request
        return self._failed or self._size >= request.min_bytes or request.max_wait_ms <= 0 or not self._partitions

    def read(self) -> None:
        self._answers, self._partitions, self._size, self._failed = [], [], 0, False
        room = min(self._request.max_bytes, self._broker.config.integer("fetch.max.bytes"))
        for wanted in self._session:
            answer = self._read_partition(wanted, room - self._size)
            self._answers.append((wanted, answer))

    def _read_partition(self, wanted: FetchPartition, room: int) -> PartitionData:
        index = wanted.key[1]
        try:
            partition = find(self._broker, wanted)
            records, aborted = self._read_records(partition, wanted, room)
        except KafkaError as error:
            self._failed = True
            return PartitionData(
                partition_index=index,
                error_code=error.code,
                high_watermark=-1,
                aborted_transactions=None,
                records=b"",
            )
        self._partitions.append(partition)
        return PartitionData(
            partition_index=index,
            high_watermark=partition.high_watermark,
            last_stable_offset=partition.last_stable_offset,
            log_start_offset=partition.log.log_start_offset,
            aborted_transactions=aborted,
            records=records,
        )

    def _read_records(
        self, partition: Partition, wanted: FetchPartition, room: int
    ) -> tuple[FileSlice | bytes, list[AbortedTransaction] | None]:
        limit = min(wanted.max_bytes, room)
        aborted = None
        if self._committed_only:
            found, ended = partition.read_committed(wanted.fetch_offset, limit)
            aborted = [AbortedTransaction(producer_id=it.producer_id, first_offset=it.first_offset) for it in ended]
        else:
            found = partition.read(wanted.fetch_offset, limit)
        # Only the first batch of a reply may be over the limits, so that a large one does not block a client.
        if found.file is None or (found.size > limit and self._size):
            return b"", [] if self._committed_only else None
        self._size += found.size
        return FileSlice(found.file, found.position, found.size), aborted

    def response(self) -> FetchResponse:
        topics: dict[str | bytes, FetchableTopicResponse] = {}
        session = self._session
        for wanted, answer in self._answers:
            has_records = bool(answer.records)
            urgent = has_records or answer.error_code != 0
            if not session.has_news(wanted, answer.high_watermark, answer.log_start_offset, urgent):
                continue
            key = wanted.key[0]
            if key not in topics:
                topics[key] = (
                    FetchableTopicResponse(topic_id=key)
                    if isinstance(key, bytes)
                    else FetchableTopicResponse(topic=key)
                )
            topics[key].partitions.append(answer)
            if has_records:
                session.served(wanted.key)
        return FetchResponse(session_id=session.id, responses=list(topics.values()))

    def read_again(self) -> FetchResponse:
        self.read()
        return self.response()

    def wait(self, answer: Callable[[], T]) -> asyncio.Future[T]:
        """The answer to give when there is enough to read, or when the client has waited long enough."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        clock, seconds = self._broker.clock, self._request.max_wait_ms / 1000

        def look_again() -> None:
            if not future.done():
                future.set_result(answer())

        if self._committed_only:
            waiter: DataWaiter = StableDataWaiter(clock, self._partitions, seconds, look_again, self._has_enough)
        else:
            missing = self._request.min_bytes - self._size
            waiter = DataWaiter(clock, self._partitions, missing, seconds, look_again)
        future.add_done_callback(lambda _: waiter.cancel())
        return future

    def _has_enough(self) -> bool:
        self.read()
        return self.is_ready()


def find(broker: Broker, wanted: FetchPartition) -> Partition:
    """The partition that a client means, if this broker leads it in the epoch that the client knows."""
    topic, index = wanted.key
    if isinstance(topic, bytes):
        found = broker.controller.image.topic_by_id(topic)
        if found is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        topic = found.name
    partition = broker.replicas.leader_of(topic, index)
    partition.check_leader_epoch(wanted.leader_epoch)
    return partition
