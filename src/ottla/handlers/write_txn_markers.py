"""WriteTxnMarkers (27), versions 1-2: appends transaction markers to partitions that this broker leads.

Transaction coordinators send it, and administrators who abort a hanging transaction (KIP-664).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ottla.errors import ErrorCode
from ottla.handlers.yielding import yielding
from ottla.model import TopicPartition
from ottla.records.control import EndTransactionMarker
from ottla.wire.api.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

if TYPE_CHECKING:
    from ottla.handlers.context import Broker
    from ottla.handlers.exchange import Exchange


async def handle(broker: Broker, exchange: Exchange, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(
        markers=[await _write(broker, marker) async for marker in yielding(broker.clock, request.markers)]
    )


async def _write(broker: Broker, wanted: WritableTxnMarker) -> WritableTxnMarkerResult:
    partitions = {TopicPartition(topic.name, index) for topic in wanted.topics for index in topic.partition_indexes}
    if wanted.producer_id < 0 or wanted.producer_epoch < 0:
        errors = dict.fromkeys(partitions, ErrorCode.UNKNOWN_SERVER_ERROR)
    else:
        errors = await _write_all(broker, wanted, partitions)
    return WritableTxnMarkerResult(
        producer_id=wanted.producer_id,
        topics=[
            WritableTxnMarkerTopicResult(
                name=topic.name,
                partitions=[
                    WritableTxnMarkerPartitionResult(
                        partition_index=index, error_code=errors[TopicPartition(topic.name, index)]
                    )
                    for index in topic.partition_indexes
                ],
            )
            for topic in wanted.topics
        ],
    )


async def _write_all(
    broker: Broker, wanted: WritableTxnMarker, partitions: set[TopicPartition]
) -> dict[TopicPartition, ErrorCode]:
    errors: dict[TopicPartition, ErrorCode] = {}
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def report(partition: TopicPartition, error: ErrorCode) -> None:
        errors[partition] = error
        if len(errors) == len(partitions):
            done.set_result(None)

    marker = EndTransactionMarker(
        wanted.producer_id, wanted.producer_epoch, wanted.coordinator_epoch, wanted.transaction_result
    )
    broker.markers.write_here(marker, wanted.transaction_version, partitions, report)
    if partitions:
        await done
    return errors
