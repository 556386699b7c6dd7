"""Commits of one session, one transaction at a time. Each commit is done once or not at all.

If the connection breaks during a transaction, ZooKeeper may have done it or not. So every session has its own ephemeral
node, the guard, and every transaction begins with a compare-and-set of the guard. After a lost reply the store sends
the same transaction again. If the version of the guard has changed, the first transaction was done; otherwise it was
not, and never will be. The guard also keeps a commit out of a later session, because the guard ends with its own
session.

Commits that wait for a transaction share the next one. If ZooKeeper rejects the shared transaction, each is sent alone.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from ottla.store.interface import (
    CommitTooLargeError,
    Create,
    Op,
    Put,
    Refusal,
    SessionLostError,
    Set,
    StoreConflictError,
    StoreError,
)
from ottla.store.zookeeper_plan import SESSIONS, Plan, make_plan
from ottla.store.zookeeper_requests import ReplyLostError, Requests

MAX_GROUP_BYTES = 250_000
"""The most bytes of data and paths in a shared transaction, well below ZooKeeper's request limit."""
MAX_ATTEMPTS = 1000
"""Attempts to plan a commit. Each failure means that another client changed a node first, so only bugs reach this."""


class Waiting(NamedTuple):
    ops: tuple[Op, ...]
    size: int
    future: "asyncio.Future[list[int]]"


class Commits:
    def __init__(self, requests: Requests, known: Callable[[str], int | None]) -> None:
        self._requests = requests
        self._known = known
        self._guard: str | None = None
        self._guard_version = 0
        self._waiting: deque[Waiting] = deque()
        self._working: asyncio.Task[None] | None = None

    async def begin(self, session: int) -> None:
        guard = f"{SESSIONS}/{session & 0xFFFFFFFFFFFFFFFF:016x}"
        await self._requests.make(SESSIONS)
        await self._requests.make(guard, ephemeral=True)
        self._guard, self._guard_version = guard, 0

    def end(self, error: StoreError) -> None:
        """End the session. Waiting commits fail and are not done. A commit in flight gets its own error."""
        self._guard = None
        for waiting in self._waiting:
            if not waiting.future.done():
                waiting.future.set_exception(error)
        self._waiting.clear()

    async def commit(self, ops: Sequence[Op]) -> list[int]:
        future: asyncio.Future[list[int]] = asyncio.get_running_loop().create_future()
        self._waiting.append(Waiting(tuple(ops), _size(ops), future))
        if self._working is None or self._working.done():
            self._working = asyncio.ensure_future(self._work())
        return await future

    async def _work(self) -> None:
        while self._waiting:
            group = self._take_group()
            if len(group) > 1 and await self._do(group, alone=False):
                continue
            for waiting in group:
                await self._do([waiting], alone=True)

    def _take_group(self) -> list[Waiting]:
        group: list[Waiting] = []
        size = 0
        while self._waiting and (not group or size + self._waiting[0].size <= MAX_GROUP_BYTES):
            waiting = self._waiting.popleft()
            if not waiting.future.done():
                size += waiting.size
                group.append(waiting)
        return group

    async def _do(self, group: list[Waiting], *, alone: bool) -> bool:
        """Send one transaction and resolve the futures. Returns False if the commits must be sent one by one."""
        try:
            versions = await self._transact([op for waiting in group for op in waiting.ops])
        except (StoreConflictError, CommitTooLargeError) as error:
            if not alone:
                return False
            _fail(group, error)
        except (Exception, asyncio.CancelledError) as error:
            _fail(group, error)
            if isinstance(error, asyncio.CancelledError):
                raise
        else:
            remaining = iter(versions)
            for waiting in group:
                result = [next(remaining) for _ in waiting.ops]
                if not waiting.future.done():
                    waiting.future.set_result(result)
        return True

    async def _transact(self, ops: list[Op]) -> list[int]:
        known, guard = self._known, self._guard
        for _ in range(MAX_ATTEMPTS):
            plan = await self._plan(ops, known)
            failure = await self._send(plan, guard)
            if failure is None:
                return plan.versions
            conflict = plan.conflict(*failure)
            if conflict is not None:
                raise conflict
            known = _nothing_known
        raise StoreError("Other clients keep changing the same nodes; the commit was not done.")

    async def _plan(self, ops: list[Op], known: Callable[[str], int | None]) -> Plan:
        read: dict[str, int | None] = {}
        while (plan := make_plan(ops, lambda path: read[path] if path in read else known(path))).unknown:
            read.update(await self._requests.versions(plan.unknown))
        return plan

    async def _send(self, plan: Plan, guard: str | None) -> tuple[int, Refusal] | None:
        """None if the transaction is done, else the rejected step and the reason."""
        if guard is None or guard != self._guard:
            raise SessionLostError("The session with ZooKeeper has ended.")
        transaction = self._requests.transaction(guard, self._guard_version, plan.steps)
        may_be_done = False
        while True:
            try:
                failure = await self._requests.transact(transaction, patient=may_be_done)
            except ReplyLostError:
                may_be_done = True
                continue
            if failure is not None and failure.step > 0:
                return failure.step - 1, failure.refusal
            if failure is not None and failure.refusal is Refusal.MISSING:
                raise SessionLostError("The session with ZooKeeper has ended.")
            if failure is not None and not may_be_done:
                raise StoreError(f"Another client changed {guard}, which belongs to this session.")
            self._guard_version += 1
            return None


def _fail(group: Iterable[Waiting], error: BaseException) -> None:
    for waiting in group:
        if waiting.future.done():
            continue
        if isinstance(error, asyncio.CancelledError):
            waiting.future.cancel()
        else:
            waiting.future.set_exception(error)


def _size(ops: Iterable[Op]) -> int:
    return sum(len(op.path) + (len(op.data) if isinstance(op, Create | Set | Put) else 0) for op in ops)


def _nothing_known(path: str) -> int | None:
    raise KeyError(path)
