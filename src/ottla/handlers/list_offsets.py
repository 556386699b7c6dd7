"""ListOffsets (2), versions 1-11: offsets by timestamp, or of the earliest, the latest or the largest timestamp.

Version 4 has leader epochs, 7 the largest timestamp (-3), 8 and 9 local and tiered offsets, 11 the earliest offset that
waits for upload. Ottla has no tiered storage: the local log is the whole log, and no offset is tiered or waits.

Only the leader serves the request. A new leader may not know yet which records are committed. Then it returns
OFFSET_NOT_AVAILABLE from version 5 on (KIP-207). A partition that occurs twice gets INVALID_REQUEST once. A lookup by
timestamp decompresses batches, so it runs in a thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.errors import ErrorCode, KafkaError
from ottla.handlers.distinct import distinct
from ottla.handlers.yielding import yielding
from ottla.model import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    ISOLATION_LEVELS,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    NO_LEADER_EPOCH,
    NO_OFFSET,
    NO_TIMESTAMP,
    READ_COMMITTED,
)
from ottla.replication.timestamp_lookup import find_timestamp, lookup_deadline
from ottla.wire.api.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

if TYPE_CHECKING:
    from ottla.handlers.context import Broker
    from ottla.handlers.exchange import Exchange
    from ottla.replication.partition import Partition

_SINCE_VERSION = {
    EARLIEST_TIMESTAMP: 1,
    LATEST_TIMESTAMP: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL_TIMESTAMP: 8,
    LATEST_TIERED_TIMESTAMP: 9,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP: 11,
}
"""Negative timestamps stand for special offsets. By timestamp, the first version that supports it."""

_NEVER = 0x7FFF
_OFFSET_NOT_AVAILABLE_SINCE = 5


async def handle(broker: Broker, exchange: Exchange, request: ListOffsetsRequest) -> ListOffsetsResponse:
    topics, repeated = distinct(
        (topic.name, wanted.partition_index, wanted) for topic in request.topics for wanted in topic.partitions
    )
    answers: dict[str, list[ListOffsetsPartitionResponse]] = {name: [] for name in topics}
    each = ((name, wanted) for name, partitions in topics.items() for wanted in partitions.values())
    deadline = lookup_deadline()
    async for name, wanted in yielding(broker.clock, each):
        if (name, wanted.partition_index) in repeated:
            answer = _refusal(wanted, ErrorCode.INVALID_REQUEST)
        else:
            answer = await _answer(broker, exchange, request, name, wanted, deadline)
        answers[name].append(answer)
    return ListOffsetsResponse(
        topics=[ListOffsetsTopicResponse(name=name, partitions=partitions) for name, partitions in answers.items()]
    )


def _refusal(wanted: ListOffsetsPartition, code: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=wanted.partition_index, error_code=code)


async def _answer(
    broker: Broker,
    exchange: Exchange,
    request: ListOffsetsRequest,
    topic: str,
    wanted: ListOffsetsPartition,
    deadline: float,
) -> ListOffsetsPartitionResponse:
    try:
        if request.isolation_level not in ISOLATION_LEVELS:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        if wanted.timestamp < 0 and exchange.api_version < _SINCE_VERSION.get(wanted.timestamp, _NEVER):
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
        partition = broker.replicas.leader_of(topic, wanted.partition_index)
        partition.check_leader_epoch(wanted.current_leader_epoch)
        offset, timestamp, leader_epoch = await _find(partition, wanted.timestamp, request, deadline)
    except KafkaError as error:
        if error.code is ErrorCode.OFFSET_NOT_AVAILABLE and exchange.api_version < _OFFSET_NOT_AVAILABLE_SINCE:
            return _refusal(wanted, ErrorCode.LEADER_NOT_AVAILABLE)
        return _refusal(wanted, error.code)
    return ListOffsetsPartitionResponse(
        partition_index=wanted.partition_index, offset=offset, timestamp=timestamp, leader_epoch=leader_epoch
    )


async def _find(
    partition: Partition, timestamp: int, request: ListOffsetsRequest, deadline: float
) -> tuple[int, int, int]:
    """Offset, timestamp and leader epoch. Raises KafkaError."""
    log = partition.log
    if timestamp in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
        return log.log_start_offset, NO_TIMESTAMP, log.epochs.epoch_at(log.log_start_offset)
    if timestamp in (LATEST_TIERED_TIMESTAMP, EARLIEST_PENDING_UPLOAD_TIMESTAMP):
        return NO_OFFSET, NO_TIMESTAMP, NO_LEADER_EPOCH
    found = None if timestamp == LATEST_TIMESTAMP else await find_timestamp(partition, timestamp, deadline)
    from_follower = request.replica_id >= 0
    end = _end(partition, request.isolation_level, from_follower)
    if found is not None and found.offset < end:
        return found.offset, found.timestamp, partition.log.epochs.epoch_at(found.offset)
    if not partition.knows_committed and not from_follower:
        # A new leader learns the high watermark from its followers. Until it covers the log as of the election,
        # the result could be below a result of the previous leader (KIP-207).
        raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE, f"the end of {partition} is not known yet")
    if timestamp == LATEST_TIMESTAMP:
        return end, NO_TIMESTAMP, partition.leader_epoch
    return NO_OFFSET, NO_TIMESTAMP, NO_LEADER_EPOCH


def _end(partition: Partition, isolation_level: int, from_follower: bool) -> int:
    """The end of the records that the client or the follower may read."""
    if from_follower:
        return partition.log.end_offset
    return partition.last_stable_offset if isolation_level == READ_COMMITTED else partition.high_watermark
