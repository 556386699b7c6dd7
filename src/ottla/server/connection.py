"""One client connection: frames in, replies out in the order of their requests, and no more memory than it is worth."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.handlers.context import CloseConnectionError
from ottla.server.dispatch import Dispatcher
from ottla.server.frames import FrameError, FrameReader
from ottla.wire import WireError

if TYPE_CHECKING:
    from ottla.env.network import Connection, Part
    from ottla.handlers.context import Broker, Event, Later
    from ottla.server.buffers import Buffers

logger = logging.getLogger("ottla.server")

MAX_OUTSTANDING = 128
"""Produce requests of one connection that may wait for their disk before the next one is served."""

MAX_UNSENT = 1 << 20
"""Reply bytes a peer may leave unread before it is read no further. One reply may be larger."""

MAX_SERVE_SECONDS = 0.02
"""How long one connection is served before the others get their turn."""


class _Slot:
    """The place of one request in the order of replies."""

    __slots__ = ("done", "parts")

    def __init__(self) -> None:
        self.done = False
        self.parts: list[Part] = []


class ClientConnection:
    """Receives from one client, serves one request after the other.

    As in Kafka, a request is served when the one before it has been answered, so that a client may send a commit and
    a fetch of what it committed without waiting. Appends are the exception: they are in order once they are in the
    log, so a producer that waits for the disk may have many on the way.
    """

    __slots__ = (
        "_blocked",
        "_connection",
        "_dispatcher",
        "_events",
        "_frames",
        "_monotonic",
        "_on_close",
        "_outbox",
        "_outstanding",
        "_paused",
        "_resting",
        "_waiting_bytes",
        "buffer",
        "last_active",
    )

    def __init__(
        self,
        broker: Broker,
        connection: Connection,
        listener: str,
        buffers: Buffers,
        on_close: Callable[[ClientConnection], None],
    ) -> None:
        self._connection = connection
        self._dispatcher = Dispatcher(broker, listener, connection.local, connection.peer)
        self._monotonic = broker.clock.monotonic
        self._on_close = on_close
        self._frames = FrameReader(buffers, broker.config.integer("socket.request.max.bytes"))
        self.buffer = self._frames.buffer
        self._outstanding: deque[_Slot] = deque()
        self._outbox: list[Part] = []
        self._waiting_bytes = 0
        self._blocked = False
        self._resting = False
        self._paused = False
        self._events: dict[Event, None] = {}
        self.last_active = self._monotonic()

    @property
    def peer_host(self) -> str:
        return self._connection.peer.host

    @property
    def idle(self) -> bool:
        """Whether silence counts against the client. One that waits for a reply is still read, so that its end would be
        noticed, unless it sent more meanwhile.
        """
        return not self._outstanding or self._frames.buffered > 0

    def received(self, count: int) -> None:
        self.last_active = now = self._monotonic()
        frame = None
        if not self._outstanding and self._connection.unsent <= MAX_UNSENT:
            frame = self._frames.lone_frame(count)
        if frame is None:
            self._frames.received(count)
            self._serve(now)
        else:
            self._serve_alone(frame)

    def _serve_alone(self, frame: memoryview) -> None:
        """Fast path, for one request when nothing else is under way. Slow twin: `_serve`."""
        try:
            reply = self._dispatcher.handle_fast(frame)
            if reply is None:
                reply = self._dispatcher.handle(frame)
        except Exception as error:
            self._fail(error)
            return
        if isinstance(reply, list):
            self._connection.send(reply)
        else:
            self._reply_later(reply)

    def drained(self) -> None:
        self._serve(self._monotonic())

    def closed(self) -> None:
        self._blocked = True  # for good: what has arrived and was not served yet is of no use any more
        for event in tuple(self._events):
            # A long-poll ends with its client; work that has begun (a topic half created) is finished for its own sake.
            if not isinstance(event, asyncio.Task):
                event.cancel()
        self._outstanding.clear()
        self._on_close(self)

    def close(self) -> None:
        self._connection.close()

    def _serve(self, now: float) -> None:
        """Serve the whole requests that have arrived, then send their replies at once."""
        try:
            self._serve_frames(now + MAX_SERVE_SECONDS)
        except Exception as error:
            self._fail(error)
            return
        self._frames.settle()
        self._flush()
        # A waiting client that has sent nothing more is still read, so that its hanging up is noticed.
        if self._frames.buffered and self._stalled():
            self._paused = True
            self._connection.pause_reading()
        elif self._paused:
            self._paused = False
            self._connection.resume_reading()

    def _serve_frames(self, end_of_turn: float) -> None:
        while not self._stalled():
            frame = self._frames.next_frame()
            if frame is None:
                return
            self._serve_frame(frame)
            if not self._frames.buffered:
                return
            if self._waiting_bytes > MAX_UNSENT:
                self._flush()
            if self._monotonic() > end_of_turn:
                self._resting = True
                asyncio.get_running_loop().call_soon(self._next_turn)

    def _next_turn(self) -> None:
        self._resting = False
        self._serve(self._monotonic())

    def _stalled(self) -> bool:
        return (
            self._blocked
            or self._resting
            or len(self._outstanding) >= MAX_OUTSTANDING
            or self._waiting_bytes > MAX_UNSENT
            or self._connection.unsent > MAX_UNSENT
        )

    def _serve_frame(self, frame: memoryview) -> None:
        reply = self._dispatcher.handle_fast(frame)
        if reply is None:
            reply = self._dispatcher.handle(frame)
        if isinstance(reply, list):
            self._reply(reply)
        else:
            self._reply_later(reply)

    def _reply(self, parts: list[Part]) -> None:
        self._waiting_bytes += len(parts[0]) if len(parts) == 1 else sum(map(len, parts))
        if self._outstanding:
            slot = _Slot()
            slot.parts, slot.done = parts, True
            self._outstanding.append(slot)
        else:
            self._outbox += parts

    def _reply_later(self, reply: Later) -> None:
        slot = _Slot()
        self._outstanding.append(slot)
        self._blocked = reply.blocks
        self._events[reply.event] = None
        reply.event.add_done_callback(partial(self._complete, slot, reply.make))

    def _complete(self, slot: _Slot, make: Callable[[Any], list[Part]], event: Event) -> None:
        self._events.pop(event, None)
        if event.cancelled():
            return
        try:
            parts = make(event)
        except Exception as error:
            self._fail(error)
            return
        if len(self._outstanding) == 1 and not self._frames.buffered and not self._paused:
            # Fast path, for a reply when nothing else is under way. Its slow twin follows.
            self._outstanding.clear()
            self._blocked = False
            self._connection.send(parts)
            return
        slot.parts, slot.done = parts, True
        self._waiting_bytes += sum(map(len, parts))
        if self._outstanding and slot is self._outstanding[0]:
            self._advance()

    def _advance(self) -> None:
        """Send the replies that no longer wait for an earlier one."""
        while self._outstanding and self._outstanding[0].done:
            self._outbox += self._outstanding.popleft().parts
        self._blocked = self._blocked and bool(self._outstanding)
        self._flush()
        if self._frames.buffered or self._paused:
            self._serve(self._monotonic())

    def _flush(self) -> None:
        if self._outbox:
            parts, self._outbox = self._outbox, []
            self._waiting_bytes -= len(parts[0]) if len(parts) == 1 else sum(map(len, parts))
            self._connection.send(parts)

    def _fail(self, error: Exception) -> None:
        """Hang up, after the replies to what came before."""
        if isinstance(error, (FrameError, WireError, CloseConnectionError)):
            logger.warning("closing the connection of %s: %s", self._connection.peer, error)
        else:
            logger.error("a request of %s failed; closing its connection", self._connection.peer, exc_info=error)
        self._flush()
        self.close()
