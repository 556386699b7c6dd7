"""TxnOffsetCommit (28), versions 0-5: offsets of a group that take effect when the transaction is committed.

From version 3 on, the request has the member id, so that a member of an older generation is fenced (KIP-447). From
version 5 on, the request also adds the group's partition to the transaction. Older clients send AddOffsetsToTxn first
(KIP-890).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ottla.coordinator.verification import is_wanted
from ottla.coordinator_core.effects import response_error
from ottla.errors import ErrorCode, KafkaError
from ottla.groups.commands import PartitionCommit, TxnCommit
from ottla.handlers.topic_answers import TopicAnswers
from ottla.log.verification import UNVERIFIED
from ottla.model import Producer, TopicId
from ottla.wire.api.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from ottla.handlers.context import Broker
    from ottla.handlers.exchange import Exchange

_LOADING_SINCE = 2
_ABORTABLE_SINCE = 4
_ADDS_SINCE = 5


async def handle(broker: Broker, exchange: Exchange, request: TxnOffsetCommitRequest) -> TxnOffsetCommitResponse:
    answers: TopicAnswers[TxnOffsetCommitResponseTopic] = TopicAnswers()
    commits: list[PartitionCommit] = []
    results: list[TxnOffsetCommitResponsePartition] = []
    for wanted in request.topics:
        new_topic = partial(TxnOffsetCommitResponseTopic, name=wanted.name)
        served = new_topic()
        topic = broker.metadata.image.topics.get(wanted.name)
        if topic is None:
            answers.refused(wanted.name, new_topic)
        for partition in wanted.partitions:
            result = TxnOffsetCommitResponsePartition(partition_index=partition.partition_index)
            if topic is None or not 0 <= partition.partition_index < len(topic.partitions):
                result.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                answers.refused(wanted.name, new_topic).partitions.append(result)
                continue
            served.partitions.append(result)
            results.append(result)
            commits.append(
                PartitionCommit(
                    wanted.name,
                    partition.partition_index,
                    partition.committed_offset,
                    partition.committed_leader_epoch,
                    partition.committed_metadata,
                    TopicId(topic.topic_id),
                )
            )
        answers.serve(wanted.name, served)
    if commits:
        errors = await _commit(broker, exchange, request, commits)
        for result, error in zip(results, errors, strict=True):
            result.error_code = _for_version(error, exchange.api_version)
    return TxnOffsetCommitResponse(topics=answers.topics())


async def _commit(
    broker: Broker, exchange: Exchange, request: TxnOffsetCommitRequest, partitions: list[PartitionCommit]
) -> tuple[ErrorCode, ...]:
    command = TxnCommit(
        group_id=request.group_id,
        producer=Producer(request.producer_id, request.producer_epoch),
        partitions=partitions,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        generation_id=request.generation_id,
    )
    adds = exchange.api_version >= _ADDS_SINCE
    if not request.group_id:
        return (ErrorCode.INVALID_GROUP_ID,) * len(partitions)
    try:
        if not is_wanted(broker.config, adds=adds):
            return (await broker.groups.commit_txn(command, UNVERIFIED)).errors
        guard = broker.groups.begin_verification(command, supports_epoch_bump=adds)
        if guard is not None:
            offsets_partition = broker.groups.partition_of(request.group_id)
            refused = await broker.transactions.admit(
                request.transactional_id, command.producer, [offsets_partition], add=adds
            )
            if offsets_partition in refused:
                return (response_error(refused[offsets_partition]),) * len(partitions)
        return (await broker.groups.commit_txn(command, guard)).errors
    except KafkaError as error:
        return (response_error(error.code),) * len(partitions)


def _for_version(error: ErrorCode, api_version: int) -> ErrorCode:
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error is ErrorCode.TRANSACTION_ABORTABLE and api_version < _ABORTABLE_SINCE:
        return ErrorCode.INVALID_TXN_STATE
    if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and api_version < _LOADING_SINCE:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return error
