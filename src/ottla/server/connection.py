"""One client connection: frames in, replies out in the order of their requests, and no more memory than it is worth."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.handlers.exchange import CloseConnectionError, PendingReply
from ottla.handlers.session import Session
from ottla.model import printable
from ottla.server.dispatch import Dispatcher
from ottla.server.frames import FrameError, FrameReader, MisdirectedError
from ottla.wire import DecodeError

if TYPE_CHECKING:
    from ottla.env.network import Connection, Part
    from ottla.handlers.context import Broker
    from ottla.handlers.exchange import Completion
    from ottla.server.buffers import Buffers
    from ottla.server.watchdog import Watchdog

logger = logging.getLogger("ottla.server")

MAX_OUTSTANDING = 128
"""Produce requests of one connection that may wait for their disk before the next one is served."""

MAX_UNSENT = 1 << 20
"""Reply bytes a peer may leave unread before it is read no further. One reply may be larger."""

MAX_READ_AHEAD = 64 << 10
"""Bytes of further requests that are received while a client waits for a reply."""

MAX_SERVE_SECONDS = 0.02
"""How long one connection is served before the others are. Connections that all have more to serve share this time, so
that one round of the event loop takes about this long however many they are."""


class Busy:
    """How many connections of a broker wait for their next share of the event loop."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


class _Slot:
    """The place of one request in the order of replies."""

    __slots__ = ("done", "parts")

    def __init__(self, parts: list[Part], done: bool) -> None:
        self.parts = parts
        self.done = done


