"""A clock that a test can advance. It otherwise runs like the system's clocks."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from datetime import timedelta
from typing import Any

_SETTLE_SECONDS = 10.0
"""How long `advance` waits for the work that it causes."""


class TravelClock:
    """The clock of a broker, or of all brokers of a cluster."""

    def __init__(self) -> None:
        self.offset = 0.0
        """Seconds that this clock is ahead of the system's."""
        self._lock = threading.Lock()
        self._brokers: list[BrokerClock] = []

    def time_ms(self) -> int:
        """The broker's wall clock, in milliseconds since 1970."""
        return _time_ms(self.offset)

    def advance(self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0) -> None:
        """Move the wall clock and the monotonic clock ahead, and run what is due.

        Every timer of the broker that is due fires once, in the order of the times: retention, expiry of offsets,
        producers and transactional ids, session timeouts of group members, idle connections, delayed replies. When
        this method returns, these timers and the tasks that they started have run.
        """
        delta = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds).total_seconds()
        if delta < 0:
            raise ValueError(f"the clock cannot go back by {-delta:g} s")
        with self._lock:
            self.offset += delta
            brokers = list(self._brokers)
            offset = self.offset
        for caught_up in [broker.advance_to(offset) for broker in brokers]:
            try:
                caught_up.result(_SETTLE_SECONDS + 1)
            except TimeoutError:
                raise TimeoutError("a broker does not run its timers; a paused broker has to resume first") from None

    def attach(self) -> BrokerClock:
        """The clock for a broker that starts on the running event loop."""
        with self._lock:
            clock = BrokerClock(self.offset, asyncio.get_running_loop())
            self._brokers.append(clock)
        return clock

    def detach(self, clock: BrokerClock) -> None:
        with self._lock:
            self._brokers.remove(clock)


def _time_ms(offset: float) -> int:
    return time.time_ns() // 1_000_000 + round(offset * 1000)


class BrokerClock:
    """The clock of one run of a broker, with its timers. Implements `ottla.env.clock.Clock`."""

    def __init__(self, offset: float, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._offset = offset
        """Only the event loop changes it, so that no callback sees a jump."""
        self._timers: dict[_Timer, None] = {}

    def time_ms(self) -> int:
        return _time_ms(self._offset)

    def monotonic(self) -> float:
        return time.monotonic() + self._offset

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> _Timer:
        timer = _Timer(self._timers, self.monotonic() + delay, callback, args)
        timer.handle = self._loop.call_later(delay, timer.fire)
        self._timers[timer] = None
        return timer

    def advance_to(self, offset: float) -> Future[None]:
        """Move ahead, and run what is due then. Call it from another thread. The future is done when this has run."""
        return asyncio.run_coroutine_threadsafe(self._advance_to(offset), self._loop)

    async def _advance_to(self, offset: float) -> None:
        self._offset = max(self._offset, offset)
        now = self.monotonic()
        before = asyncio.all_tasks()
        for timer in sorted(self._timers, key=lambda timer: timer.when):
            timer.handle.cancel()
            if timer.when <= now:
                timer.handle = self._loop.call_soon(timer.fire)
            else:
                timer.handle = self._loop.call_later(timer.when - now, timer.fire)
        await asyncio.sleep(0)  # The timers fire, and start tasks.
        started = asyncio.all_tasks() - before
        if started:
            await asyncio.wait(started, timeout=_SETTLE_SECONDS)

    def cancel_all(self) -> None:
        for timer in list(self._timers):
            timer.cancel()


class _Timer:
    __slots__ = ("_args", "_callback", "_timers", "handle", "when")

    def __init__(
        self, timers: dict[_Timer, None], when: float, callback: Callable[..., object], args: tuple[Any, ...]
    ) -> None:
        self._timers = timers
        self.when = when
        self._callback = callback
        self._args = args
        self.handle: asyncio.Handle

    def cancel(self) -> None:
        if self._timers.pop(self, self) is None:
            self.handle.cancel()

    def fire(self) -> None:
        if self._timers.pop(self, self) is None:
            self._callback(*self._args)
