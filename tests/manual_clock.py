"""A clock that the test advances."""

import functools
import heapq
import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

NOW_MS = 1_700_000_000_000
"""The wall-clock time at the start."""


class ManualTimer:
    def __init__(self) -> None:
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class _Call(NamedTuple):
    at: float
    order: int
    timer: ManualTimer
    callback: Callable[[], object]


class ManualClock:
    """Implements `ottla.env.clock.Clock`."""

    def __init__(self) -> None:
        self.now = 0.0
        self._order = itertools.count()
        self._calls: list[_Call] = []

    def time_ms(self) -> int:
        return NOW_MS + round(self.now * 1000)

    def monotonic(self) -> float:
        return self.now

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> ManualTimer:
        timer = ManualTimer()
        call = _Call(self.now + delay, next(self._order), timer, functools.partial(callback, *args))
        heapq.heappush(self._calls, call)
        return timer

    def advance(self, seconds: float) -> None:
        """Jump ahead, then run all timers that are due, in their order: late, as on a busy machine."""
        self.now += seconds
        while self._calls and self._calls[0].at <= self.now + 1e-9:
            call = heapq.heappop(self._calls)
            if not call.timer.cancelled:
                call.callback()

    @property
    def pending(self) -> int:
        """Timers that have not fired yet."""
        return sum(not call.timer.cancelled for call in self._calls)
