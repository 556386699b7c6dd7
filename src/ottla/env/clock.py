"""Time: the wall clock that is stored in records, the steady clock that timeouts use, and timers."""

import asyncio
import time
from collections.abc import Callable
from typing import Any, Protocol


class Timer(Protocol):
    def cancel(self) -> None: ...


class Clock(Protocol):
    def time_ms(self) -> int:
        """Wall clock, milliseconds since 1970. May jump; only for what is stored or shown."""

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back. For every timeout and interval."""

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> Timer:
        """Run the callback on the event loop after `delay` seconds, unless cancelled."""


class SystemClock:
    def time_ms(self) -> int:
        return time.time_ns() // 1_000_000

    monotonic = staticmethod(time.monotonic)

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> Timer:
        return asyncio.get_running_loop().call_later(delay, callback, *args)
