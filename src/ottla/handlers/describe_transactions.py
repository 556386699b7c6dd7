"""DescribeTransactions (65), version 0: the state of transactional ids that this broker coordinates (KIP-664)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.errors import KafkaError
from ottla.handlers.yielding import yielding
from ottla.wire.api.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)

if TYPE_CHECKING:
    from ottla.handlers.context import Broker
    from ottla.handlers.exchange import Exchange


async def handle(
    broker: Broker, exchange: Exchange, request: DescribeTransactionsRequest
) -> DescribeTransactionsResponse:
    wanted = yielding(broker.clock, dict.fromkeys(request.transactional_ids))
    return DescribeTransactionsResponse(transaction_states=[_describe(broker, name) async for name in wanted])


def _describe(broker: Broker, transactional_id: str) -> TransactionState:
    try:
        found = broker.transactions.describe(transactional_id)
    except KafkaError as error:
        return TransactionState(transactional_id=transactional_id, error_code=error.code)
    topics: dict[str, TopicData] = {}
    for topic, partition in found.partitions:
        topics.setdefault(topic, TopicData(topic=topic)).partitions.append(partition)
    return TransactionState(
        error_code=found.error,
        transactional_id=transactional_id,
        transaction_state=found.state,
        transaction_timeout_ms=found.transaction_timeout_ms,
        transaction_start_time_ms=found.transaction_start_time_ms,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        topics=list(topics.values()),
    )
