"""Fast path of Fetch, for a request that looks like an earlier one. Slow twin: `handlers.fetch`.

Who fetches from one partition at a time sends the same bytes over and over; only correlation id, session epoch,
partition and offset differ. A request that took the slow way is remembered as a `FetchShape`; one that has the same
bytes is not decoded, and a reply with records is not encoded from any message: the numbers that differ are filled in.
Sessions and replies without records are the slow twin's own. `tests/handlers/test_fetch_again.py` holds both to the
same bytes.
"""

from __future__ import annotations

import asyncio
import struct
from typing import TYPE_CHECKING, cast

from ottla.env.network import FileSlice
from ottla.errors import KafkaError
from ottla.handlers.context import Later
from ottla.handlers.fetch import ANY_REPLICA_SINCE, Fetch, find
from ottla.handlers.read_replica import selects_by_rack
from ottla.model import READ_COMMITTED
from ottla.replication.fetch_sessions import FetchPartition
from ottla.replication.waiting import DataWaiter, StableDataWaiter
from ottla.wire.api import FETCH
from ottla.wire.api.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from ottla.wire.codec import encode
from ottla.wire.framing import response_frame
from ottla.wire.primitives import write_varint

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.env.network import Part
    from ottla.handlers.context import Broker, Context
    from ottla.log.log import LogRead
    from ottla.model import TopicId
    from ottla.replication.fetch_sessions import AnyFetch
    from ottla.replication.partition import Partition
    from ottla.wire.api.fetch import FetchRequest
    from ottla.wire.framing import RequestHeader

_FIRST_VERSION = 7
"""From here on there are sessions, and a log start offset."""

_INT = struct.Struct(">i")
_OFFSET = struct.Struct(">q")
_NUMBERS = struct.Struct(">ihqqq")
"""Partition, error code, high watermark, last stable offset and log start offset, which stand together in a reply."""

_EPOCH_MARK = 0x01020304
_OFFSET_MARK = 0x0506070809101112
_SESSION_MARK = 0x13141516
_INDEX_MARK = 0x41424344
_NUMBER_MARKS = (_INDEX_MARK, 0, 0x1718192021222324, 0x2526272829303132, 0x3334353637383940)
_RECORDS_MARK = b"records"


