"""Fast path of Produce, for a request that looks like an earlier one. Slow twin: `handlers.produce`.

A producer sends the same bytes over and over: client id, acks, timeout, one topic. Only correlation id, partitions and
batches differ. A request that took the slow way is remembered as a `ProduceShape`; one that has the same bytes in front
is not decoded, and its reply is not encoded from any message: the numbers that differ are filled in.
What is appended, and all that is checked before that, is the same code on both ways, and the bytes on the wire are held
to be the same by `tests/handlers/test_produce_again.py`.
"""

from __future__ import annotations

import asyncio
import struct
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ottla.errors import KafkaError
from ottla.handlers.context import Later
from ottla.handlers.leader_hints import hint_producer
from ottla.handlers.produce import (
    ACKS_ALL,
    VALID_ACKS,
    Inspection,
    answer_to,
    append_inspected,
    hang_up,
    refused,
    reply_when_stored,
)
from ottla.handlers.verification import transactional_header
from ottla.model import INTERNAL_TOPICS, TopicPartition
from ottla.replication.intake import InspectionNeeded
from ottla.replication.partition import Appended
from ottla.wire.api import PRODUCE
from ottla.wire.api.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from ottla.wire.framing import response_frame
from ottla.wire.primitives import WireError, read_varint, write_varint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.env.network import Part
    from ottla.handlers.context import Broker, Context
    from ottla.model import TopicId
    from ottla.replication.partition import Partition
    from ottla.wire.api.produce import PartitionProduceData, ProduceRequest
    from ottla.wire.framing import RequestHeader

_SHAPES = 4
"""Remembered for each connection, the newest first: a producer of a few topics is fast, too."""

_MOST_PARTITIONS = 126
"""Their number still takes one byte in a flexible request."""

_FIRST_VERSION = 5
"""From here on a reply has all of `_NUMBERS`."""

_NUMBERS = struct.Struct(">ihqqq")
"""Partition, error code, base offset, log append time, log start offset: what differs from one reply to the next."""
_MARKS = (0x01020304, 0x0506, 0x0708090A0B0C0D0E, 0x0F10111213141516, 0x1718191A1B1C1D1E)

_LENGTH = struct.Struct(">i")
_START = struct.Struct(">ii")
"""Of a reply: its size and correlation id."""
_TAIL = b"\0\0"
"""How a flexible request ends: no tagged fields for the topic and the request."""
_NO_TAGS = b"\0" + _TAIL
"""And for the partition before them."""


class ProduceShape:
    """What requests of one shape have in common: the bytes in front of the partitions, the topic, and the reply around
    its numbers."""

    __slots__ = (
        "acks",
        "after",
        "before",
        "between",
        "call",
        "flexible",
        "head",
        "header",
        "lead",
        "one",
        "pack",
        "partitions_at",
        "reply_size",
        "topic",
        "topic_id",
        "unpack_from",
        "within",
    )

    def __init__(
        self,
        frame: memoryview,
        count_at: int,
        header: RequestHeader,
        topic: str,
        topic_id: TopicId | None,
        acks: int,
        timeout_ms: int,
    ) -> None:
        self.header = header
        self.flexible = PRODUCE.is_flexible(header.api_version)
        self.topic = topic
        self.topic_id = topic_id
        self.acks = acks
        self.within = timeout_ms / 1000 if acks == ACKS_ALL else None
        self.call = bytes(frame[:4])
        self.head = bytes(frame[8:count_at])
        count = "B" if self.flexible else "i"
        self.one = 2 if self.flexible else 1
        """How the number of partitions is written when there is one."""
        self.partitions_at = count_at + struct.calcsize(count)
        self.unpack_from = struct.Struct(f">4si{len(self.head)}s{count}i").unpack_from
        self.lead, self.between, self.after = self._around_the_numbers()
        self.before = self.lead + self.count(1)
        self.reply_size = 4 + len(self.before) + _NUMBERS.size + len(self.after)
        self.pack = struct.Struct(f">ii{len(self.before)}sihqqq{len(self.after)}s").pack

    def count(self, partitions: int) -> bytes:
        return write_varint(partitions + 1) if self.flexible else _LENGTH.pack(partitions)

    def _around_the_numbers(self) -> tuple[bytes, bytes, bytes]:
        """The reply, without length and correlation id, as the codec writes it: before the number of partitions,
        between the numbers of one partition and of the next, and after those of the last."""
        index, code, base_offset, time, start = _MARKS
        answer = PartitionProduceResponse(
            index=index,
            error_code=code,
            base_offset=base_offset,
            log_append_time_ms=time,
            log_start_offset=start,
        )
        before, between, after = self.encode(0, self.response([answer, answer])).split(_NUMBERS.pack(*_MARKS))
        return before[8 : -len(self.count(2))], between, after

    def matches(self, frame: memoryview) -> bool:
        return frame[:4] == self.call and frame[8 : 8 + len(self.head)] == self.head

    def response(self, answers: list[PartitionProduceResponse]) -> ProduceResponse:
        topic = TopicProduceResponse(name=self.topic, partition_responses=answers)
        if self.topic_id is not None:
            topic.topic_id = self.topic_id
        return ProduceResponse(responses=[topic])

    def encode(self, correlation_id: int, response: ProduceResponse) -> bytes:
        [frame] = response_frame(self.header._replace(correlation_id=correlation_id), response)
        assert isinstance(frame, bytes)
        return frame


