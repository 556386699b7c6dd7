"""Time: the wall clock for timestamps, the monotonic clock for timeouts, and timers."""

import asyncio
import time
from collections.abc import Callable
from typing import Any, Protocol


class Timer(Protocol):
    def cancel(self) -> None: ...


class Clock(Protocol):
    def time_ms(self) -> int:
        """Milliseconds since 1970. May jump, so use it only for times that are stored or shown."""

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back. Use it for all timeouts and intervals."""

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> Timer:
        """Run the callback on the event loop after `delay` seconds, unless cancelled."""


SHORTEST_PERIOD_SECONDS = 0.1
"""Periodic work runs on the event loop, over all partitions or groups, so it must not run without a pause."""


def period_seconds(milliseconds: float) -> float:
    """The delay until the next round of periodic work. Settings may have 0, and some of them negative values."""
    return max(milliseconds / 1000, SHORTEST_PERIOD_SECONDS)


class SystemClock:
    def time_ms(self) -> int:
        return time.time_ns() // 1_000_000

    monotonic = staticmethod(time.monotonic)

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> Timer:
        return asyncio.get_running_loop().call_later(delay, callback, *args)
