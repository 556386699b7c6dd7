"""The connection to ZooKeeper: kazoo in its thread on one side, the event loop on the other.

kazoo speaks the protocol, keeps the session alive and finds the next server of the ensemble. What it reads is handed
to the event loop through one inbox, in the order of the wire: ZooKeeper sends the news of a change before any reply
that could show it, and what the store promises about changes rests on that order.

Two names that kazoo keeps to itself are used here: `_call`, which its own methods end in, and `_read_watch_event`,
because kazoo drops the event of a persistent watch (ZooKeeper 3.6) as one nobody asked for. Hence the narrow range of
versions in pyproject.toml.
"""

import asyncio
import contextlib
import logging
import select
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss, NoNodeError, SessionExpiredError, SessionMovedError
from kazoo.handlers.threading import KazooTimeoutError, SequentialThreadingHandler
from kazoo.protocol.serialization import Watch
from kazoo.protocol.states import KazooState, KeeperState

from ottla.env.clock import Clock, Timer
from ottla.store.interface import StoreError

logger = logging.getLogger("ottla.store.zookeeper")
_kazoo_log = logging.getLogger("ottla.store.zookeeper.kazoo")
# kazoo logs every attempt to connect. This module logs the changes of the connection once.
_kazoo_log.setLevel(logging.ERROR)

MOST_IN_FLIGHT = 128
"""kazoo wakes its thread with a byte per request through a socket, and the sender blocks when a few hundred wait."""
MOST_HANDLED_AT_ONCE = 256
"""Messages from kazoo's thread that are handled before other work of the event loop gets its turn."""
LONGEST_RECONNECT_DELAY = 1.0
FEWEST_ATTEMPTS = 4
"""To connect in one session timeout, which kazoo divides by the number of hosts. A server that is just starting may
take a connection and never answer on it; with one host, kazoo would wait for it until the session has expired."""


class Reply(NamedTuple):
    value: Any
    zxid: int
    """The last transaction the server had seen when it answered."""


class Listener(Protocol):
    """Called on the event loop."""

    def connected(self, session: int) -> None:
        """Before any reply of the new connection. Its server knows no watches yet."""

    def lost(self) -> None:
        """The session is over; kazoo goes on to begin another one."""

    def changed(self, path: str) -> None:
        """A node under a watch was created, changed or deleted. The path is the server's, with the chroot."""


class Handler(SequentialThreadingHandler):  # type: ignore[misc]
    """kazoo makes a new epoll for each wait, of which there are several per request; poll needs no such thing."""

    def select(self, reads: Sequence[Any], writes: Sequence[Any], _: Sequence[Any], timeout: float | None) -> Any:
        poll = select.poll()
        for each in reads:
            poll.register(each, select.POLLIN)
        for each in writes:
            poll.register(each, select.POLLOUT)
        ready = {number for number, _ in poll.poll(None if timeout is None else max(timeout, 0) * 1000)}
        return [e for e in reads if e.fileno() in ready], [e for e in writes if e.fileno() in ready], []


class Request:
    """One request on its way. kazoo calls `set` or `set_exception`, mostly in its own thread."""

    __slots__ = ("_client", "content", "future", "is_read", "patient")

    def __init__(self, client: "ZooKeeperClient", content: Any, is_read: bool, patient: bool) -> None:
        self._client = client
        self.content = content
        self.is_read = is_read
        self.patient = patient
        self.future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        # Not every caller looks at every answer.
        self.future.add_done_callback(_look_at)

    def set(self, value: Any) -> None:
        self._client.post_reply(self, value, None)

    def set_exception(self, error: Exception) -> None:
        self._client.post_reply(self, None, error)


