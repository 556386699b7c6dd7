"""Fetch (1), versions 4-18: committed records from offsets on, at once or as soon as there are enough of them.

Records leave as slices of segment files. Version 7 brings sessions (KIP-227), 9 leader epochs, 13 topic ids. From 11 on
followers answer consumers too, and leaders tell those that name their rack which replica to ask (KIP-392).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from ottla.env.network import FileSlice
from ottla.errors import ErrorCode, KafkaError
from ottla.handlers.leader_hints import hint_consumer
from ottla.handlers.read_replica import preferred_read_replica
from ottla.log.epochs import EpochStart
from ottla.model import ISOLATION_LEVELS, READ_COMMITTED
from ottla.replication.fetch_sessions import AnyFetch, FetchPartition, Key
from ottla.replication.waiting import DataWaiter, StableDataWaiter
from ottla.wire.api.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)

if TYPE_CHECKING:
    from ottla.handlers.context import Broker, Context, Reply
    from ottla.replication.partition import Partition

T = TypeVar("T")

ANY_REPLICA_SINCE = 11


def handle(broker: Broker, context: Context, request: FetchRequest) -> Reply:
    if request.isolation_level not in ISOLATION_LEVELS:
        return _refuse_all(request, ErrorCode.UNKNOWN_SERVER_ERROR)
    try:
        session = _session(broker, context, request)
    except KafkaError as error:
        return FetchResponse(error_code=error.code)
    fetch = Fetch(broker, request, session, context, context.api_version)
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


def _session(broker: Broker, context: Context, request: FetchRequest) -> AnyFetch:
    by_id = context.api_version >= 13
    partitions = [
        FetchPartition(
            (topic.topic_id if by_id else topic.topic, partition.partition),
            partition.fetch_offset,
            partition.partition_max_bytes,
            partition.current_leader_epoch,
            partition.last_fetched_epoch,
            partition.log_start_offset,
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

    def __init__(
        self, broker: Broker, request: FetchRequest, session: AnyFetch, context: Context, version: int
    ) -> None:
        self._context = context
        self._version = version
        self._broker = broker
        self._request = request
        self._session = session
        self._replica = max(request.replica_id, request.replica_state.replica_id)
        """The broker that follows, or -1 for a consumer."""
        self._any_replica = version >= ANY_REPLICA_SINCE and self._replica < 0
        self._committed_only = request.isolation_level == READ_COMMITTED and self._replica < 0
        self._answers: list[tuple[FetchPartition, PartitionData]] = []
        self._partitions: list[Partition] = []
        self._size = 0
        self._is_urgent = False
        """Whether there is something to say that must not wait for records."""

    def is_ready(self) -> bool:
        request = self._request
        return self._is_urgent or self._size >= request.min_bytes or request.max_wait_ms <= 0 or not self._partitions

    def read(self) -> None:
        self._answers, self._partitions, self._size, self._is_urgent = [], [], 0, False
        room = min(self._request.max_bytes, self._broker.config.integer("fetch.max.bytes"))
        follows, now = self._replica >= 0 and not self._session.full, self._broker.clock.monotonic()
        for wanted in self._session:
            if follows and self._has_nothing_for_follower(wanted, now):
                continue
            answer = self._read_partition(wanted, room - self._size)
            self._answers.append((wanted, answer))

    def _has_nothing_for_follower(self, wanted: FetchPartition, now: float) -> bool:
        partition = wanted.partition
        if partition is None or not partition.leads or partition.leader_epoch != wanted.leader_epoch:
            return False
        if not partition.has_nothing_for(self._replica, wanted.fetch_offset, wanted.told, now):
            return False
        self._partitions.append(partition)
        return True

    def _read_partition(self, wanted: FetchPartition, room: int) -> PartitionData:
        index = wanted.key[1]
        try:
            partition = find(self._broker, wanted, any_replica=self._any_replica)
            if self._replica >= 0:
                return self._read_as_follower(partition, wanted, room)
            elsewhere = self._preferred_replica(partition, wanted)
            if elsewhere is not None:
                return self._sent_on(partition, index, elsewhere)
            records, aborted = self._read_records(partition, wanted, room)
        except KafkaError as error:
            self._is_urgent = True
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

    def _preferred_replica(self, partition: Partition, wanted: FetchPartition) -> int | None:
        rack = self._request.rack_id
        if not rack or not self._any_replica or not partition.leads:
            return None
        return preferred_read_replica(self._broker, self._context.listener, rack, partition, wanted.fetch_offset)

    def _sent_on(self, partition: Partition, index: int, replica: int) -> PartitionData:
        """No records, but whom to ask for them."""
        self._is_urgent = True
        return PartitionData(
            partition_index=index,
            high_watermark=partition.high_watermark,
            last_stable_offset=partition.last_stable_offset,
            log_start_offset=partition.log.log_start_offset,
            aborted_transactions=None,
            preferred_read_replica=replica,
            records=b"",
        )

    def _read_as_follower(self, partition: Partition, wanted: FetchPartition, room: int) -> PartitionData:
        limit = min(wanted.max_bytes, room)
        found = partition.read_as_follower(
            self._replica, wanted.fetch_offset, limit, wanted.last_fetched_epoch, wanted.log_start_offset
        )
        self._partitions.append(partition)
        wanted.partition = partition
        answer = PartitionData(
            partition_index=wanted.key[1],
            high_watermark=partition.high_watermark,
            last_stable_offset=partition.last_stable_offset,
            log_start_offset=partition.log.log_start_offset,
            aborted_transactions=None,
            records=b"",
        )
        if isinstance(found, EpochStart):
            self._is_urgent = True
            answer.diverging_epoch = EpochEndOffset(epoch=found.epoch, end_offset=found.start_offset)
        elif found.file is not None and not (found.size > limit and self._size) and not self._holds_up(partition):
            self._size += found.size
            if self._broker.throttle.concerns(partition):
                self._broker.throttle.record(found.size)
            answer.records = FileSlice(found.file, found.position, found.size)
        return answer

    def _holds_up(self, partition: Partition) -> bool:
        throttle, followers = self._broker.throttle, partition.followers
        in_sync = followers is not None and self._replica in followers.in_sync
        return not in_sync and throttle.concerns(partition) and throttle.is_exceeded()

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
            urgent = (
                has_records
                or answer.error_code != 0
                or answer.diverging_epoch.epoch >= 0
                or answer.preferred_read_replica >= 0
            )
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
        response = FetchResponse(session_id=session.id, responses=list(topics.values()))
        if self._is_urgent:
            hint_consumer(self._broker, self._context, self._version, response)
        return response

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
            waiter: DataWaiter = StableDataWaiter(clock, self._partitions, seconds, look_again, self.has_enough)
        else:
            missing = self._request.min_bytes - self._size
            waiting = [it.waiters if self._replica < 0 else it.follower_waiters for it in self._partitions]
            waiter = DataWaiter(clock, waiting, missing, seconds, look_again)
        future.add_done_callback(lambda _: waiter.cancel())
        return future

    def has_enough(self) -> bool:
        self.read()
        return self.is_ready()


def find(broker: Broker, wanted: FetchPartition, *, any_replica: bool) -> Partition:
    """The partition that a client means, if this broker leads it, or at least follows where `any_replica` will do, in
    the epoch that the client knows."""
    topic, index = wanted.key
    if isinstance(topic, bytes):
        found = broker.metadata.image.topic_by_id(topic)
        if found is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        topic = found.name
    partition = broker.replicas.replica_of(topic, index) if any_replica else broker.replicas.leader_of(topic, index)
    partition.check_leader_epoch(wanted.leader_epoch)
    return partition