class ProduceAgain:
    """The shapes that one connection has sent, and how to serve more of them."""

    __slots__ = ("_broker", "_context", "_missed", "_shapes")

    def __init__(self, broker: Broker, context: Context) -> None:
        self._broker = broker
        self._context = context
        """Of the connection; key, version and client are those of each request."""
        self._missed = 0
        self._shapes: list[ProduceShape] = []

    def learn(self, frame: memoryview, header: RequestHeader, request: ProduceRequest) -> None:
        """A request takes the slow way: the next one like it need not."""
        known = self._broker.produce_shapes
        shape = known.shape_of(frame, self._missed, lambda: self._shape_of(frame, header, request))
        if shape is not None:
            self._shapes = [shape, *self._shapes[: _SHAPES - 1]]
        self._missed += 1

    def _shape_of(self, frame: memoryview, header: RequestHeader, request: ProduceRequest) -> ProduceShape | None:
        if (
            header.api_version < _FIRST_VERSION
            or request.acks not in VALID_ACKS
            or request.transactional_id is not None
            or len(request.topic_data) != 1
        ):
            return None
        topic = request.topic_data[0]
        name, topic_id = topic.name, None
        if header.api_version >= 13:
            found = self._broker.metadata.image.topic_by_id(topic.topic_id)
            if found is None:
                return None
            name, topic_id = found.name, topic.topic_id
        if name in INTERNAL_TOPICS:
            return None
        count_at = len(frame) - _size_from_count_on(topic.partition_data, PRODUCE.is_flexible(header.api_version))
        shape = ProduceShape(frame, count_at, header, name, topic_id, request.acks, request.timeout_ms)
        wanted = [(data.index, data.records) for data in topic.partition_data]
        return shape if _batches(shape, frame, len(wanted)) == wanted else None

    def serve(self, frame: memoryview) -> list[Part] | Later | None:
        """The reply, empty for acks=0, now or later; None for a request that must take the slow way."""
        for shape in self._shapes:
            try:
                call, correlation_id, head, count, index = shape.unpack_from(frame)
            except struct.error:
                continue
            if head == shape.head and call == shape.call:
                if count != shape.one:
                    return self._serve_several(shape, correlation_id, frame, 1 + count - shape.one)
                records = _rest(shape, frame)
                if records is not None:
                    return self._append(shape, correlation_id, index, records)
        return None

    def _serve_several(
        self, shape: ProduceShape, correlation_id: int, frame: memoryview, count: int
    ) -> list[Part] | Later | None:
        batches = _batches(shape, frame, count) if 0 < count <= _MOST_PARTITIONS else None
        if batches is None or any(transactional_header(records) for _, records in batches):
            return None
        try:
            leaders = [self._broker.replicas.leader_of(shape.topic, index) for index, _ in batches]
        except KafkaError:
            return None
        if shape.topic_id is not None and any(leader.topic_id != shape.topic_id for leader in leaders):
            return None
        # From here on something may be appended, so that there is no other way any more.
        results = [
            (index, _append_one(leader, records, shape.within))
            for leader, (index, records) in zip(leaders, batches, strict=True)
        ]
        pieces = [shape.lead, shape.count(count)]
        for index, it in results:
            if shape.acks == 0 or not isinstance(it, Appended) or it.wait is not None:
                return self._answer_several(shape, correlation_id, results)
            pieces += _NUMBERS.pack(index, 0, it.base_offset, it.log_append_time, it.log_start_offset), shape.between
        pieces[-1] = shape.after
        body = b"".join(pieces)
        return [_START.pack(4 + len(body), correlation_id) + body]

    def _answer_several(
        self, shape: ProduceShape, correlation_id: int, results: list[tuple[int, Appended | KafkaError | _Unopened]]
    ) -> list[Part] | Later:
        """As the slow twin does: something was refused, or has to be waited for, or nobody wants to know."""
        waits: list[asyncio.Future[None]] = []
        inspections: list[Inspection] = []
        answers: list[PartitionProduceResponse] = []
        for index, it in results:
            if isinstance(it, _Unopened):
                inspections.append(Inspection(answers, len(answers), it.topic_partition, it.records, None))
                answers.append(PartitionProduceResponse(index=index))
            else:
                answers.append(refused(index, it) if isinstance(it, KafkaError) else answer_to(index, it, waits))
        context = self._context._replace(api_version=shape.header.api_version)
        if inspections:
            coroutine = append_inspected(
                self._broker, context, shape.acks, shape.within, shape.response(answers), waits, inspections
            )
            return Later(asyncio.ensure_future(coroutine), lambda event: _encode(shape, correlation_id, event.result()))
        reply = reply_when_stored(self._broker, context, shape.acks, shape.response(answers), waits)
        if reply is None:
            return []
        if isinstance(reply, ProduceResponse):
            return [shape.encode(correlation_id, reply)]
        stored = asyncio.ensure_future(reply)
        return Later(stored, lambda event: [shape.encode(correlation_id, event.result())], blocks=False)

    def _append(
        self, shape: ProduceShape, correlation_id: int, index: int, records: memoryview
    ) -> list[Part] | Later | None:
        try:
            partition = self._broker.replicas.leader_of(shape.topic, index)
            if shape.topic_id is not None and shape.topic_id != partition.topic_id:
                return None
            appended = partition.append(records, None, shape.within)
        except InspectionNeeded:
            return None
        except KafkaError as error:
            # A batch of a transaction is never appended here, but the slow twin has its own words for that.
            return None if transactional_header(records) else [self._refuse(shape, correlation_id, index, error)]
        if shape.acks == 0:
            return []
        base_offset, time, start, wait = appended
        reply = shape.pack(
            shape.reply_size, correlation_id, shape.before, index, 0, base_offset, time, start, shape.after
        )
        return (
            [reply]
            if wait is None
            else Later(wait, partial(self._stored, shape, correlation_id, index, reply), blocks=False)
        )

    def _refuse(self, shape: ProduceShape, correlation_id: int, index: int, error: KafkaError) -> bytes:
        answer = refused(index, error)
        if shape.acks == 0:
            hang_up(shape.topic, answer)
        response = shape.response([answer])
        hint_producer(self._broker, self._context, shape.header.api_version, response)
        return shape.encode(correlation_id, response)

    def _stored(
        self, shape: ProduceShape, correlation_id: int, index: int, reply: bytes, wait: asyncio.Future[None]
    ) -> list[Part]:
        error = wait.exception()
        return [self._refuse(shape, correlation_id, index, error)] if isinstance(error, KafkaError) else [reply]