class ClientConnection:
    """Receives from one client, serves one request after the other.

    As in Kafka, a request is served when the one before it has been answered, so that a client may send a commit and
    a fetch of what it committed without waiting. Appends are the exception: they are in order once they are in the
    log, so a producer that waits for the disk may have many on the way.
    """

    __slots__ = (
        "_blocked",
        "_busy",
        "_connection",
        "_dispatcher",
        "_frames",
        "_monotonic",
        "_notices",
        "_on_close",
        "_outbox",
        "_outstanding",
        "_paused",
        "_session",
        "_waiting_bytes",
        "_waits",
        "_yielded",
        "buffer",
        "last_active",
    )

    def __init__(
        self,
        broker: Broker,
        connection: Connection,
        listener: str,
        buffers: Buffers,
        busy: Busy,
        watchdog: Watchdog,
        on_close: Callable[[ClientConnection], None],
    ) -> None:
        self._connection = connection
        self._session = Session(listener, connection.local, connection.peer)
        self._dispatcher = Dispatcher(broker, self._session, watchdog)
        self._monotonic = broker.clock.monotonic
        self._notices = broker.notices
        self._busy = busy
        self._on_close = on_close
        self._frames = FrameReader(buffers, broker.config.integer("socket.request.max.bytes"))
        self.buffer = self._frames.buffer
        self._outstanding: deque[_Slot] = deque()
        """Requests whose replies are not sent, because this one or an earlier one is not complete."""
        self._outbox: list[Part] = []
        self._waiting_bytes = 0
        """Of replies in `_outstanding` and `_outbox`."""
        self._waits: dict[Completion, None] = {}
        """What the pending replies wait for."""
        self._blocked = False
        """Whether the next request has to wait for a pending reply."""
        self._yielded = False
        """Whether the next request waits until other connections were served."""
        self._paused = False
        self.last_active = self._monotonic()

    @property
    def peer_host(self) -> str:
        return self._connection.peer.host

    @property
    def idle(self) -> bool:
        """Whether silence counts against the client. While a client waits for a reply, its silence is expected, and its
        end would be noticed, unless reading is paused.
        """
        return not self._outstanding or self._paused

    def received(self, count: int) -> None:
        self.last_active = now = self._monotonic()
        self._frames.filled += count
        self._serve(now)

    def drained(self) -> None:
        self._serve(self._monotonic())

    def closed(self) -> None:
        self._blocked = True  # for good: requests that have arrived and were not served are of no use any more
        self._session.close()
        for completion in tuple(self._waits):
            # A long-poll ends with its client; work that has begun (a topic half created) is finished for its own sake.
            if not isinstance(completion, asyncio.Task):
                completion.cancel()
        self._outstanding.clear()
        self._on_close(self)

    def close(self) -> None:
        self._connection.close()

    def _serve(self, now: float) -> None:
        """Serve the whole requests that have arrived, then send their replies at once."""
        frames, serve = self._frames, self._dispatcher.serve
        try:
            while not self._stalled():
                frame = frames.next_frame()
                if frame is None:
                    break
                reply = serve(frame, now)
                more = frames.filled > frames.position
                if isinstance(reply, PendingReply):
                    self._reply_later(reply)
                elif more or self._outstanding or self._outbox:
                    self._reply(reply)
                elif reply:
                    self._connection.send(reply)
                if not more:
                    break
                self._look_after_others(now)
        except Exception as error:
            self._fail(error)
            return
        more_arrived = frames.settle()
        if self._outbox:
            self._flush()
        if more_arrived or self._paused:
            self._pause_or_resume()

    def _stalled(self) -> bool:
        """Whether the next request has to wait."""
        if self._blocked or self._yielded or self._waiting_bytes > MAX_UNSENT:
            return True
        return self._connection.unsent > MAX_UNSENT or len(self._outstanding) >= MAX_OUTSTANDING

    def _pause_or_resume(self) -> None:
        """Receive no more while bytes have arrived that cannot be served yet.

        A client that waits for a reply is still read, as far as its next requests are few bytes: only so the broker
        notices that the client hangs up.
        """
        buffered = self._frames.buffered
        waits_for_reply = self._blocked and not self._yielded
        if buffered > 0 and self._stalled() and not (waits_for_reply and buffered < MAX_READ_AHEAD):
            self._paused = True
            self._connection.pause_reading()
        elif self._paused:
            self._paused = False
            self._connection.resume_reading()

    def _look_after_others(self, began: float) -> None:
        """There is another request to serve: do not hold too many replies back, nor the event loop too long."""
        if self._waiting_bytes > MAX_UNSENT:
            self._flush()
        if self._monotonic() > began + MAX_SERVE_SECONDS / (1 + self._busy.count):
            self._yielded = True
            self._busy.count += 1
            asyncio.get_running_loop().call_soon(self._resume)

    def _resume(self) -> None:
        self._yielded = False
        self._busy.count -= 1
        self._serve(self._monotonic())

    def _reply(self, parts: list[Part]) -> None:
        self._waiting_bytes += len(parts[0]) if len(parts) == 1 else sum(map(len, parts))
        if self._outstanding:
            self._outstanding.append(_Slot(parts, done=True))
        else:
            self._outbox += parts

    def _reply_later(self, reply: PendingReply) -> None:
        completion, encode, self._blocked = reply
        slot = _Slot([], done=False)
        self._outstanding.append(slot)
        self._waits[completion] = None
        completion.add_done_callback(partial(self._complete, slot, encode))

    def _complete(self, slot: _Slot, encode: Callable[[Any], list[Part]], completion: Completion) -> None:
        self._waits.pop(completion, None)
        if completion.cancelled():
            return
        try:
            parts = encode(completion)
        except Exception as error:
            self._fail(error)
            return
        if self._outstanding and slot is self._outstanding[0]:
            self._outstanding.popleft()
            self._advance(parts)
        else:
            slot.parts, slot.done = parts, True
            self._waiting_bytes += sum(map(len, parts))

    def _advance(self, parts: list[Part]) -> None:
        """Send the reply to the oldest request, and the replies that have waited only for it."""
        outstanding = self._outstanding
        while outstanding and outstanding[0].done:
            following = outstanding.popleft().parts
            self._waiting_bytes -= sum(map(len, following))
            parts += following
        if not outstanding:
            self._blocked = False
        if self._outbox:
            self._flush()
        if parts:
            self._connection.send(parts)
        if self._frames.buffered or self._paused:
            self._serve(self._monotonic())

    def _flush(self) -> None:
        parts, self._outbox = self._outbox, []
        self._waiting_bytes -= len(parts[0]) if len(parts) == 1 else sum(map(len, parts))
        if parts:
            self._connection.send(parts)

    def _fail(self, error: Exception) -> None:
        """Hang up, after the replies to the requests before."""
        if isinstance(error, MisdirectedError) and not self._notices.is_first(self.peer_host, str(error)):
            logger.debug("closing the connection of %s again: %s", self._connection.peer, error)
        elif isinstance(error, (FrameError, DecodeError, CloseConnectionError)):
            logger.warning("closing the connection of %s: %s", self._connection.peer, printable(str(error)))
        else:
            logger.error("a request of %s failed; closing its connection", self._connection.peer, exc_info=error)
        self._flush()
        self.close()
