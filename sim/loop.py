"""Virtual time, and an event loop for each simulated process.

Every process has a loop of its own, so that it can die (nothing of it runs any more), stand still, and have a clock
that goes wrong, as processes do. One scheduler runs the callbacks of all of them in the order of virtual time. Nothing
here asks the real clock, and no thread is started, so the same seed does the same things in the same order.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import itertools
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
"""The true wall clock when a run begins."""

MAX_STEPS_AT_ONCE = 200_000
"""Callbacks at one moment of virtual time; more means that somebody spins."""


class SpinningError(Exception):
    """Callbacks call each other for ever while time stands still."""


class Scheduler:
    """Runs what is due. `now` is the true time, in seconds; processes see it through clocks of their own."""

    def __init__(self) -> None:
        self.now = 0.0
        self.steps = 0
        self._steps_before = 0
        """Those of earlier moments."""
        self._order = itertools.count()
        self._ready: deque[asyncio.Handle] = deque()
        self._later: list[tuple[float, int, asyncio.Handle]] = []
        self.outside = ProcessLoop(self, "outside")  # type: ignore[abstract]
        """For events that belong to no process: bytes that arrive, sessions that expire."""

    def soon(self, handle: asyncio.Handle) -> None:
        self._ready.append(handle)

    def at(self, when: float, handle: asyncio.Handle) -> None:
        heapq.heappush(self._later, (when, next(self._order), handle))

    def after(self, delay: float, callback: Callable[..., object], *args: Any) -> asyncio.Handle:
        """Have something happen outside of all processes."""
        handle = asyncio.Handle(callback, args, self.outside)
        self.at(self.now + delay, handle)
        return handle

    def run_until(self, done: Callable[[], bool], limit: float) -> bool:
        """Run until a condition holds or the time is over. Returns whether it holds."""
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
                    raise SpinningError(f"{loop.name} does not come to rest: {handle}")
                events._set_running_loop(loop)
                handle._run()


class ProcessLoop(asyncio.AbstractEventLoop):
    """The event loop that one process sees."""

    def __init__(self, scheduler: Scheduler, name: str, network: Network | None = None) -> None:
        self.name = name
        self.dead = False
        self.held: list[asyncio.Handle] | None = None
        """What waits for the process to go on; None while it runs."""
        self.rate = 1.0
        """Seconds on this process's clock in a true second."""
        self.unhandled: list[dict[str, Any]] = []
        self._scheduler = scheduler
        self._network = network
        self._tasks: list[asyncio.Task[Any]] = []
        """Kept, so that a task of a dead process is not taken apart at a moment that only the collector knows."""

    # The life of a process

    def kill(self) -> None:
        self.dead = True
        self.held = None

    def bury(self) -> None:
        """After the run: let go of what the process was doing, without it noticing."""
        self.kill()
        for task in self._tasks:
            with contextlib.suppress(BaseException):
                if not task.done():
                    cast("Coroutine[Any, Any, Any]", task.get_coro()).close()
        self._tasks.clear()

    def hold(self) -> None:
        if self.held is None:
            self.held = []

    def release(self) -> None:
        held, self.held = self.held, None
        for handle in held or ():
            self._scheduler.soon(handle)

    # What asyncio needs

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
            # A little late: who looks at the clock then must not find that it is still too early, by rounding.
            self._scheduler.at(when / self.rate + 1e-9, timer)
        return timer

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """A cancelled timer is passed over when its time comes."""

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


class ProcessClock:
    """A process's clock: it goes a little too fast or too slow, and its wall clock is wrong. Implements `Clock`."""

    def __init__(self, loop: ProcessLoop) -> None:
        self._loop = loop
        self.skew_ms = 0
        self.call_later = loop.call_later
        self.monotonic = loop.time

    def time_ms(self) -> int:
        return EPOCH_MS + self.skew_ms + round(self._loop.time() * 1000)
