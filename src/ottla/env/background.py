"""Work that would block the event loop (fsync, cold reads, big deletions), run in threads."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

T = TypeVar("T")


class Background(Protocol):
    def run(self, function: Callable[[], T]) -> asyncio.Future[T]:
        """Run a blocking function elsewhere; the future completes on the event loop."""


class Workers(Background, Protocol):
    """Where the work is done. Whoever made them ends them."""

    def close(self) -> None: ...


class Threads:
    def __init__(self, count: int = 4) -> None:
        self._pool = ThreadPoolExecutor(count, thread_name_prefix="ottla-background")

    def run(self, function: Callable[[], T]) -> asyncio.Future[T]:
        return asyncio.get_running_loop().run_in_executor(self._pool, function)

    def close(self) -> None:
        self._pool.shutdown(wait=True)
