"""Syncs a partition's log: as `flush.messages` and `flush.ms` require, and when an append waits for the sync."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.config.topic import NEVER_FLUSH
from ottla.log.storage import NoRoomError
from ottla.replication.group_commit import GroupCommit

if TYPE_CHECKING:
    from ottla.config.topic import TopicConfig
    from ottla.env.background import Background
    from ottla.env.clock import Clock, Timer
    from ottla.log.log import Log

logger = logging.getLogger("ottla.partition")

_SYNC_AGAIN_SECONDS = 1.0
"""The delay before the retry of a sync that failed because the disk was full."""


class Durability:
    """Syncs one log. Calls `on_synced` after each sync. Calls `on_failed` once, and then starts no more syncs.

    After a failed fsync it is unknown which records are on disk, so this process must not acknowledge any more appends.
    A sync that found no room for the checkpoint of leader epochs is retried.
    """

    __slots__ = (
        "_background",
        "_clock",
        "_flush_timer",
        "_group_commit",
        "_log",
        "_on_failed",
        "_on_synced",
        "_retry_timer",
        "_stopped",
        "synced_end",
    )

    def __init__(
        self,
        log: Log,
        clock: Clock,
        background: Background,
        on_synced: Callable[[], None],
        on_failed: Callable[[BaseException], None],
    ) -> None:
        self._log = log
        self._clock = clock
        self._background = background
        self._on_synced = on_synced
        self._on_failed = on_failed
        self._group_commit: GroupCommit | None = None
        self._flush_timer: Timer | None = None
        self._retry_timer: Timer | None = None
        self._stopped = False
        self.synced_end = log.recovery_point
        """Everything before this offset is on disk."""

    def configure(self, old: TopicConfig, new: TopicConfig) -> None:
        """Apply changed settings, also to records that are not synced yet."""
        if self._flush_timer is not None and new.flush_ms != old.flush_ms:
            self._flush_timer.cancel()
            self._flush_timer = None
        if self._log.unflushed_messages > 0:
            if new.syncs_before_visible and not old.syncs_before_visible:
                self.start_sync()
            self._set_flush_timer(new)

    def appended(self, config: TopicConfig) -> bool:
        """After an append, start a sync or the flush timer. Returns whether the append must wait for the sync."""
        if config.flush_messages == 1 or self._log.unflushed_messages >= config.flush_messages:
            self.start_sync()
            return True
        if config.syncs_before_visible and config.flush_ms >= NEVER_FLUSH:
            # No timer and no count would start the sync that makes the records visible.
            self.start_sync()
        else:
            self._set_flush_timer(config)
        return False

    def start_sync(self) -> None:
        """Sync all appended records in the background. If the disk was full, wait for the scheduled retry."""
        if self._stopped or self._retry_timer is not None:
            return
        if self._group_commit is None:
            self._group_commit = GroupCommit(self._log, self._background, self._synced, self._failed)
        self._group_commit.sync()

    def continue_with(self, log: Log) -> None:
        """From now on, sync another log: the copy of the first one in another directory."""
        if self._group_commit is not None:
            self._group_commit.stop()
            self._group_commit = None
        self._log = log
        self.synced_end = log.recovery_point

    def truncated(self) -> None:
        self.synced_end = max(min(self.synced_end, self._log.end_offset), self._log.log_start_offset)

    def stop(self) -> None:
        """Start no more syncs."""
        self._stopped = True
        for timer in (self._flush_timer, self._retry_timer):
            if timer is not None:
                timer.cancel()
        if self._group_commit is not None:
            self._group_commit.stop()

    def _set_flush_timer(self, config: TopicConfig) -> None:
        if self._flush_timer is None and config.flush_ms < NEVER_FLUSH:
            self._flush_timer = self._clock.call_later(config.flush_ms / 1000, self._flush_due)

    def _flush_due(self) -> None:
        self._flush_timer = None
        if self._log.unflushed_messages > 0:
            self.start_sync()

    def _synced(self, offset: int) -> None:
        self._log.synced(offset)
        self.synced_end = self._log.recovery_point
        self._on_synced()

    def _failed(self, error: BaseException) -> None:
        if isinstance(error, NoRoomError):
            logger.error("%s: %s; the sync will be retried", self._log, error)
            self._retry_timer = self._clock.call_later(_SYNC_AGAIN_SECONDS, self._retry)
            return
        self.stop()
        self._on_failed(error)

    def _retry(self) -> None:
        self._retry_timer = None
        self.start_sync()