class FetchShape:
    """What requests of one shape have in common: their bytes, what these say, and the reply around its numbers."""

    __slots__ = (
        "_call",
        "_flexible",
        "_head",
        "_header",
        "_inner",
        "_middle",
        "_reply_after",
        "_reply_before",
        "_reply_between",
        "_reply_head",
        "_reply_last",
        "_reply_size",
        "_tail",
        "_unpack",
        "any_replica",
        "by_id",
        "committed_only",
        "leader_epoch",
        "max_bytes",
        "request",
        "topic",
        "version",
    )

    def __init__(self, frame: memoryview, header: RequestHeader, request: FetchRequest) -> None:
        [topic] = request.topics
        [partition] = topic.partitions
        self.request = request
        self.committed_only = request.isolation_level == READ_COMMITTED
        self.by_id = header.api_version >= 13
        self.version = header.api_version
        self.any_replica = self.version >= ANY_REPLICA_SINCE
        self.topic: str | TopicId = topic.topic_id if self.by_id else topic.topic
        self.leader_epoch = partition.current_leader_epoch
        self.max_bytes = partition.partition_max_bytes
        self._header = header
        self._flexible = FETCH.is_flexible(header.api_version)
        self._call = bytes(frame[:4])
        self._split_request(bytes(frame[8 : header.body_position]))
        self._split_reply()

    def _split_request(self, client_id: bytes) -> None:
        """The bytes before, between and after session epoch, partition and offset, as the codec writes them."""
        request = self.request
        [partition] = request.topics[0].partitions
        actual = request.session_epoch, partition.partition, partition.fetch_offset
        request.session_epoch, partition.partition, partition.fetch_offset = _EPOCH_MARK, _INDEX_MARK, _OFFSET_MARK
        body = client_id + encode(request, self._header.api_version)
        request.session_epoch, partition.partition, partition.fetch_offset = actual
        self._head, _, rest = body.partition(_INT.pack(_EPOCH_MARK))
        self._middle, _, rest = rest.partition(_INT.pack(_INDEX_MARK))
        self._inner, _, self._tail = rest.partition(_OFFSET.pack(_OFFSET_MARK))
        head, middle, inner, tail = len(self._head), len(self._middle), len(self._inner), len(self._tail)
        self._unpack = struct.Struct(f">4si{head}si{middle}si{inner}sq{tail}s").unpack

    def _split_reply(self) -> None:
        """The bytes before, between and after session, numbers and records, as the codec writes them."""
        index, error_code, high_watermark, last_stable_offset, log_start_offset = _NUMBER_MARKS
        data = PartitionData(
            partition_index=index,
            error_code=error_code,
            high_watermark=high_watermark,
            last_stable_offset=last_stable_offset,
            log_start_offset=log_start_offset,
            aborted_transactions=[] if self.committed_only else None,
            records=_RECORDS_MARK,
        )
        [wanted] = self.request.topics
        topic = FetchableTopicResponse(topic=wanted.topic, topic_id=wanted.topic_id, partitions=[data])
        [frame] = self.encode(0, FetchResponse(session_id=_SESSION_MARK, responses=[topic]))
        assert isinstance(frame, bytes)
        self._reply_before, _, rest = frame[8:].partition(_INT.pack(_SESSION_MARK))
        self._reply_between, _, rest = rest.partition(_NUMBERS.pack(*_NUMBER_MARKS))
        self._reply_last, _, self._reply_after = rest.partition(self._length(len(_RECORDS_MARK)) + _RECORDS_MARK)
        before, between, last = len(self._reply_before), len(self._reply_between), len(self._reply_last)
        head = struct.Struct(f">ii{before}si{between}sihqqq{last}s")
        self._reply_head = head.pack
        self._reply_size = head.size - 4 + len(self._reply_after)

    def _length(self, size: int) -> bytes:
        return write_varint(size + 1) if self._flexible else _INT.pack(size)

    def match(self, frame: memoryview) -> tuple[int, int, int, int] | None:
        """Correlation id, session epoch, partition and offset of a request that has this shape."""
        try:
            call, correlation_id, head, epoch, middle, index, inner, offset, tail = self._unpack(frame)
        except struct.error:
            return None
        if (
            middle != self._middle
            or head != self._head
            or inner != self._inner
            or tail != self._tail
            or call != self._call
        ):
            return None
        return correlation_id, epoch, index, offset

    def matches(self, frame: memoryview) -> bool:
        return self.match(frame) is not None

    def encode(self, correlation_id: int, response: FetchResponse) -> list[Part]:
        return cast("list[Part]", response_frame(self._header._replace(correlation_id=correlation_id), response))

    def reply(self, correlation_id: int, session_id: int, partition: Partition, records: FileSlice) -> list[Part]:
        """What `encode` would make of a response with these records."""
        length = self._length(records.size)
        head = self._reply_head(
            self._reply_size + len(length) + records.size,
            correlation_id,
            self._reply_before,
            session_id,
            self._reply_between,
            partition.topic_partition.partition,
            0,
            partition.high_watermark,
            partition.last_stable_offset,
            partition.log.log_start_offset,
            self._reply_last,
        )
        return [head + length, records, self._reply_after]


class _Poll:
    """A fetch that waits, as an event: without a future, whose callbacks would cost further turns of the event loop."""

    __slots__ = ("_tell", "correlation_id", "session", "shape", "waiter")

    waiter: DataWaiter

    def __init__(self, shape: FetchShape, correlation_id: int, session: AnyFetch) -> None:
        self.shape = shape
        self.correlation_id = correlation_id
        self.session = session
        self._tell: Callable[[_Poll], object] | None = None

    def add_done_callback(self, callback: Callable[[_Poll], object], /) -> None:
        self._tell = callback

    def cancel(self) -> None:
        self._tell = None
        self.waiter.cancel()

    def cancelled(self) -> bool:
        return self._tell is None

    def happened(self) -> None:
        if self._tell is not None:
            self._tell(self)


