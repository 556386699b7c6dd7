"""ListOffsets (2), versions 1-11: a moment's offset in a partition: earliest, latest, a timestamp, the largest one.

Version 4 brings leader epochs, 7 the largest timestamp (-3), 8 and 9 local and tiered offsets (without tiered storage
the local log is the whole log, and nothing is tiered), 11 the earliest offset waiting for upload (there is none).
Only the leader answers. Just elected, it may not know yet up to where records are committed; from version 5 on it can
say so (KIP-207).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.errors import ErrorCode, KafkaError
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
from ottla.wire.api.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

if TYPE_CHECKING:
    from ottla.handlers.context import Broker, Context, Reply
    from ottla.replication.partition import Partition

_SINCE_VERSION = {
    EARLIEST_TIMESTAMP: 1,
    LATEST_TIMESTAMP: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL_TIMESTAMP: 8,
    LATEST_TIERED_TIMESTAMP: 9,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP: 11,
}
"""Negative timestamps are questions; which ones may be asked depends on the version."""

_NEVER = 0x7FFF
_OFFSET_NOT_AVAILABLE_SINCE = 5


def handle(broker: Broker, context: Context, request: ListOffsetsRequest) -> Reply:
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[_answer(broker, context, request, topic.name, wanted) for wanted in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _answer(
    broker: Broker, context: Context, request: ListOffsetsRequest, topic: str, wanted: ListOffsetsPartition
) -> ListOffsetsPartitionResponse:
    answer = ListOffsetsPartitionResponse(partition_index=wanted.partition_index)
    try:
        if request.isolation_level not in ISOLATION_LEVELS:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        if wanted.timestamp < 0 and context.api_version < _SINCE_VERSION.get(wanted.timestamp, _NEVER):
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
        partition = broker.replicas.leader_of(topic, wanted.partition_index)
        partition.check_leader_epoch(wanted.current_leader_epoch)
        answer.offset, answer.timestamp, answer.leader_epoch = _find(partition, wanted.timestamp, request)
    except KafkaError as error:
        answer.error_code = error.code
        if error.code is ErrorCode.OFFSET_NOT_AVAILABLE and context.api_version < _OFFSET_NOT_AVAILABLE_SINCE:
            answer.error_code = ErrorCode.LEADER_NOT_AVAILABLE
    return answer


def _find(partition: Partition, timestamp: int, request: ListOffsetsRequest) -> tuple[int, int, int]:
    log = partition.log
    if timestamp in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
        return log.log_start_offset, NO_TIMESTAMP, log.epochs.epoch_at(log.log_start_offset)
    if timestamp in (LATEST_TIERED_TIMESTAMP, EARLIEST_PENDING_UPLOAD_TIMESTAMP):
        return NO_OFFSET, NO_TIMESTAMP, NO_LEADER_EPOCH
    from_follower = request.replica_id >= 0
    end = _end(partition, request.isolation_level, from_follower)
    if timestamp != LATEST_TIMESTAMP:
        found = log.max_timestamp() if timestamp == MAX_TIMESTAMP else log.offset_for_timestamp(timestamp)
        if found is not None and found.offset < end:
            return found.offset, found.timestamp, log.epochs.epoch_at(found.offset)
    if not partition.knows_committed and not from_follower:
        # A new leader learns only from its followers how much is committed. Until it knows that of all that was there
        # when it began to lead, an answer could be before one that the leader of before has given (KIP-207).
        raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE, f"the end of {partition} is not known yet")
    if timestamp == LATEST_TIMESTAMP:
        return end, NO_TIMESTAMP, partition.leader_epoch
    return NO_OFFSET, NO_TIMESTAMP, NO_LEADER_EPOCH


def _end(partition: Partition, isolation_level: int, from_follower: bool) -> int:
    """Up to where the asker may read."""
    if from_follower:
        return partition.log.end_offset
    return partition.last_stable_offset if isolation_level == READ_COMMITTED else partition.high_watermark
