"""Runs blocking work (fsync, SQLite, compaction, opening batches) in threads.

Each kind of work has its own threads, so that it does not wait for slow work of another kind.
"""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

T = TypeVar("T")

_SLICE_SECONDS = 0.001


class Background(Protocol):
    def run(self, function: Callable[[], T]) -> asyncio.Future[T]:
        """Run a blocking function in a thread. The future completes on the event loop."""


class Workers(Background, Protocol):
    """Threads for background work. The owner closes them."""

    def close(self) -> None: ...


class Threads:
    """A pool of threads. Work waits in a queue for a free thread."""

    def __init__(self, count: int = 4, name: str = "background", *, drop_queued: bool = False) -> None:
        """With `drop_queued`, `close` cancels queued work instead of finishing it."""
        self._pool = ThreadPoolExecutor(count, thread_name_prefix=f"ottla-{name}")
        self._drop_queued = drop_queued

    def run(self, function: Callable[[], T]) -> asyncio.Future[T]:
        return asyncio.get_running_loop().run_in_executor(self._pool, function)

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=self._drop_queued)


class Pauses:
    """Leaves half of the CPU time to the event loop. A thread that computes must call it often.

    A thread that computes holds Python's global lock, so the event loop waits. The thread sleeps after each
    millisecond, so the event loop waits for a millisecond at most.
    """

    __slots__ = ("_begun", "_monotonic", "_sleep")

    def __init__(
        self, monotonic: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._monotonic = monotonic
        self._sleep = sleep
        self._begun = monotonic()

    def __call__(self) -> None:
        worked = self._monotonic() - self._begun
        if worked >= _SLICE_SECONDS:
            self._sleep(worked)
            self._begun = self._monotonic()