class _Unopened(NamedTuple):
    """A batch that has to be opened in a thread before it can be appended."""

    topic_partition: TopicPartition
    records: bytearray


def _append_one(leader: Partition, records: memoryview, within: float | None) -> Appended | KafkaError | _Unopened:
    try:
        return leader.append(records, None, within)
    except KafkaError as error:
        return error
    except InspectionNeeded:
        return _Unopened(leader.topic_partition, bytearray(records))


def _encode(shape: ProduceShape, correlation_id: int, response: ProduceResponse | None) -> list[Part]:
    return [] if response is None else [shape.encode(correlation_id, response)]


def _size_from_count_on(partitions: Sequence[PartitionProduceData], flexible: bool) -> int:
    """How many bytes the end of a request takes, from the number of its partitions on."""
    sizes = [len(data.records or b"") for data in partitions]
    if not flexible:
        return _LENGTH.size + sum(2 * _LENGTH.size + size for size in sizes)
    each = sum(_LENGTH.size + len(write_varint(size + 1)) + size + 1 for size in sizes)
    return len(write_varint(len(sizes) + 1)) + each + len(_TAIL)


def _batches(shape: ProduceShape, frame: memoryview, count: int) -> list[tuple[int, memoryview]] | None:
    """The partitions and their records, if there is nothing else behind them."""
    batches = []
    position, tail, flexible = shape.partitions_at, _TAIL if shape.flexible else b"", shape.flexible
    try:
        for _ in range(count):
            (index,) = _LENGTH.unpack_from(frame, position)
            position += _LENGTH.size
            if flexible:
                length, position = read_varint(frame, position)
                size = length - 1
            else:
                (size,) = _LENGTH.unpack_from(frame, position)
                position += _LENGTH.size
            end = position + size
            if size < 0 or end > len(frame):
                return None
            batches.append((index, frame[position:end]))
            position = end
            if flexible:
                if frame[position]:
                    return None
                position += 1
    except (WireError, struct.error, IndexError):
        return None
    return batches if frame[position:] == tail else None


def _rest(shape: ProduceShape, frame: memoryview) -> memoryview | None:
    """The records of the only partition: what `_batches` would find, with less to do."""
    position = shape.partitions_at + 4
    try:
        if not shape.flexible:
            (size,) = _LENGTH.unpack_from(frame, position)
            position += _LENGTH.size
            return frame[position:] if size == len(frame) - position else None
        length, position = read_varint(frame, position)
    except (WireError, struct.error):
        return None
    end = position + length - 1
    return frame[position:end] if length and frame[end:] == _NO_TAGS else None
