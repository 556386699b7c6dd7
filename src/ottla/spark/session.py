"""Asynchronous client calls from Spark's threads and processes, which have no event loop."""

import asyncio
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

from ottla.client.client import Client
from ottla.spark.options import ReadOptions

T = TypeVar("T")


class Session:
    """A client with an event loop that runs only during a call to `run`. Not thread-safe."""

    def __init__(self, options: ReadOptions) -> None:
        self._runner = asyncio.Runner()
        self.client = Client(options.bootstrap, options.client)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        try:
            self._runner.run(self.client.close())
        finally:
            self._runner.close()
