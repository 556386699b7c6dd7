"""The connection to ZooKeeper: kazoo in its thread on one side, the event loop on the other.

kazoo implements the protocol, keeps the session alive and fails over to other servers. It passes everything it reads to
the event loop through one inbox, in the order of the wire. ZooKeeper sends a watch event before any reply that shows
the change, and the consistency of the store depends on this order.

This module uses two private names of kazoo. `_call` sends a request. `_read_watch_event` is replaced, because kazoo
drops the events of persistent watches (ZooKeeper 3.6). So pyproject.toml allows only a narrow range of versions.
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
# kazoo logs every attempt to connect. This module logs only changes of the connection state.
_kazoo_log.setLevel(logging.ERROR)

MAX_IN_FLIGHT = 128
"""kazoo wakes its thread with one byte per request through a socket. The sender blocks after a few hundred bytes."""
MAX_HANDLED_AT_ONCE = 256
"""Messages from kazoo's thread that are handled before the event loop runs other work."""
MAX_RECONNECT_DELAY = 1.0
MIN_ATTEMPTS = 4
"""Attempts to connect within one session timeout, which kazoo divides by the number of hosts. A server that is starting
may accept a connection and never reply. With one host, kazoo would wait for it until the session has expired."""


class Reply(NamedTuple):
    value: Any
    zxid: int
    """The last transaction that the server had applied when it replied."""


class Listener(Protocol):
    """Called on the event loop."""

    def connected(self, session: int) -> None:
        """Called before any reply of the new connection. Its server has no watches yet."""

    def lost(self) -> None:
        """The session has ended. kazoo begins a new one."""

    def changed(self, path: str) -> None:
        """A node under a watch was created, changed or deleted. The path is the server's, with the chroot."""


class Handler(SequentialThreadingHandler):  # type: ignore[misc]
    """Uses poll. kazoo's own method creates a new epoll object for each wait, several times per request."""

    def select(self, reads: Sequence[Any], writes: Sequence[Any], _: Sequence[Any], timeout: float | None) -> Any:
        poll = select.poll()
        for each in reads:
            poll.register(each, select.POLLIN)
        for each in writes:
            poll.register(each, select.POLLOUT)
        ready = {number for number, _ in poll.poll(None if timeout is None else max(timeout, 0) * 1000)}
        return [e for e in reads if e.fileno() in ready], [e for e in writes if e.fileno() in ready], []


class Request:
    """One request in flight. kazoo calls `set` or `set_exception`, usually in its own thread."""

    __slots__ = ("_client", "content", "future", "is_read", "patient")

    def __init__(self, client: "ZooKeeperClient", content: Any, is_read: bool, patient: bool) -> None:
        self._client = client
        self.content = content
        self.is_read = is_read
        self.patient = patient
        self.future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        # Some callers never await the future.
        self.future.add_done_callback(_retrieve_exception)

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
        self._connection_error: StoreError | None = None
        """Set after `patience` seconds without a connection. Requests then fail with it immediately."""
        try:
            self._kazoo = KazooClient(
                hosts=_repeated(address),
                timeout=session_timeout,
                handler=Handler(),
                auth_data=None if credentials is None else [("digest", credentials)],
                connection_retry={"max_tries": -1, "max_delay": MAX_RECONNECT_DELAY},
                logger=_kazoo_log,
            )
        except ValueError as error:
            raise StoreError(f"{address!r} is not a ZooKeeper address such as host:2181,host:2181/chroot.") from error
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
        """Fail all requests. Returns a function that ends the session. It blocks, since it waits for the server."""
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

        A read is retried until there is a reply. Its value is None if the node is missing. Other requests fail with the
        error of kazoo. A `patient` request waits for a connection without a limit. With `first`, the request goes
        before all waiting requests.
        """
        request = Request(self, content, is_read, patient)
        if self._closed:
            request.future.set_exception(StoreError("The store is not open."))
        elif self._connection_error is not None and not patient:
            request.future.set_exception(self._connection_error)
        else:
            (self._waiting.appendleft if first else self._waiting.append)(request)
            self._pump()
        return request.future

    def _pump(self) -> None:
        while self._connected and self._waiting and len(self._in_flight) < MAX_IN_FLIGHT:
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
        """Called from any thread. A stale `_woken` flag may cause an extra wake-up, but never loses a message."""
        self._inbox.append((function, arguments))
        if not self._woken:
            self._woken = True
            with contextlib.suppress(RuntimeError):  # The loop is closed.
                self._loop.call_soon_threadsafe(self._handle)

    def _handle(self) -> None:
        self._woken = False
        for _ in range(MAX_HANDLED_AT_ONCE):
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
            if self._connection_error is not None:
                self._fail([request], self._connection_error)
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
            logger.warning("lost the connection to ZooKeeper; reconnecting")
            self._begin_waiting()
        elif state == KazooState.LOST:
            self._lose(detail)

    def _lose(self, detail: str) -> None:
        """Fail all requests in flight: kazoo may drop a request that was sent when the session ended."""
        self._begin_waiting()
        for request in list(self._in_flight):
            self._replied(request, Reply(None, 0), SessionExpiredError())
        self._listener.lost()
        if detail == KeeperState.AUTH_FAILED:
            self._fail_waiting(StoreError("ZooKeeper rejects the credentials."))

    def _begin_waiting(self) -> None:
        self._connected = False
        if self._giving_up is None:
            self._giving_up = self._clock.call_later(self._patience, self._give_up)

    def _stop_waiting(self) -> None:
        self._connection_error = None
        if self._giving_up is not None:
            self._giving_up.cancel()
            self._giving_up = None

    def _give_up(self) -> None:
        text = f"ZooKeeper at {self._address} has not been reached for {self._patience:g} seconds."
        self._fail_waiting(StoreError(text))

    def _fail_waiting(self, error: StoreError) -> None:
        self._connection_error = error
        self._fail([request for request in self._waiting if not request.patient], error)

    def _fail(self, requests: list[Request], error: StoreError) -> None:
        for request in requests:
            if not request.future.done():
                request.future.set_exception(error)


def end_session(address: str, identity: tuple[int, bytes], patience: float) -> None:
    """Take over a session and close it. If it has already ended, a new session begins and is closed. Blocks."""
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
    return ",".join(several * -(-MIN_ATTEMPTS // len(several))) + slash + chroot


def _retrieve_exception(future: "asyncio.Future[Reply]") -> None:
    if not future.cancelled():
        future.exception()
