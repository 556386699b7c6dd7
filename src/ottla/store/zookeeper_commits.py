"""Commits of one session, one transaction at a time, each of them done once or not at all.

When the connection breaks under a transaction, ZooKeeper may have done it or not. So every session has an ephemeral
node of its own, the guard, and every transaction begins with a compare-and-set of it. The same transaction is then
simply sent again: if the guard has moved on, the first one was done, and if not, the first one never will be. The guard
also keeps a commit from reaching a later session, because it ended with its own.

Commits that wait for the one under way go together in the next transaction. If that is refused, each goes alone.
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

LARGEST_GROUP = 250_000
"""Bytes of data and paths in commits that go together, well below what ZooKeeper takes in one request."""
MOST_ATTEMPTS = 1000
"""Of planning a commit. Each failure means that somebody else got ahead, so this is a bound for mistakes, not luck."""


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
        """The session is over. What waits was not done; what is under way learns it by itself."""
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
        while self._waiting and (not group or size + self._waiting[0].size <= LARGEST_GROUP):
            waiting = self._waiting.popleft()
            if not waiting.future.done():
                size += waiting.size
                group.append(waiting)
        return group

    async def _do(self, group: list[Waiting], *, alone: bool) -> bool:
        """Returns False when the commits must be tried one by one; otherwise their callers have the answer."""
        try:
            versions = await self._transact([op for waiting in group for op in waiting.ops])
        except (StoreConflictError, CommitTooLargeError) as error:
            if not alone:
                return False
            _tell(group, error)
        except (Exception, asyncio.CancelledError) as error:
            _tell(group, error)
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
        for _ in range(MOST_ATTEMPTS):
            plan = await self._plan(ops, known)
            failure = await self._send(plan, guard)
            if failure is None:
                return plan.versions
            conflict = plan.conflict(*failure)
            if conflict is not None:
                raise conflict
            known = _nothing_known
        raise StoreError("Others change the same nodes all the time; the commit was given up and not done.")

    async def _plan(self, ops: list[Op], known: Callable[[str], int | None]) -> Plan:
        read: dict[str, int | None] = {}
        while (plan := make_plan(ops, lambda path: read[path] if path in read else known(path))).unknown:
            read.update(await self._requests.versions(plan.unknown))
        return plan

    async def _send(self, plan: Plan, guard: str | None) -> tuple[int, Refusal] | None:
        """None when it is done, else which step was refused and why."""
        if guard is None or guard != self._guard:
            raise SessionLostError("The session with ZooKeeper is over.")
        transaction = self._requests.transaction(guard, self._guard_version, plan.steps)
        perhaps_done = False
        while True:
            try:
                failure = await self._requests.transact(transaction, patient=perhaps_done)
            except ReplyLostError:
                perhaps_done = True
                continue
            if failure is not None and failure.step > 0:
                return failure.step - 1, failure.refusal
            if failure is not None and failure.refusal is Refusal.MISSING:
                raise SessionLostError("The session with ZooKeeper is over.")
            if failure is not None and not perhaps_done:
                raise StoreError(f"Somebody else changes {guard}, which belongs to this session alone.")
            self._guard_version += 1
            return None


def _tell(group: Iterable[Waiting], error: BaseException) -> None:
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
