"""fsync shared by all who wait for it: what is appended while one sync runs is covered together by the next."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.env.background import Background
    from ottla.log.log import Log


class GroupCommit:
    """At most one sync of a log runs at a time, in a thread; at most one more is queued behind it."""

    __slots__ = ("_background", "_log", "_next", "_on_error", "_on_synced", "_running")

    def __init__(
        self,
        log: Log,
        background: Background,
        on_synced: Callable[[int], None],
        on_error: Callable[[OSError], None],
    ) -> None:
        self._log = log
        self._background = background
        self._on_synced = on_synced
        self._on_error = on_error
        self._next: asyncio.Future[None] | None = None
        self._running = False

    def sync(self) -> asyncio.Future[None]:
        """Completes when everything appended so far is on disk. The future is shared: wait for it, do not cancel it."""
        if self._next is None:
            loop = asyncio.get_running_loop()
            self._next = loop.create_future()
            if not self._running:
                # One turn later, so that the appends which arrived together are synced together.
                self._running = True
                loop.call_soon(self._start)
        return self._next

    def _start(self) -> None:
        batch, self._next = self._next, None
        assert batch is not None
        self._background.run(self._log.sync).add_done_callback(lambda work: self._finish(batch, work))

    def _finish(self, batch: asyncio.Future[None], work: asyncio.Future[int]) -> None:
        error = work.exception()
        if isinstance(error, OSError):
            self._on_error(error)
        elif error is not None:
            raise error
        else:
            self._on_synced(work.result())
        batch.set_result(None)
        if self._next is not None:
            self._start()
        else:
            self._running = False
