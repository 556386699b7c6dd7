"""Produce (0), versions 3-13: append one batch to each partition named.

acks=0 is answered with nothing, or by hanging up when something failed, since there is no reply to say so. acks=all
waits for the in-sync replicas, at most for the timeout of the request. Batches of transactions have to be verified
first. Version 13 names topics by id. Versions 0-2 are advertised for old librdkafka's sake (KAFKA-18659) but refused,
as Kafka does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from ottla.coordinator.verification import Verification, transactional_header
from ottla.errors import ErrorCode, KafkaError
from ottla.handlers.exchange import CloseConnectionError, PendingReply
from ottla.handlers.leader_hints import NO_LEADER, LeaderHints
from ottla.model import INTERNAL_TOPICS, TopicId, TopicPartition
from ottla.records.format import ATTRIBUTES_AT, HEADER_SIZE, TRANSACTIONAL_FLAG
from ottla.replication.intake import InspectionNeeded

if TYPE_CHECKING:
    from ottla.env.network import Part
    from ottla.handlers.context import Broker
    from ottla.handlers.exchange import Completion, Exchange, Reply
    from ottla.handlers.leader_hints import Endpoint
    from ottla.records.header import BatchHeader
    from ottla.replication.partition import Admission

TopicBatches: TypeAlias = "tuple[str, TopicId, list[tuple[int, memoryview | None]]]"
"""`TopicProduceData` as a tuple: name, id, and each partition with its records."""

Request: TypeAlias = "tuple[str | None, int, int, list[TopicBatches]]"
"""`ProduceRequest` as a tuple: transactional id, acks, timeout, topics."""

Answer: TypeAlias = "tuple[int, int, int, int, int, Sequence[tuple[int, str | None]], str | None, tuple[int, int]]"
"""`PartitionProduceResponse` as a tuple: partition, error code, base offset, log append time, log start offset, errors
of records, error message, leader id and epoch."""

Verdict: TypeAlias = "Callable[[TopicPartition], KafkaError | Admission | None]"
"""How the batch of a partition is appended: not at all, as part of a transaction, or by itself."""

_FLAGS_AT = ATTRIBUTES_AT + 1

ACKS_ALL = -1
_VALID_ACKS = (0, 1, ACKS_ALL)
_TOPIC_IDS_SINCE = 13
_ADMIN_CLIENT = "__admin_client"
"""The client id that Kafka lets write to internal topics, for tools that repair them."""


def handle(broker: Broker, exchange: Exchange, request: Request) -> Reply:
    transactional_id, acks, timeout_ms, topics = request
    appends = _Appends(broker, exchange, acks, timeout_ms)
    if acks not in _VALID_ACKS:
        refusal = KafkaError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks={acks} is not 0, 1 or -1")
        return appends.append(topics, lambda _: refusal)
    for _, _, batches in topics:
        for _, records in batches:
            if records is not None and len(records) >= HEADER_SIZE and records[_FLAGS_AT] & TRANSACTIONAL_FLAG:
                return _append_to_transaction(appends, exchange, transactional_id, topics)
    return appends.append(topics, None)


def _append_to_transaction(
    appends: _Appends, exchange: Exchange, transactional_id: str | None, topics: list[TopicBatches]
) -> Reply:
    broker = appends.broker
    batches = _transactional_batches(broker, exchange, topics)
    if not batches:
        return appends.append(topics, None)
    if transactional_id is None:
        refusal = KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "a transaction without its id")
        return appends.append(topics, lambda _: refusal)
    verification = Verification(broker, exchange.api_version, transactional_id, batches)
    if verification.pending:
        return _append_when_verified(appends, _kept(topics), verification)
    return appends.append(topics, verification.verdict)


def _transactional_batches(
    broker: Broker, exchange: Exchange, topics: list[TopicBatches]
) -> dict[TopicPartition, BatchHeader]:
    """The headers of the batches that are parts of transactions."""
    found: dict[TopicPartition, BatchHeader] = {}
    for name, topic_id, batches in topics:
        for index, records in batches:
            header = transactional_header(records)
            if header is not None:
                found[TopicPartition(_topic_name(broker, exchange, name, topic_id) or "", index)] = header
    return found


def _topic_name(broker: Broker, exchange: Exchange, name: str, topic_id: TopicId) -> str | None:
    """None for an id that no topic has."""
    if exchange.api_version < _TOPIC_IDS_SINCE:
        return name
    found = broker.metadata.image.topic_by_id(topic_id)
    return None if found is None else found.name


def _kept(topics: list[TopicBatches]) -> list[TopicBatches]:
    """Copies of the records: they lie in a buffer that the next request of any client is received into."""
    return [
        (name, topic_id, [(index, None if it is None else memoryview(bytearray(it))) for index, it in batches])
        for name, topic_id, batches in topics
    ]


async def _append_when_verified(
    appends: _Appends, topics: list[TopicBatches], verification: Verification
) -> list[Part]:
    """The next request of the connection waits meanwhile: its batches must not overtake these."""
    await verification.finish()
    return await _finished(appends.append(topics, verification.verdict))


async def _finished(reply: list[Part] | PendingReply | Coroutine[None, None, list[Part]]) -> list[Part]:
    if isinstance(reply, PendingReply):
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        reply.completion.add_done_callback(lambda _: done.set_result(None))
        await done
        return reply.encode(reply.completion)
    return reply if isinstance(reply, list) else await reply


class _Pending(NamedTuple):
    """An append that is not stored yet, and where its answer is."""

    answers: list[Answer]
    position: int
    stored: asyncio.Future[None]


class _Inspection(NamedTuple):
    """A batch that has to be opened in a thread before it is appended, and where its answer will be."""

    answers: list[Answer]
    position: int
    partition: TopicPartition
    records: bytearray
    admission: Admission | None


class _Appends:
    """The appends of one request, and its reply."""

    __slots__ = ("_acks", "_exchange", "_inspections", "_pending", "_refused", "_responses", "_timeout", "broker")

    def __init__(self, broker: Broker, exchange: Exchange, acks: int, timeout_ms: int) -> None:
        self.broker = broker
        self._exchange = exchange
        self._acks = acks
        self._timeout = timeout_ms / 1000 if acks == ACKS_ALL else None
        self._responses: list[tuple[str, TopicId, list[Answer]]] = []
        self._pending: list[_Pending] = []
        self._inspections: list[_Inspection] = []
        self._refused = False

    def append(
        self, topics: list[TopicBatches], verdict: Verdict | None
    ) -> list[Part] | PendingReply | Coroutine[None, None, list[Part]]:
        """Append what may be appended. The reply comes once it is stored."""
        by_id = self._exchange.api_version >= _TOPIC_IDS_SINCE
        leader_of = self.broker.replicas.leader_of
        for name, topic_id, batches in topics:
            answers: list[Answer] = []
            self._responses.append((name, topic_id, answers))
            topic = _topic_name(self.broker, self._exchange, name, topic_id) if by_id else name
            for index, records in batches:
                admission: Admission | None = None
                try:
                    if topic is None or records is None or topic in INTERNAL_TOPICS:
                        topic, records = self._check(topic, records)
                    if verdict is not None:
                        admission = _admission(verdict, topic, index)
                    appended = leader_of(topic, index).append(records, admission, self._timeout)
                except KafkaError as error:
                    self._refused = True
                    answers.append(_refused(index, error))
                except InspectionNeeded:
                    assert topic is not None
                    assert records is not None
                    kept = bytearray(records)  # The records lie in a buffer that the next request is received into.
                    where = TopicPartition(topic, index)
                    self._inspections.append(_Inspection(answers, len(answers), where, kept, admission))
                    answers.append((index, 0, -1, -1, -1, (), None, NO_LEADER))
                else:
                    base_offset, time, start, stored = appended
                    if stored is not None:
                        self._pending.append(_Pending(answers, len(answers), stored))
                    answers.append((index, 0, base_offset, time, start, (), None, NO_LEADER))
        return self._append_inspected() if self._inspections else self._reply()

    def _check(self, topic: str | None, records: memoryview | None) -> tuple[str, memoryview]:
        """Raises KafkaError for a topic or records that are missing, and for a topic that only the broker writes to."""
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        if topic in INTERNAL_TOPICS and self._exchange.client_id != _ADMIN_CLIENT:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"only the broker itself writes to {topic}")
        if records is None:
            raise KafkaError(ErrorCode.INVALID_RECORD, "a partition without records")
        return topic, records

    def _reply(self) -> list[Part] | PendingReply:
        pending = self._pending
        if not pending and self._acks:
            return self._encode()
        if self._acks == 0:
            return self._no_reply()
        completion = pending[0].stored if len(pending) == 1 else _AllDone([it.stored for it in pending])
        return PendingReply(completion, self._encode_stored, blocks_connection=False)

    async def _append_inspected(self) -> list[Part]:
        """Open and append the batches one after the other, so that one request has at most one open batch in memory.

        The next request of the connection waits meanwhile: its batches must not overtake these."""
        leader_of = self.broker.replicas.leader_of
        for answers, position, where, records, admission in self._inspections:
            try:
                partition = leader_of(*where)
                batch = await partition.inspect(records)
                if leader_of(*where) is not partition:
                    raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{partition} is another partition now")
                base_offset, time, start, stored = partition.append(batch, admission, self._timeout, inspected=True)
            except KafkaError as error:
                self._refused = True
                # Like Kafka, which tells the log start only when it refuses records and not the whole batch.
                start = partition.log.log_start_offset if error.record_errors else -1
                answers[position] = _refused(where.partition, error, start)
            else:
                if stored is not None:
                    self._pending.append(_Pending(answers, position, stored))
                answers[position] = (where.partition, 0, base_offset, time, start, (), None, NO_LEADER)
        return await _finished(self._reply())

    def _no_reply(self) -> list[Part]:
        """acks=0: hang up if something failed. What is not stored yet is nobody's concern any more."""
        for _, _, stored in self._pending:
            stored.add_done_callback(asyncio.Future.exception)
        for topic, _, answers in self._responses if self._refused else ():
            for index, code, *_ in answers:
                if code:
                    name = ErrorCode(code).name
                    raise CloseConnectionError(f"Produce with acks=0 failed for {topic}-{index}: {name}")
        return []

    def _encode_stored(self, _: Completion) -> list[Part]:
        """Any failure to store a batch is told: what is not known to be stored must not be acknowledged."""
        for answers, position, stored in self._pending:
            error = stored.exception()
            if error is not None:
                self._refused = True
                known = error if isinstance(error, KafkaError) else KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
                answers[position] = _refused(answers[position][0], known)
        return self._encode()

    def _encode(self) -> list[Part]:
        endpoints = self._hint_leaders() if self._refused else ()
        return self._exchange.encode((self._responses, 0, endpoints))

    def _hint_leaders(self) -> list[Endpoint]:
        """Complete answers that refuse a batch because another broker leads (KIP-951)."""
        hints = LeaderHints(self.broker, self._exchange)
        for topic, topic_id, answers in self._responses:
            for position, answer in enumerate(answers):
                if answer[1] == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                    answers[position] = (*answer[:7], hints.leader(topic, topic_id, answer[0]))
        return hints.endpoints()


class _AllDone:
    """Complete when all of some futures are done."""

    __slots__ = ("_callback", "_left")

    def __init__(self, futures: Sequence[asyncio.Future[None]]) -> None:
        self._callback: Callable[[_AllDone], object] | None = None
        self._left = len(futures)
        for future in futures:
            future.add_done_callback(self._one_done)

    def add_done_callback(self, callback: Callable[[_AllDone], object], /) -> None:
        self._callback = callback

    def cancel(self) -> None:
        self._callback = None

    def cancelled(self) -> bool:
        return self._callback is None

    def _one_done(self, _: asyncio.Future[None]) -> None:
        self._left -= 1
        if not self._left and self._callback is not None:
            self._callback(self)


def _admission(verdict: Verdict, topic: str, index: int) -> Admission | None:
    """Leave to append to a transaction; None for a batch that is not part of one. Raises KafkaError."""
    decided = verdict(TopicPartition(topic, index))
    if isinstance(decided, KafkaError):
        raise decided
    return decided


def _refused(index: int, error: KafkaError, log_start_offset: int = -1) -> Answer:
    return index, error.code, -1, -1, log_start_offset, error.record_errors, error.message, NO_LEADER
