"""One fsync for many appends: everything appended while one sync runs is covered by the next sync."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.log.storage import NoRoomError

if TYPE_CHECKING:
    from ottla.env.background import Background
    from ottla.log.log import Log


class GroupCommit:
    """At most one sync of a log runs at a time, in a thread. At most one more is scheduled after it.

    After a failed sync there are no more: the next sync could succeed although the failed one has lost data. A sync
    that found no room on the disk (NoRoomError) may be retried. The caller decides when.
    """

    __slots__ = ("_background", "_due", "_log", "_on_error", "_on_synced", "_running", "_stopped")

    def __init__(
        self,
        log: Log,
        background: Background,
        on_synced: Callable[[int], None],
        on_error: Callable[[BaseException], None],
    ) -> None:
        self._log = log
        self._background = background
        self._on_synced = on_synced
        self._on_error = on_error
        self._due = False
        self._running = False
        self._stopped = False

    def sync(self) -> None:
        """Sync everything appended so far, then call `on_synced` with the end offset that was covered."""
        if self._due:
            return
        self._due = True
        if not self._running:
            # The sync starts in the next iteration of the loop, so that it covers all appends of this iteration.
            asyncio.get_running_loop().call_soon(self._start)

    def stop(self) -> None:
        """Start no more syncs. The result of a running sync is ignored."""
        self._stopped = True

    def _start(self) -> None:
        if self._stopped:
            return
        self._due = False
        self._running = True
        self._background.run(self._log.sync).add_done_callback(self._finish)

    def _finish(self, work: asyncio.Future[int]) -> None:
        self._running = False
        error = work.exception()
        if self._stopped:
            return
        if error is not None:
            self._due, self._stopped = False, not isinstance(error, NoRoomError)
            self._on_error(error)
            return
        self._on_synced(work.result())
        if self._due:
            self._start()
