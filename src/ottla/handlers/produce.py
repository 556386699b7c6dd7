"""Produce (0), versions 3-13: append one batch to each partition named.

acks=0 is answered with nothing, or by hanging up when something failed, since there is no reply to say so. acks=all
waits for the in-sync replicas, at most for the timeout of the request. Batches of transactions have to be verified
first. Version 13 names topics by id. Versions 0-2 are advertised for old librdkafka's sake (KAFKA-18659) but refused,
as Kafka does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeAlias

from ottla.errors import ErrorCode, KafkaError
from ottla.handlers.context import CloseConnectionError
from ottla.handlers.leader_hints import hint_producer
from ottla.handlers.verification import Verification, transactional_header
from ottla.model import INTERNAL_TOPICS, TopicPartition
from ottla.replication.intake import InspectionNeeded
from ottla.wire.api.produce import (
    BatchIndexAndErrorMessage,
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


class Inspection(NamedTuple):
    """A batch that has to be opened in a thread before it can be appended."""

    answers: list[PartitionProduceResponse]
    position: int
    """The place in `answers` for the result."""
    topic_partition: TopicPartition
    records: bytearray
    admission: Admission | None


class InspectingReply:
    """A reply to a request with batches that are not appended yet. The connection's next request must wait for it, so
    that batches are appended in the order in which they were sent."""

    def __init__(self, coroutine: Coroutine[Any, Any, ProduceResponse | None]) -> None:
        self._coroutine = coroutine

    def __await__(self) -> Generator[Any, Any, ProduceResponse | None]:
        return self._coroutine.__await__()


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
) -> ProduceResponse | Awaitable[ProduceResponse | None] | None:
    """Append what may be appended, and answer once it is stored."""
    waits: list[asyncio.Future[None]] = []
    inspections: list[Inspection] = []
    topics = [
        _append_topic(broker, context, request, topic, verdict, waits, inspections) for topic in request.topic_data
    ]
    response = ProduceResponse(responses=topics)
    if not inspections:
        return reply_when_stored(broker, context, request.acks, response, waits)
    within = _replication_timeout(request)
    return InspectingReply(append_inspected(broker, context, request.acks, within, response, waits, inspections))


async def append_inspected(
    broker: Broker,
    context: Context,
    acks: int,
    within: float | None,
    response: ProduceResponse,
    waits: list[asyncio.Future[None]],
    inspections: list[Inspection],
) -> ProduceResponse | None:
    """Open and append the batches one after the other, so that one request has at most one open batch in memory."""
    for answers, position, topic_partition, records, admission in inspections:
        try:
            partition = broker.replicas.leader_of(*topic_partition)
            batch = await partition.inspect(records)
            if broker.replicas.leader_of(*topic_partition) is not partition:
                raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{partition} is another partition now")
            appended = partition.append(batch, admission, within, inspected=True)
        except KafkaError as error:
            answers[position] = refused(topic_partition.partition, error)
        else:
            answers[position] = answer_to(topic_partition.partition, appended, waits)
    reply = reply_when_stored(broker, context, acks, response, waits)
    return reply if reply is None or isinstance(reply, ProduceResponse) else await reply


def _replication_timeout(request: ProduceRequest) -> float | None:
    return request.timeout_ms / 1000 if request.acks == ACKS_ALL else None


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
    inspections: list[Inspection],
) -> TopicProduceResponse:
    refusal = None
    name = _topic_name(broker, context, topic)
    if request.acks not in VALID_ACKS:
        refusal = KafkaError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks={request.acks} is not 0, 1 or -1")
    elif name is None:
        refusal = KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
    elif name in INTERNAL_TOPICS and context.client_id != _ADMIN_CLIENT:
        refusal = KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"only the broker itself writes to {name}")
    within = _replication_timeout(request)
    answers: list[PartitionProduceResponse] = []
    for data in topic.partition_data:
        partition = TopicPartition(name or "", data.index)
        decision = refusal or verdict(partition)
        try:
            answers.append(_append(broker, partition, data.records, decision, within, waits))
        except InspectionNeeded:
            assert data.records is not None
            assert not isinstance(decision, KafkaError)
            # The records lie in a buffer that the next request is received into.
            inspections.append(Inspection(answers, len(answers), partition, bytearray(data.records), decision))
            answers.append(PartitionProduceResponse(index=data.index))
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
    return PartitionProduceResponse(
        index=index,
        base_offset=-1,
        error_code=error.code,
        error_message=error.message,
        record_errors=[
            BatchIndexAndErrorMessage(batch_index=batch_index, batch_index_error_message=message)
            for batch_index, message in error.record_errors
        ],
    )


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
