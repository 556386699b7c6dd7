"""A store behind the network. A session expires while its owner is cut off, paused or dead.

The store has the guarantees of Ottla's ZooKeeper store. A commit is applied once, even if the connection breaks. If the
session ends in between, the result is unknown. A read fails after too long without a connection. Only the ensemble ends
a session, and the owner learns of it when it is connected again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from ottla.store.interface import Changes, Node, Op, SessionLostError, StoreError, Watch
from ottla.store.memory import MemoryStore, MemoryTree
from ottla.store.watches import Watches

if TYPE_CHECKING:
    from ottla.env.clock import Clock
    from sim.loop import ProcessLoop
    from sim.network import Network

T = TypeVar("T")

STORE_HOST = "store"


class Ensemble:
    """The server side of the store. It never fails: the simulation does not test ZooKeeper's replication."""

    def __init__(self, network: Network, session_timeout: float) -> None:
        self.tree = MemoryTree()
        self.network = network
        self.session_timeout = session_timeout
        self.listeners: list[Callable[[], None]] = []
        """Called after every change."""
        self._heard: dict[int, float] = {}
        self._sessions: dict[int, MemoryStore] = {}

    def begin(self, server: MemoryStore) -> int:
        _at_once(server.start())
        session = server.session_id
        assert session is not None
        self._sessions[session] = server
        self._heard[session] = self.network.scheduler.now
        self._look(session)
        return session

    def hear(self, session: int) -> bool:
        """The owner of a session sent something. Returns whether the session still exists."""
        if session in self._sessions:
            self._heard[session] = self.network.scheduler.now
        return session in self._sessions

    def end(self, session: int) -> None:
        server = self._sessions.pop(session, None)
        if server is not None:
            _at_once(server.close())
            self.on_commit()

    def on_commit(self) -> None:
        for listener in self.listeners:
            listener()

    def _look(self, session: int) -> None:
        if session not in self._sessions:
            return
        now, scheduler = self.network.scheduler.now, self.network.scheduler
        left = self._heard[session] + self.session_timeout - now
        if left <= 0:
            self.network.trace.note(now, "session", session, "expires")
            self.end(session)
        else:
            scheduler.after(left + 0.001, self._look, session)


class _Request:
    """A pending request. It is sent again after the connection broke, but executed only once."""

    def __init__(self, work: Callable[[MemoryStore], Coroutine[Any, Any, Any]], future: asyncio.Future[Any]) -> None:
        self.work = work
        self.future = future
        self.is_done = False
        self.result: Any = None
        self.error: StoreError | None = None


