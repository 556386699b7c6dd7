"""Work that would block the event loop (fsync, SQLite, compaction, opening batches), run in threads.

Each purpose has threads of its own: work of one kind must not wait for slow work of another kind.
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
        """Run a blocking function elsewhere; the future completes on the event loop."""


class Workers(Background, Protocol):
    """The threads that do the work. The owner closes them."""

    def close(self) -> None: ...


class Threads:
    """A pool of threads. Work that finds no free thread waits in a queue."""

    def __init__(self, count: int = 4, name: str = "background", *, drop_queued: bool = False) -> None:
        """With `drop_queued`, `close` cancels the work that has not begun, instead of finishing it."""
        self._pool = ThreadPoolExecutor(count, thread_name_prefix=f"ottla-{name}")
        self._drop_queued = drop_queued

    def run(self, function: Callable[[], T]) -> asyncio.Future[T]:
        return asyncio.get_running_loop().run_in_executor(self._pool, function)

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=self._drop_queued)


class Pauses:
    """Called often by a thread that computes. It leaves half of the time to the event loop.

    A thread that computes holds Python's global lock, so the event loop waits meanwhile: for a millisecond at most, if
    the thread sleeps after each millisecond.
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
