"""Fast path of Produce, for a request that looks like an earlier one. Slow twin: `handlers.produce`.

A producer sends the same bytes over and over: client id, acks, timeout, one topic, one partition. Only correlation id,
partition and batch differ. A request that took the slow way is remembered as a `ProduceShape`; one that has the same
bytes in front is not decoded, and its reply is not encoded from any message: the numbers that differ are filled in.
What is appended, and all that is checked before that, is the same code on both ways, and the bytes on the wire are held
to be the same by `tests/handlers/test_produce_again.py`.
"""

from __future__ import annotations

import struct
from functools import partial
from typing import TYPE_CHECKING

from ottla.errors import KafkaError
from ottla.handlers.context import Later
from ottla.handlers.leader_hints import hint_producer
from ottla.handlers.produce import ACKS_ALL, VALID_ACKS, hang_up, refused
from ottla.handlers.verification import transactional_header
from ottla.model import INTERNAL_TOPICS
from ottla.wire.api import PRODUCE
from ottla.wire.api.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from ottla.wire.framing import response_frame
from ottla.wire.primitives import WireError, read_varint, write_varint

if TYPE_CHECKING:
    import asyncio

    from ottla.env.network import Part
    from ottla.handlers.context import Broker, Context
    from ottla.model import TopicId
    from ottla.wire.api.produce import ProduceRequest
    from ottla.wire.framing import RequestHeader

_SHAPES = 4
"""Remembered for each connection, the newest first: a producer of a few topics is fast, too."""

_FIRST_VERSION = 5
"""From here on a reply has all of `_NUMBERS`."""

_NUMBERS = struct.Struct(">ihqqq")
"""Partition, error code, base offset, log append time, log start offset: what differs from one reply to the next."""
_MARKS = (0x01020304, 0x0506, 0x0708090A0B0C0D0E, 0x0F10111213141516, 0x1718191A1B1C1D1E)

_LENGTH = struct.Struct(">i")
_NO_TAGS = b"\0\0\0"
"""How a flexible request ends: no tagged fields for the partition, the topic and the request."""


class ProduceShape:
    """What requests of one shape have in common: the bytes in front, the topic, and the reply around its numbers."""

    __slots__ = (
        "acks",
        "after",
        "before",
        "call",
        "flexible",
        "head",
        "header",
        "pack",
        "reply_size",
        "topic",
        "topic_id",
        "unpack_from",
        "within",
    )

    def __init__(
        self,
        frame: memoryview,
        index_at: int,
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
        self.head = bytes(frame[8:index_at])
        self.unpack_from = struct.Struct(f">4si{len(self.head)}si").unpack_from
        self.before, self.after = self._around_the_numbers()
        self.reply_size = 4 + len(self.before) + _NUMBERS.size + len(self.after)
        self.pack = struct.Struct(f">ii{len(self.before)}sihqqq{len(self.after)}s").pack

    def _around_the_numbers(self) -> tuple[bytes, bytes]:
        """The reply, without length and correlation id, before and after its numbers, as the codec writes it."""
        index, code, base_offset, time, start = _MARKS
        answer = PartitionProduceResponse(
            index=index,
            error_code=code,
            base_offset=base_offset,
            log_append_time_ms=time,
            log_start_offset=start,
        )
        before, after = self.encode(0, self.response(answer)).split(_NUMBERS.pack(*_MARKS))
        return before[8:], after

    def matches(self, frame: memoryview) -> bool:
        return frame[:4] == self.call and frame[8 : 8 + len(self.head)] == self.head

    def response(self, answer: PartitionProduceResponse) -> ProduceResponse:
        topic = TopicProduceResponse(name=self.topic, partition_responses=[answer])
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
            or len(request.topic_data[0].partition_data) != 1
        ):
            return None
        topic = request.topic_data[0]
        [data] = topic.partition_data
        name, topic_id = topic.name, None
        if header.api_version >= 13:
            found = self._broker.controller.image.topic_by_id(topic.topic_id)
            if found is None:
                return None
            name, topic_id = found.name, topic.topic_id
        if name in INTERNAL_TOPICS or data.records is None:
            return None
        flexible = PRODUCE.is_flexible(header.api_version)
        length = write_varint(len(data.records) + 1) if flexible else _LENGTH.pack(len(data.records))
        behind = len(_NO_TAGS) if flexible else 0
        index_at = len(frame) - behind - len(data.records) - len(length) - 4
        shape = ProduceShape(frame, index_at, header, name, topic_id, request.acks, request.timeout_ms)
        return shape if _rest(shape, frame) == data.records else None

    def serve(self, frame: memoryview) -> list[Part] | Later | None:
        """The reply, empty for acks=0, now or later; None for a request that must take the slow way."""
        for shape in self._shapes:
            try:
                call, correlation_id, head, index = shape.unpack_from(frame)
            except struct.error:
                continue
            if head == shape.head and call == shape.call:
                records = _rest(shape, frame)
                if records is not None:
                    return self._append(shape, correlation_id, index, records)
        return None

    def _append(
        self, shape: ProduceShape, correlation_id: int, index: int, records: memoryview
    ) -> list[Part] | Later | None:
        try:
            partition = self._broker.replicas.leader_of(shape.topic, index)
            if shape.topic_id is not None and shape.topic_id != partition.topic_id:
                return None
            appended = partition.append(records, None, shape.within)
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
        response = shape.response(answer)
        hint_producer(self._broker, self._context, shape.header.api_version, response)
        return shape.encode(correlation_id, response)

    def _stored(
        self, shape: ProduceShape, correlation_id: int, index: int, reply: bytes, wait: asyncio.Future[None]
    ) -> list[Part]:
        error = wait.exception()
        return [self._refuse(shape, correlation_id, index, error)] if isinstance(error, KafkaError) else [reply]


def _rest(shape: ProduceShape, frame: memoryview) -> memoryview | None:
    """The records, if there is nothing else behind the partition's index."""
    position = 8 + len(shape.head) + 4
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