class SimStore:
    """One process's session with the ensemble. Implements `Store`."""

    def __init__(self, ensemble: Ensemble, loop: ProcessLoop, clock: Clock, patience: float) -> None:
        self.session_id: int | None = None
        self._ensemble = ensemble
        self._network = ensemble.network
        self._loop = loop
        self._clock = clock
        self._patience = patience
        self._server = MemoryStore(ensemble.tree, clock)
        self._server.watches = _Bell(clock, self._ring)
        self._watches = Watches(clock)
        self._lost_callbacks: list[Callable[[], None]] = []
        self._pending: dict[_Request, None] = {}
        self._last_there = self._last_here = 0.0
        self._open = False

    async def start(self) -> None:
        if self.session_id is not None:
            return
        if not self._open:
            self._open = True
            self._network.when_mended(self._reconnect)
            self._ping()

        async def begin(server: MemoryStore) -> int:
            return self._ensemble.begin(server)

        self._server = MemoryStore(self._ensemble.tree, self._clock)
        self._server.watches = _Bell(self._clock, self._ring)
        self.session_id = await self._read(begin)
        self._watches.notify_all()

    async def close(self) -> None:
        self._open = False
        self._network.no_longer(self._reconnect)
        self._watches.cancel_all()
        session, self.session_id = self.session_id, None
        if session is not None and not self._is_cut():
            self._network.scheduler.after(self._arrival_there(), self._ensemble.end, session)

    def on_session_lost(self, callback: Callable[[], None]) -> None:
        self._lost_callbacks.append(callback)

    async def get(self, path: str) -> Node | None:
        return await self._read(lambda server: server.get(path))

    async def children(self, path: str) -> list[str]:
        return await self._read(lambda server: server.children(path))

    async def read_tree(self, *prefixes: str) -> dict[str, Node]:
        return await self._read(lambda server: server.read_tree(*prefixes))

    async def read_changes(self, since: int, *prefixes: str) -> Changes:
        return await self._read(lambda server: server.read_changes(since, *prefixes))

    async def commit(self, ops: Sequence[Op]) -> list[int]:
        if self.session_id is None:
            raise SessionLostError("The session with the store is over.")
        return await self._ask(lambda server: server.commit(ops))

    def watch(self, callback: Callable[[], None], *prefixes: str) -> Watch:
        return self._watches.add(callback, prefixes)

    # Requests and responses

    async def _read(self, work: Callable[[MemoryStore], Coroutine[Any, Any, T]]) -> T:
        try:
            return await asyncio.wait_for(self._ask(work), self._patience)
        except TimeoutError:
            raise StoreError("There is no connection to the store.") from None

    async def _ask(self, work: Callable[[MemoryStore], Coroutine[Any, Any, T]]) -> T:
        if not self._open:
            raise StoreError("The store is not open.")
        request = _Request(work, self._loop.create_future())
        self._pending[request] = None
        self._send(request)
        try:
            return await request.future  # type: ignore[no-any-return]
        finally:
            self._pending.pop(request, None)

    def _is_cut(self) -> bool:
        here = self._loop.name
        return self._network.is_cut(here, STORE_HOST) or self._network.is_cut(STORE_HOST, here)

    def _send(self, request: _Request) -> None:
        if not self._is_cut():
            self._network.scheduler.after(self._arrival_there(), self._arrive, request)

    def _arrival_there(self) -> float:
        now = self._network.scheduler.now
        self._last_there = max(self._last_there, now + self._network.latency(self._loop.name, STORE_HOST))
        return self._last_there - now

    def _arrive(self, request: _Request) -> None:
        if self._loop.dead or self._is_cut() or request not in self._pending:
            return
        if self.session_id is not None and not self._ensemble.hear(self.session_id):
            self._answer(self._lose_session, self.session_id)
            return
        if not request.is_done:
            request.is_done = True
            before = self._ensemble.tree.revision
            try:
                request.result = _at_once(request.work(self._server))
            except StoreError as error:
                request.error = error
            if self._ensemble.tree.revision != before:
                self._ensemble.on_commit()
        self._answer(self._resolve, request)

    def _answer(self, callback: Callable[..., object], *args: object) -> None:
        now = self._network.scheduler.now
        self._last_here = max(self._last_here, now + self._network.latency(STORE_HOST, self._loop.name))
        self._network.scheduler.after(self._last_here - now, self._reach, callback, *args)

    def _reach(self, callback: Callable[..., object], *args: object) -> None:
        if not self._is_cut():
            self._loop.call_soon(callback, *args)

    def _resolve(self, request: _Request) -> None:
        if request.future.done():
            return
        if request.error is not None:
            request.future.set_exception(request.error)
        else:
            request.future.set_result(request.result)

    def _ring(self) -> None:
        """The tree changed. Notify all watches: superfluous notifications are harmless, only the timing matters."""
        self._answer(self._watches.notify_all)

    def _ping(self) -> None:
        if self._open:
            session = self.session_id
            if session is not None and not self._is_cut():
                self._network.scheduler.after(self._arrival_there(), self._pinged, session)
            self._loop.call_later(self._ensemble.session_timeout / 3, self._ping)

    def _pinged(self, session: int) -> None:
        if not self._loop.dead and not self._is_cut() and not self._ensemble.hear(session):
            self._answer(self._lose_session, session)

    def _reconnect(self) -> None:
        """The connection is restored: send pending requests again and notify all watches."""
        if self._loop.dead:
            self._network.no_longer(self._reconnect)
        elif not self._is_cut():
            for request in list(self._pending):
                self._send(request)
            if self.session_id is not None:
                self._network.scheduler.after(self._arrival_there(), self._pinged, self.session_id)
            self._answer(self._watches.notify_all)

    def _lose_session(self, session: int) -> None:
        if self.session_id != session:
            return
        self.session_id = None
        for request in list(self._pending):
            if not request.future.done():
                request.future.set_exception(SessionLostError("The session with the store is over."))
        for callback in self._lost_callbacks:
            callback()


class _Bell(Watches):
    """The server side of a session's watches: forwards notifications to the session's owner."""

    def __init__(self, clock: Clock, ring: Callable[[], None]) -> None:
        super().__init__(clock)
        self._ring = ring

    def notify(self, paths: Iterable[str]) -> None:
        self._ring()


def _at_once(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine of the in-memory store, which never suspends."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    raise AssertionError("the memory store suspended")
