"""Waiting for something that a broker promises soon, with a deadline instead of a hopeful sleep."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(attempt: Callable[[], T], timeout: float = 60.0, interval: float = 0.02) -> T:
    """Call until the result is truthy and return it; fail with the last result when time is up."""
    deadline = time.monotonic() + timeout
    while True:
        result = attempt()
        if result:
            return result
        if time.monotonic() >= deadline:
            raise AssertionError(f"not within {timeout} s; last result: {result!r}")
        time.sleep(interval)
