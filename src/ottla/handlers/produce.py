"""Produce (0), versions 3-13: append one batch to each partition named.

acks=0 is answered with nothing, or by hanging up when something failed, since there is no reply to say so. acks=all
waits for the in-sync replicas, at most for the timeout of the request. Batches of transactions have to be verified
first. Version 13 names topics by id. Versions 0-2 are advertised for old librdkafka's sake (KAFKA-18659) but refused,
as Kafka does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, NoReturn, TypeAlias

from ottla.coordinator.verification import Verification, transactional_header
from ottla.errors import ErrorCode, KafkaError
from ottla.handlers.context import CloseConnectionError
from ottla.handlers.leader_hints import hint_producer
from ottla.model import INTERNAL_TOPICS, TopicPartition
from ottla.wire.api.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

if TYPE_CHECKING:
    from ottla.handlers.context import Broker, Context, Reply
    from ottla.records.header import BatchHeader
    from ottla.replication.partition import Admission, Appended

Verdict: TypeAlias = "Callable[[TopicPartition], KafkaError | Admission | None]"
"""How the batch of a partition is appended: not at all, as part of a transaction, or by itself."""

ACKS_ALL = -1
VALID_ACKS = (0, 1, ACKS_ALL)
_ADMIN_CLIENT = "__admin_client"
"""The client id that Kafka lets write to internal topics, for tools that repair them."""


def handle(broker: Broker, context: Context, request: ProduceRequest) -> Reply:
    batches = _transactional_batches(broker, context, request)
    if not batches:
        return _append_all(broker, context, request, lambda _: None)
    if request.transactional_id is None:
        refusal = KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "a transaction without its id")
        return _append_all(broker, context, request, lambda _: refusal)
    verification = Verification(broker, context.api_version, request.transactional_id, batches)
    if verification.pending:
        _keep_records(request)
        return _append_when_verified(broker, context, request, verification)
    return _append_all(broker, context, request, verification.verdict)


def _transactional_batches(
    broker: Broker, context: Context, request: ProduceRequest
) -> dict[TopicPartition, BatchHeader]:
    found = {}
    for topic in request.topic_data:
        for data in topic.partition_data:
            header = transactional_header(data.records)
            if header is not None:
                found[TopicPartition(_topic_name(broker, context, topic) or "", data.index)] = header
    return found


def _keep_records(request: ProduceRequest) -> None:
    """The request lies in a buffer that the next request of anybody is received into: take what is needed later."""
    for topic in request.topic_data:
        for data in topic.partition_data:
            data.records = None if data.records is None else memoryview(bytearray(data.records))


async def _append_when_verified(
    broker: Broker, context: Context, request: ProduceRequest, verification: Verification
) -> ProduceResponse | None:
    await verification.finish()
    reply = _append_all(broker, context, request, verification.verdict)
    return reply if reply is None or isinstance(reply, ProduceResponse) else await reply


def _append_all(
    broker: Broker, context: Context, request: ProduceRequest, verdict: Verdict
) -> ProduceResponse | Awaitable[ProduceResponse] | None:
    """Append what may be appended, and answer once it is stored."""
    waits: list[asyncio.Future[None]] = []
    topics = [_append_topic(broker, context, request, topic, verdict, waits) for topic in request.topic_data]
    return reply_when_stored(broker, context, request.acks, ProduceResponse(responses=topics), waits)


def reply_when_stored(
    broker: Broker, context: Context, acks: int, response: ProduceResponse, waits: list[asyncio.Future[None]]
) -> ProduceResponse | Awaitable[ProduceResponse] | None:
    if acks == 0:
        _hang_up_on_failure(response)
        return None
    if waits:
        return _wait_and_reply(broker, context, response, waits)
    hint_producer(broker, context, context.api_version, response)
    return response


def _append_topic(
    broker: Broker,
    context: Context,
    request: ProduceRequest,
    topic: TopicProduceData,
    verdict: Verdict,
    waits: list[asyncio.Future[None]],
) -> TopicProduceResponse:
    refusal = None
    name = _topic_name(broker, context, topic)
    if request.acks not in VALID_ACKS:
        refusal = KafkaError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks={request.acks} is not 0, 1 or -1")
    elif name is None:
        refusal = KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
    elif name in INTERNAL_TOPICS and context.client_id != _ADMIN_CLIENT:
        refusal = KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"only the broker itself writes to {name}")
    within = request.timeout_ms / 1000 if request.acks == ACKS_ALL else None
    answers = []
    for data in topic.partition_data:
        partition = TopicPartition(name or "", data.index)
        answers.append(_append(broker, partition, data.records, refusal or verdict(partition), within, waits))
    return TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=answers)


def _topic_name(broker: Broker, context: Context, topic: TopicProduceData) -> str | None:
    """None for an id that nobody has."""
    if context.api_version < 13:
        return topic.name
    found = broker.metadata.image.topic_by_id(topic.topic_id)
    return None if found is None else found.name


def _append(
    broker: Broker,
    topic_partition: TopicPartition,
    records: bytes | memoryview | None,
    verdict: KafkaError | Admission | None,
    within: float | None,
    waits: list[asyncio.Future[None]],
) -> PartitionProduceResponse:
    topic, index = topic_partition
    try:
        if isinstance(verdict, KafkaError):
            raise verdict
        if records is None:
            raise KafkaError(ErrorCode.INVALID_RECORD, "a partition without records")
        appended = broker.replicas.leader_of(topic, index).append(memoryview(records), verdict, within)
    except KafkaError as error:
        return refused(index, error)
    return answer_to(index, appended, waits)


def answer_to(index: int, appended: Appended, waits: list[asyncio.Future[None]]) -> PartitionProduceResponse:
    """As it is once the last of `waits` is done, to which what this one waits for is added."""
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


async def _wait_and_reply(
    broker: Broker, context: Context, response: ProduceResponse, waits: list[asyncio.Future[None]]
) -> ProduceResponse:
    await asyncio.wait(waits)
    hint_producer(broker, context, context.api_version, response)
    return response


def _hang_up_on_failure(response: ProduceResponse) -> None:
    for topic in response.responses:
        for partition in topic.partition_responses:
            if partition.error_code:
                hang_up(topic.name, partition)


def hang_up(topic: str, answer: PartitionProduceResponse) -> NoReturn:
    code = ErrorCode(answer.error_code).name
    raise CloseConnectionError(f"Produce with acks=0 failed for {topic}-{answer.index}: {code}")