class FetchAgain:
    """The shape that one connection sent last, and how to serve more of it."""

    __slots__ = ("_broker", "_context", "_missed", "_shape")

    def __init__(self, broker: Broker, context: Context) -> None:
        self._broker = broker
        self._context = context
        """Of the connection; key, version and client are those of each request."""
        self._missed = 0
        self._shape: FetchShape | None = None

    def learn(self, frame: memoryview, header: RequestHeader, request: FetchRequest) -> None:
        """A request takes the slow way: the next one like it need not."""
        shape = self._broker.fetch_shapes.shape_of(frame, self._missed, lambda: _shape_of(frame, header, request))
        if shape is not None:
            self._shape = shape
        self._missed += 1

    def serve(self, frame: memoryview) -> list[Part] | Later | None:
        """The reply, now or later; None for a request that must take the slow way."""
        shape = self._shape
        numbers = shape.match(frame) if shape is not None else None
        if shape is None or numbers is None:
            return None
        correlation_id, epoch, index, offset = numbers
        wanted = FetchPartition((shape.topic, index), offset, shape.max_bytes, shape.leader_epoch)
        try:
            session = self._broker.fetch_sessions.begin(shape.request.session_id, epoch, [wanted], [], shape.by_id)
        except KafkaError as error:
            return shape.encode(correlation_id, FetchResponse(error_code=error.code))
        request, looked = shape.request, self._look(shape, session)
        if looked is None:
            return self._serve_slowly(shape, correlation_id, session)
        partition, records = looked
        if records.size >= request.min_bytes or request.max_wait_ms <= 0:
            return self._answer(shape, correlation_id, session, looked)
        poll = _Poll(shape, correlation_id, session)
        self._wait(poll, partition, request.min_bytes - records.size)
        return Later(poll, self._answer_poll)

    def _serve_slowly(self, shape: FetchShape, correlation_id: int, session: AnyFetch) -> list[Part] | Later:
        fetch = self._slow_twin(shape, session)
        fetch.read()
        if fetch.is_ready():
            return shape.encode(correlation_id, fetch.response())
        return Later(fetch.wait(lambda: self._answer_at_last(shape, correlation_id, session)), asyncio.Future.result)

    def _slow_twin(self, shape: FetchShape, session: AnyFetch) -> Fetch:
        return Fetch(self._broker, shape.request, session, self._context, shape.version)

    def _wait(self, poll: _Poll, partition: Partition, missing: int) -> None:
        clock, seconds = self._broker.clock, poll.shape.request.max_wait_ms / 1000
        if poll.shape.committed_only:
            has_enough = self._slow_twin(poll.shape, poll.session).has_enough
            poll.waiter = StableDataWaiter(clock, [partition], seconds, poll.happened, has_enough)
        else:
            poll.waiter = DataWaiter(clock, [partition.waiters], missing, seconds, poll.happened)

    def _answer_poll(self, poll: _Poll) -> list[Part]:
        return self._answer_at_last(poll.shape, poll.correlation_id, poll.session)

    def _answer_at_last(self, shape: FetchShape, correlation_id: int, session: AnyFetch) -> list[Part]:
        """The reply to a fetch that has waited, however little there is to read."""
        looked = self._look(shape, session)
        if looked is None:
            return shape.encode(correlation_id, self._slow_twin(shape, session).read_again())
        return self._answer(shape, correlation_id, session, looked)

    def _answer(
        self, shape: FetchShape, correlation_id: int, session: AnyFetch, looked: tuple[Partition, LogRead]
    ) -> list[Part]:
        partition, (file, position, size, _) = looked
        if file is None:
            return shape.encode(correlation_id, self._slow_twin(shape, session).read_again())
        [wanted] = session
        session.has_news(wanted, partition.high_watermark, partition.log.log_start_offset, urgent=True)
        return shape.reply(correlation_id, session.id, partition, FileSlice(file, position, size))

    def _look(self, shape: FetchShape, session: AnyFetch) -> tuple[Partition, LogRead] | None:
        """What there is to read; None if it is for the slow twin to say."""
        if len(session.partitions) > 1:
            return None
        [wanted] = session
        try:
            partition = find(self._broker, wanted, any_replica=shape.any_replica)
            if shape.request.rack_id and partition.leads and selects_by_rack(self._broker, shape.request.rack_id):
                return None
            room = min(shape.request.max_bytes, self._broker.config.integer("fetch.max.bytes"))
            limit = min(wanted.max_bytes, room)
            if not shape.committed_only:
                return partition, partition.read(wanted.fetch_offset, limit)
            found, aborted = partition.read_committed(wanted.fetch_offset, limit)
            return None if aborted else (partition, found)
        except KafkaError:
            return None


def _shape_of(frame: memoryview, header: RequestHeader, request: FetchRequest) -> FetchShape | None:
    if not _has_shape(header, request):
        return None
    shape = FetchShape(frame, header, request)
    return shape if shape.matches(frame) else None  # else it holds something that the codec passes over


def _has_shape(header: RequestHeader, request: FetchRequest) -> bool:
    """Whether the request is about one partition, of a consumer, and forgets none."""
    return (
        header.api_version >= _FIRST_VERSION
        and request.replica_id < 0
        and request.replica_state.replica_id < 0
        and len(request.topics) == 1
        and len(request.topics[0].partitions) == 1
        and not request.forgotten_topics_data
    )
