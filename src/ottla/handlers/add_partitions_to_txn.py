"""AddPartitionsToTxn (24), versions 0-5: adds partitions to a transaction.

Clients send versions up to 3. Brokers send versions 4 and 5, for several transactions at once: they add partitions for
clients of transaction protocol 2, or only verify that the partitions were added (KIP-890).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.errors import ErrorCode, KafkaError
from ottla.handlers.yielding import yielding
from ottla.model import INTERNAL_TOPICS, Producer, TopicPartition
from ottla.txn.commands import PROTOCOL_1, PROTOCOL_2, AddPartitions
from ottla.txn.results import for_older_client
from ottla.wire.api.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

if TYPE_CHECKING:
    from ottla.handlers.context import Broker
    from ottla.handlers.exchange import Exchange

_FENCED_SINCE = 2
_FROM_BROKERS_SINCE = 4


async def handle(broker: Broker, exchange: Exchange, request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
    if exchange.api_version < _FROM_BROKERS_SINCE:
        transaction = AddPartitionsToTxnTransaction(
            transactional_id=request.v3_and_below_transactional_id,
            producer_id=request.v3_and_below_producer_id,
            producer_epoch=request.v3_and_below_producer_epoch,
            topics=request.v3_and_below_topics,
        )
        topics = await _add(broker, exchange, transaction)
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics)
    return AddPartitionsToTxnResponse(
        results_by_transaction=[
            AddPartitionsToTxnResult(
                transactional_id=transaction.transactional_id, topic_results=await _add(broker, exchange, transaction)
            )
            async for transaction in yielding(broker.clock, request.transactions)
        ]
    )


async def _add(
    broker: Broker, exchange: Exchange, transaction: AddPartitionsToTxnTransaction
) -> list[AddPartitionsToTxnTopicResult]:
    partitions = [TopicPartition(topic.name, index) for topic in transaction.topics for index in topic.partitions]
    errors: Sequence[ErrorCode] = _check_partitions(broker, exchange, partitions)
    if not any(errors):
        errors = await _ask(broker, exchange, transaction, partitions)
        if exchange.api_version < _FENCED_SINCE:
            errors = [for_older_client(error) for error in errors]
    return _results(transaction.topics, errors)


def _check_partitions(broker: Broker, exchange: Exchange, partitions: Sequence[TopicPartition]) -> list[ErrorCode]:
    """The error of each partition. If one of them is invalid, the transaction gets none of the partitions."""
    errors = []
    for topic, index in partitions:
        if exchange.api_version < _FROM_BROKERS_SINCE and topic in INTERNAL_TOPICS:
            errors.append(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        elif broker.metadata.image.partition(topic, index) is None:
            errors.append(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        else:
            errors.append(ErrorCode.NONE)
    if not any(errors):
        return errors
    return [ErrorCode.OPERATION_NOT_ATTEMPTED if error is ErrorCode.NONE else error for error in errors]


async def _ask(
    broker: Broker,
    exchange: Exchange,
    transaction: AddPartitionsToTxnTransaction,
    partitions: Sequence[TopicPartition],
) -> Sequence[ErrorCode]:
    command = AddPartitions(
        transaction.transactional_id,
        Producer(transaction.producer_id, transaction.producer_epoch),
        partitions,
        PROTOCOL_2 if exchange.api_version >= _FROM_BROKERS_SINCE else PROTOCOL_1,
    )
    try:
        if transaction.verify_only:
            return broker.transactions.verify_partitions(command)
        return (await broker.transactions.add_partitions(command)).errors
    except KafkaError as error:
        return [error.code] * len(partitions)


def _results(
    topics: Sequence[AddPartitionsToTxnTopic], errors: Sequence[ErrorCode]
) -> list[AddPartitionsToTxnTopicResult]:
    remaining = iter(errors)
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=next(remaining))
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]
