"""Virtual time, and an event loop for each simulated process.

Every process has its own loop, so that it can die (its callbacks no longer run), pause, and have a wrong clock. One
scheduler runs the callbacks of all loops in the order of virtual time. Nothing here reads the real clock or starts a
thread, so a run with the same seed repeats exactly.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import inspect
import itertools
import types
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple, Unpack, cast

if TYPE_CHECKING:
    from contextvars import Context

    from sim.network import Network

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

EPOCH_MS = 1_700_000_000_000
"""The true wall-clock time at the start of a run."""

MAX_STEPS_AT_ONCE = 200_000
"""Maximum number of callbacks at one moment of virtual time. More indicate an endless loop."""


_MOST_AWAITS_AT_END = 1000


class SpinningError(Exception):
    """Callbacks schedule each other endlessly without advancing virtual time."""


class Scheduler:
    """Runs due callbacks. `now` is the true time in seconds. Processes see it through their own clocks."""

    def __init__(self) -> None:
        self.now = 0.0
        self.steps = 0
        self._steps_before = 0
        """Number of steps before the current moment."""
        self._order = itertools.count()
        self._ready: deque[asyncio.Handle] = deque()
        self._later: list[tuple[float, int, asyncio.Handle]] = []
        self.outside = ProcessLoop(self, "outside")  # type: ignore[abstract]
        """The loop for events outside of processes, such as arriving bytes and expiring sessions."""

    def soon(self, handle: asyncio.Handle) -> None:
        self._ready.append(handle)

    def at(self, when: float, handle: asyncio.Handle) -> None:
        heapq.heappush(self._later, (when, next(self._order), handle))

    def after(self, delay: float, callback: Callable[..., object], *args: Any) -> asyncio.Handle:
        """Schedule an event that belongs to no process."""
        handle = asyncio.Handle(callback, args, self.outside)
        self.at(self.now + delay, handle)
        return handle

    def run_until(self, done: Callable[[], bool], limit: float) -> bool:
        """Run until the condition holds or the time limit is reached. Returns whether the condition holds."""
        running = events._get_running_loop()
        try:
            while not done():
                self._run_ready()
                if done():
                    break
                if not self._later or self._later[0][0] > limit:
                    self.now = limit
                    return done()
                when, _, handle = heapq.heappop(self._later)
                if when > self.now:
                    self.now, self._steps_before = when, self.steps
                self._ready.append(handle)
            return True
        finally:
            events._set_running_loop(running)

    def _run_ready(self) -> None:
        ready = self._ready
        while ready:
            handle = ready.popleft()
            if handle._cancelled:
                continue
            loop = cast("ProcessLoop", handle._loop)  # type: ignore[attr-defined]
            if loop.held is not None:
                loop.held.append(handle)
            elif not loop.dead:
                self.steps += 1
                if self.steps - self._steps_before > MAX_STEPS_AT_ONCE:
                    raise SpinningError(f"{loop.name} schedules callbacks endlessly: {handle}")
                events._set_running_loop(loop)
                handle._run()


class ProcessLoop(asyncio.AbstractEventLoop):
    """The event loop that one process sees."""

    def __init__(self, scheduler: Scheduler, name: str, network: Network | None = None) -> None:
        self.name = name
        self.dead = False
        self.held: list[asyncio.Handle] | None = None
        """Callbacks held back while the process is paused; None while it runs."""
        self.rate = 1.0
        """Seconds on this process's clock per true second."""
        self.unhandled: list[dict[str, Any]] = []
        self._scheduler = scheduler
        self._network = network
        self._tasks: list[asyncio.Task[Any]] = []
        """Strong references, so that the garbage collector never destroys a task of a dead process at random."""

    # State of the process

    def kill(self) -> None:
        self.dead = True
        self.held = None

    def bury(self) -> None:
        """After the run: close the coroutines of the process without running more of its code than their cleanup.

        Cleanup may create tasks. They belong to this loop, which closes them too.
        """
        self.kill()
        running = events._get_running_loop()
        events._set_running_loop(self)
        try:
            for task in self._tasks:
                if not task.done():
                    _close(cast("types.CoroutineType[Any, Any, Any]", task.get_coro()))
        finally:
            events._set_running_loop(running)
        self._tasks.clear()

    def hold(self) -> None:
        if self.held is None:
            self.held = []

    def release(self) -> None:
        held, self.held = self.held, None
        for handle in held or ():
            self._scheduler.soon(handle)

    # The interface that asyncio needs

    def time(self) -> float:
        return self._scheduler.now * self.rate

    def call_soon(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        if not self.dead:
            self._scheduler.soon(handle)
        return handle

    def call_later(
        self, delay: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        if not self.dead:
            # Slightly late, so that the callback never finds the clock before its time because of rounding.
            self._scheduler.at(when / self.rate + 1e-9, timer)
        return timer

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Nothing to do: the scheduler skips cancelled timers."""

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(self, coro: Coroutine[Any, Any, T], **options: Any) -> asyncio.Task[T]:  # type: ignore[override]
        task = asyncio.Task(coro, loop=self, **options)
        self._tasks.append(task)
        return task

    async def create_connection(self, protocol_factory: Any, host: Any = None, port: Any = None, **_: Any) -> Any:
        assert self._network is not None
        return await self._network.connect(self, protocol_factory, host, port)

    def is_running(self) -> bool:
        return not self.dead

    def is_closed(self) -> bool:
        return False

    def get_debug(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if not self.dead:
            self.unhandled.append(context)


def _close(coroutine: types.CoroutineType[Any, Any, Any]) -> None:
    """Close a coroutine and all that it awaits, the innermost first.

    A coroutine that awaits while it cleans up, as an AsyncExitStack does, refuses the first attempt to close it.
    Closing the outer coroutine would fail then and leave the inner one suspended: the collector would go on with it
    later, and print what that raises.
    """
    for _ in range(_MOST_AWAITS_AT_END):
        innermost = coroutine
        while isinstance(awaited := innermost.cr_await, types.CoroutineType) and not _is_closed(awaited):
            innermost = awaited
        with contextlib.suppress(BaseException):
            innermost.close()
        if _is_closed(coroutine):
            return
    raise AssertionError(f"{coroutine} does not end")


def _is_closed(coroutine: types.CoroutineType[Any, Any, Any]) -> bool:
    return inspect.getcoroutinestate(coroutine) == inspect.CORO_CLOSED


class ProcessClock:
    """A process's clock. It runs slightly too fast or too slow, and its wall clock is wrong. Implements `Clock`."""

    def __init__(self, loop: ProcessLoop) -> None:
        self._loop = loop
        self.skew_ms = 0
        self.call_later = loop.call_later
        self.monotonic = loop.time

    def time_ms(self) -> int:
        return EPOCH_MS + self.skew_ms + round(self._loop.time() * 1000)
