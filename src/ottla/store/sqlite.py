"""A store in one SQLite file, shared by the brokers of one machine.

A background thread does all work on the file, one batch at a time. Calls that arrive while a batch runs share the next
transaction, and so one fsync. The store finds changes of other processes by polling a counter of SQLite in shared
memory.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ottla.env.background import Background
from ottla.env.clock import Clock, Timer
from ottla.env.disk import Disk
from ottla.store.interface import Changes, Node, Op, SessionLostError, StoreError, Watch, check_path
from ottla.store.sqlite_mode import Mode
from ottla.store.watches import Watches

if TYPE_CHECKING:
    from ottla.store.sqlite_work import Outcome, SqliteWork

T = TypeVar("T")

HEARTBEATS_PER_TIMEOUT = 3


class Job(NamedTuple):
    mode: Mode
    function: "Callable[[SqliteWork], Any]"
    future: "asyncio.Future[Any]"


class SqliteStore:
    def __init__(
        self,
        path: str,
        clock: Clock,
        background: Background,
        disk: Disk,
        *,
        session_timeout: float = 18.0,
        poll_interval: float = 0.1,
        busy_timeout: float = 5.0,
    ) -> None:
        self._path = path
        self._clock = clock
        self._background = background
        self._disk = disk
        self._session_timeout = session_timeout
        self._poll_interval = poll_interval
        self._busy_timeout = busy_timeout
        self._work: SqliteWork | None = None
        self._jobs: deque[Job] = deque()
        self._busy = False
        self._session: int | None = None
        self._last_confirmed = 0.0
        self._last_heartbeat = 0.0
        self._ticking: Timer | None = None
        self._lost_callbacks: list[Callable[[], None]] = []
        self._watches = Watches(clock)

    @property
    def session_id(self) -> int | None:
        return self._session

    async def start(self) -> None:
        if self._session is not None:
            return
        if self._work is None:
            # Imported here because a broker on ZooKeeper never needs SQLite.
            from ottla.store.sqlite_work import SqliteWork

            self._work = SqliteWork(self._path, self._disk, self._busy_timeout)
        now = self._clock.monotonic()
        self._session = await self._submit(Mode.WRITE, lambda work: work.sessions.begin(self._session_timeout, now))
        self._last_confirmed = self._last_heartbeat = now
        if self._ticking is None:
            self._ticking = self._clock.call_later(self._poll_interval, self._tick)

    async def close(self) -> None:
        if self._ticking is not None:
            self._ticking.cancel()
            self._ticking = None
        self._watches.cancel_all()
        work, session = self._work, self._session
        if work is None:
            return
        self._session = None
        leave = self._submit(Mode.WRITE, lambda work: None if session is None else work.sessions.end(session))
        self._work = None
        await asyncio.wait([leave])
        if not leave.cancelled():
            # A failure is harmless: closing the file releases the lock, and then other processes end the session.
            leave.exception()
        await self._background.run(work.close)

    def abandon(self) -> None:
        """Close the file and release the lock, but leave the session behind, as a killed process does. Blocking; the
        owner has closed the threads of the store before."""
        if self._ticking is not None:
            self._ticking.cancel()
        work, self._work = self._work, None
        self._jobs.clear()
        if work is not None:
            work.close()

    def on_session_lost(self, callback: Callable[[], None]) -> None:
        self._lost_callbacks.append(callback)

    async def get(self, path: str) -> Node | None:
        check_path(path)
        return await self._submit(Mode.READ, lambda work: work.tree.node(path))

    async def children(self, path: str) -> list[str]:
        check_path(path)
        children = await self._submit(Mode.READ, lambda work: work.tree.child_paths(path))
        return sorted(child[child.rindex("/") + 1 :] for child in children)

    async def read_tree(self, *prefixes: str) -> dict[str, Node]:
        for prefix in prefixes:
            check_path(prefix)
        return await self._submit(Mode.READ, lambda work: work.tree.read(prefixes))

    async def read_changes(self, since: int, *prefixes: str) -> Changes:
        for prefix in prefixes:
            check_path(prefix)
        return await self._submit(Mode.READ, lambda work: work.tree.changes(since, prefixes))

    async def commit(self, ops: Sequence[Op]) -> list[int]:
        session = self._session
        if session is None and self._work is not None:
            raise SessionLostError("The session with the store has ended.")
        fixed = tuple(ops)
        return await self._submit(Mode.WRITE, lambda work: work.commit(fixed, session))

    def watch(self, callback: Callable[[], None], *prefixes: str) -> Watch:
        return self._watches.add(callback, prefixes)

    def _submit(self, mode: Mode, function: "Callable[[SqliteWork], T]") -> "asyncio.Future[T]":
        if self._work is None:
            raise StoreError("The store is not open.")
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._jobs.append(Job(mode, function, future))
        if not self._busy:
            self._run_next(self._work)
        return future

    def _run_next(self, work: "SqliteWork") -> None:
        """Run one batch: consecutive jobs of the same mode share a transaction."""
        if not self._jobs:
            return
        batch = [self._jobs.popleft()]
        mode = batch[0].mode
        while self._jobs and self._jobs[0].mode is mode:
            batch.append(self._jobs.popleft())
        functions = [job.function for job in batch]
        running = self._background.run(lambda: work.run(mode, functions))
        self._busy = True
        running.add_done_callback(partial(self._finish, work, batch))

    def _finish(self, work: "SqliteWork", batch: list[Job], done: "asyncio.Future[Outcome]") -> None:
        self._busy = False
        try:
            results, changed = done.result()
        except (Exception, asyncio.CancelledError) as error:
            results, changed = [error] * len(batch), []
        if changed is None:
            self._watches.notify_all()
        else:
            self._watches.notify(changed)
        for job, result in zip(batch, results, strict=True):
            if job.future.done():
                continue
            if isinstance(result, asyncio.CancelledError):
                job.future.cancel()
            elif isinstance(result, Exception):
                job.future.set_exception(result)
            else:
                job.future.set_result(result)
        self._run_next(work)

    def _tick(self) -> None:
        """Poll for changes of other processes. A few times in each session timeout, write a heartbeat instead, which
        also ends the sessions of dead processes."""
        session, now = self._session, self._clock.monotonic()
        due = now - self._last_heartbeat >= self._session_timeout / HEARTBEATS_PER_TIMEOUT
        if session is not None and self._work is not None and (due or self._work.has_dead):
            self._last_heartbeat = now
            self._work.has_dead = False
            job = self._submit(Mode.BEAT, lambda work: work.sessions.beat(session, now))
        else:
            job = self._submit(Mode.POLL, lambda work: session is None or work.sessions.is_alive(session))
        job.add_done_callback(partial(self._ticked, session, now))

    def _ticked(self, session: int | None, now: float, done: "asyncio.Future[bool]") -> None:
        """The session has ended if the file says so, or if all accesses failed for a whole session timeout."""
        if done.cancelled() or self._work is None:
            return
        if done.exception() is not None:
            alive = now - self._last_confirmed <= self._session_timeout
        else:
            alive = done.result()
            self._last_confirmed = now
        self._ticking = self._clock.call_later(self._poll_interval, self._tick)
        if not alive and session is not None and session == self._session:
            self._session = None
            for callback in self._lost_callbacks:
                callback()
