"""Syncs a log before it is closed, so that the clean close itself has little to wait for."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.log.durable_log import DurableLog
    from ottla.log.segment import Segment


class ClosePreparation:
    """The syncs that a clean close needs."""

    __slots__ = ("_log", "active", "end_offset", "synced_end")

    def __init__(self, log: DurableLog, active: Segment) -> None:
        self._log = log
        self.active = active
        self.end_offset = log.end_offset
        """The end of the log when its indexes were completed."""
        self.synced_end = log.recovery_point

    def sync(self) -> None:
        """Blocking: may run in a thread. After a failure it is unknown which records are on disk."""
        self.synced_end = self._log.sync()
        try:
            with contextlib.suppress(FileNotFoundError):  # The log may have been moved or deleted meanwhile.
                self.active.sync_indexes()
        except OSError:
            self._log.fsync_failed = True
            raise