class ZooKeeperClient:
    def __init__(
        self,
        address: str,
        clock: Clock,
        listener: Listener,
        *,
        session_timeout: float,
        patience: float,
        credentials: str | None,
    ) -> None:
        self._address = address
        self._clock = clock
        self._listener = listener
        self._patience = patience
        self._loop = asyncio.get_running_loop()
        self._inbox: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self._woken = False
        self._waiting: deque[Request] = deque()
        self._in_flight: set[Request] = set()
        self._connected = False
        self._closed = False
        self._giving_up: Timer | None = None
        self._trouble: StoreError | None = None
        """Set when there has been no connection for longer than `patience`: requests are refused at once with it."""
        try:
            self._kazoo = KazooClient(
                hosts=_repeated(address),
                timeout=session_timeout,
                handler=Handler(),
                auth_data=None if credentials is None else [("digest", credentials)],
                connection_retry={"max_tries": -1, "max_delay": LONGEST_RECONNECT_DELAY},
                logger=_kazoo_log,
            )
        except ValueError as error:
            raise StoreError(
                f"{address!r} is not an address of ZooKeeper, as in host:2181,host:2181/chroot."
            ) from error
        self.chroot: str = self._kazoo.chroot
        self._kazoo.add_listener(self._post_state)
        self._kazoo._connection._read_watch_event = self._post_event

    @property
    def identity(self) -> tuple[int, bytes] | None:
        """Session id and password. A client that connects with them takes over the session."""
        identity: tuple[int, bytes] | None = self._kazoo.client_id
        return identity

    def open(self) -> None:
        self._begin_waiting()
        self._kazoo.start_async()

    def close(self) -> Callable[[], None]:
        """Stop serving requests. Returns the rest, which ends the session and waits for the server, so it blocks."""
        self._closed = True
        self._stop_waiting()
        self._fail([*self._in_flight, *self._waiting], StoreError("The store is not open."))
        self._waiting.clear()
        self._in_flight.clear()
        return self._stop

    def _stop(self) -> None:
        self._kazoo.stop()
        self._kazoo.close()

    def submit(
        self, content: Any, *, is_read: bool = False, patient: bool = False, first: bool = False
    ) -> "asyncio.Future[Reply]":
        """Send a request, now or when there is a connection.

        A read is repeated until there is an answer, and finds None where there is no node. Other requests fail with
        what kazoo says. The `patient` do not give up while there is no connection; `first` goes before what waits.
        """
        request = Request(self, content, is_read, patient)
        if self._closed:
            request.future.set_exception(StoreError("The store is not open."))
        elif self._trouble is not None and not patient:
            request.future.set_exception(self._trouble)
        else:
            (self._waiting.appendleft if first else self._waiting.append)(request)
            self._pump()
        return request.future

    def _pump(self) -> None:
        while self._connected and self._waiting and len(self._in_flight) < MOST_IN_FLIGHT:
            request = self._waiting.popleft()
            if not request.future.done():
                self._in_flight.add(request)
                self._kazoo._call(request.content, request)

    def post_reply(self, request: Request, value: Any, error: Exception | None) -> None:
        self._post(self._replied, request, Reply(value, self._kazoo.last_zxid), error)

    def _post_state(self, state: str) -> None:
        self._post(self._state_changed, state, self._kazoo.client_state, self._kazoo.client_id)

    def _post_event(self, message: bytes, offset: int) -> None:
        event, _ = Watch.deserialize(message, offset)
        self._post(self._event, event.path)

    def _post(self, function: Callable[..., None], *arguments: Any) -> None:
        """Called from any thread. A stale flag costs a wake-up, but never a message."""
        self._inbox.append((function, arguments))
        if not self._woken:
            self._woken = True
            with contextlib.suppress(RuntimeError):  # The loop is closed.
                self._loop.call_soon_threadsafe(self._handle)

    def _handle(self) -> None:
        self._woken = False
        for _ in range(MOST_HANDLED_AT_ONCE):
            try:
                function, arguments = self._inbox.popleft()
            except IndexError:
                return
            if not self._closed:
                function(*arguments)
        self._woken = True
        self._loop.call_soon(self._handle)

    def _replied(self, request: Request, reply: Reply, error: Exception | None) -> None:
        if request not in self._in_flight:
            return
        self._in_flight.discard(request)
        if request.is_read and isinstance(error, ConnectionLoss | SessionMovedError | SessionExpiredError):
            if self._trouble is not None:
                self._fail([request], self._trouble)
            else:
                self._waiting.append(request)
        elif not request.future.done():
            if error is None or (request.is_read and isinstance(error, NoNodeError)):
                request.future.set_result(reply)
            else:
                request.future.set_exception(error)
        self._pump()

    def _event(self, path: str) -> None:
        self._listener.changed(path)

    def _state_changed(self, state: str, detail: str, identity: tuple[int, bytes] | None) -> None:
        if state == KazooState.CONNECTED and identity is not None:
            logger.info("connected to ZooKeeper at %s, session 0x%x", self._address, identity[0])
            self._stop_waiting()
            self._connected = True
            self._listener.connected(identity[0])
            self._pump()
        elif state == KazooState.SUSPENDED:
            logger.warning("the connection to ZooKeeper is lost; connecting again")
            self._begin_waiting()
        elif state == KazooState.LOST:
            self._lose(detail)

    def _lose(self, detail: str) -> None:
        """kazoo may have dropped a request that came at this moment, so all requests in flight are answered here."""
        self._begin_waiting()
        for request in list(self._in_flight):
            self._replied(request, Reply(None, 0), SessionExpiredError())
        self._listener.lost()
        if detail == KeeperState.AUTH_FAILED:
            self._refuse(StoreError("ZooKeeper refuses the credentials."))

    def _begin_waiting(self) -> None:
        self._connected = False
        if self._giving_up is None:
            self._giving_up = self._clock.call_later(self._patience, self._give_up)

    def _stop_waiting(self) -> None:
        self._trouble = None
        if self._giving_up is not None:
            self._giving_up.cancel()
            self._giving_up = None

    def _give_up(self) -> None:
        self._refuse(StoreError(f"ZooKeeper at {self._address} has not been reached for {self._patience:g} seconds."))

    def _refuse(self, trouble: StoreError) -> None:
        self._trouble = trouble
        self._fail([request for request in self._waiting if not request.patient], trouble)

    def _fail(self, requests: list[Request], error: StoreError) -> None:
        for request in requests:
            if not request.future.done():
                request.future.set_exception(error)


def end_session(address: str, identity: tuple[int, bytes], patience: float) -> None:
    """Take over a session and close it. If the session is over already, another one begins and is closed. Blocks."""
    kazoo = KazooClient(hosts=address, client_id=identity, handler=Handler(), logger=_kazoo_log)
    try:
        kazoo.start(patience)
    except KazooTimeoutError as error:
        raise StoreError(f"ZooKeeper at {address} has not been reached for {patience:g} seconds.") from error
    finally:
        kazoo.stop()
        kazoo.close()


def _repeated(address: str) -> str:
    hosts, slash, chroot = address.partition("/")
    several = hosts.split(",")
    return ",".join(several * -(-FEWEST_ATTEMPTS // len(several))) + slash + chroot


def _look_at(future: "asyncio.Future[Reply]") -> None:
    if not future.cancelled():
        future.exception()
