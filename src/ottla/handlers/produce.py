"""Produce (0), versions 3-13: append one batch to each partition named.

acks=0 is answered with nothing, or by hanging up when something failed, since there is no reply to say so. With one
in-sync replica, acks=1 and acks=all mean the same. Version 13 names topics by id. Versions 0-2 are advertised for old
librdkafka's sake (KAFKA-18659) but refused, as Kafka does.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, NoReturn

from ottla.errors import ErrorCode, KafkaError
from ottla.handlers.context import CloseConnectionError
from ottla.model import INTERNAL_TOPICS
from ottla.wire.api.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

if TYPE_CHECKING:
    from ottla.handlers.context import Broker, Context, Reply

VALID_ACKS = (0, 1, -1)
_ADMIN_CLIENT = "__admin_client"
"""The client id that Kafka lets write to internal topics, for tools that repair them."""


def handle(broker: Broker, context: Context, request: ProduceRequest) -> Reply:
    waits: list[asyncio.Future[None]] = []
    topics = [_append_topic(broker, context, request, topic, waits) for topic in request.topic_data]
    response = ProduceResponse(responses=topics)
    if request.acks == 0:
        _hang_up_on_failure(response)
        return None
    return _reply_when_stored(response, waits) if waits else response


def _append_topic(
    broker: Broker,
    context: Context,
    request: ProduceRequest,
    topic: TopicProduceData,
    waits: list[asyncio.Future[None]],
) -> TopicProduceResponse:
    name, refusal = topic.name, None
    if context.api_version >= 13:
        found = broker.controller.image.topic_by_id(topic.topic_id)
        if found is None:
            refusal = KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        else:
            name = found.name
    if request.acks not in VALID_ACKS:
        refusal = KafkaError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks={request.acks} is not 0, 1 or -1")
    elif request.transactional_id is not None:
        refusal = KafkaError(ErrorCode.INVALID_REQUEST, "transactions are not served")
    elif name in INTERNAL_TOPICS and context.client_id != _ADMIN_CLIENT:
        refusal = KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"only the broker itself writes to {name}")
    answers = [_append(broker, name, data.index, data.records, refusal, waits) for data in topic.partition_data]
    return TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=answers)


def _append(
    broker: Broker,
    topic: str,
    index: int,
    records: bytes | memoryview | None,
    refusal: KafkaError | None,
    waits: list[asyncio.Future[None]],
) -> PartitionProduceResponse:
    try:
        if refusal is not None:
            raise refusal
        if records is None:
            raise KafkaError(ErrorCode.INVALID_RECORD, "a partition without records")
        appended = broker.replicas.leader_of(topic, index).append(memoryview(records))
    except KafkaError as error:
        return refused(index, error)
    answer = PartitionProduceResponse(
        index=index,
        base_offset=appended.base_offset,
        log_append_time_ms=appended.log_append_time,
        log_start_offset=appended.log_start_offset,
    )
    if appended.wait is not None:
        waits.append(appended.wait)
        appended.wait.add_done_callback(partial(_stored, answer))
    return answer


def refused(index: int, error: KafkaError) -> PartitionProduceResponse:
    return PartitionProduceResponse(index=index, base_offset=-1, error_code=error.code, error_message=error.message)


def _stored(answer: PartitionProduceResponse, wait: asyncio.Future[None]) -> None:
    error = wait.exception()
    if isinstance(error, KafkaError):
        answer.error_code, answer.error_message = error.code, error.message
        answer.base_offset = answer.log_append_time_ms = answer.log_start_offset = -1


async def _reply_when_stored(response: ProduceResponse, waits: list[asyncio.Future[None]]) -> ProduceResponse:
    await asyncio.wait(waits)
    return response


def _hang_up_on_failure(response: ProduceResponse) -> None:
    for topic in response.responses:
        for partition in topic.partition_responses:
            if partition.error_code:
                hang_up(topic.name, partition)


def hang_up(topic: str, answer: PartitionProduceResponse) -> NoReturn:
    code = ErrorCode(answer.error_code).name
    raise CloseConnectionError(f"Produce with acks=0 failed for {topic}-{answer.index}: {code}")
