"""The state of a log, and how it gets to disk. `Log` adds appending, reading and truncation."""

from __future__ import annotations

import contextlib
import errno
import threading
from typing import TYPE_CHECKING

from ottla.log.close_preparation import ClosePreparation
from ottla.log.layout import LEADER_EPOCHS, PARTITION_METADATA
from ottla.log.segments import Segments
from ottla.log.storage import NoRoomError, sync_file

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ottla.log.config import LogConfig
    from ottla.log.epochs import LeaderEpochs
    from ottla.log.producers import Producers
    from ottla.log.segment import Segment
    from ottla.log.snapshot import Snapshots
    from ottla.log.storage import Storage

_NO_SYNC_LIMIT = 2**63 - 1
TOUCHED = -1
_PREPARED = -2
"""The log is prepared for its close, and was not truncated since."""


class DurableLog:
    __slots__ = (
        "_closed",
        "_directory_changed",
        "_is_new",
        "_one_sync",
        "_rolled",
        "_segments",
        "_storage",
        "_sync_limit",
        "_syncing",
        "_untouched_end",
        "config",
        "end_offset",
        "epochs",
        "fsync_failed",
        "last_flush_ms",
        "log_start_offset",
        "path",
        "producers",
        "recovery_point",
        "snapshots",
    )

    def __init__(
        self,
        storage: Storage,
        path: str,
        config: LogConfig,
        segments: list[Segment],
        *,
        end_offset: int,
        log_start_offset: int,
        recovery_point: int,
        epochs: LeaderEpochs,
        producers: Producers,
        snapshots: Snapshots,
        unsynced: Iterable[Segment],
        untouched: bool,
        new: bool,
    ) -> None:
        self.path = path
        self.config = config
        self.end_offset = end_offset
        self.log_start_offset = log_start_offset
        self.recovery_point = recovery_point
        self.last_flush_ms = _steady_ms(storage)
        self.epochs = epochs
        self.producers = producers
        self.snapshots = snapshots
        self._storage = storage
        self._segments = Segments(segments)
        self._closed = False
        self._rolled = [segment for segment in unsynced if segment is not segments[-1]]
        self._syncing: tuple[Segment, ...] = ()
        self._one_sync = threading.Lock()
        self._sync_limit = _NO_SYNC_LIMIT
        self._directory_changed = True
        self._is_new = new
        self._untouched_end = end_offset if untouched else TOUCHED
        self.fsync_failed = False
        """A sync failed, or a rename that must not. The kernel may have dropped what it could not write and report
        success from then on, so only reading the log again, after a restart, tells what is on disk."""

    @property
    def unflushed_messages(self) -> int:
        return self.end_offset - max(self.recovery_point, self.log_start_offset)

    @property
    def sync_due(self) -> bool:
        """Whether `flush.messages`, `flush.ms` or a roll asks for a sync."""
        if self._rolled:
            return True
        unflushed = self.unflushed_messages
        if unflushed <= 0:
            return False
        waited = _steady_ms(self._storage) - self.last_flush_ms
        return unflushed >= self.config.flush_messages or waited >= self.config.flush_ms

    def sync(self) -> int:
        """Bring to disk all that was appended so far. Returns the end offset that was covered, for `synced`.

        Blocking: made to run in a thread while the loop goes on, one call at a time. What is appended meanwhile is not
        counted. The end offset is read first, then the active segment, then the rolled ones, so that no roll in between
        can hide one. Raises NoRoomError when that could not be done, and nothing is lost that was there before.
        """
        try:
            with self._one_sync:
                return self._sync()
        except NoRoomError:
            raise
        except OSError:
            self.fsync_failed = True
            raise

    def _save_epochs(self, end_offset: int) -> None:
        try:
            self.epochs.save(self._storage.disk, f"{self.path}/{LEADER_EPOCHS}", end_offset)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            raise NoRoomError(error.errno, error.strerror) from error

    def _sync(self) -> int:
        self._sync_limit = _NO_SYNC_LIMIT
        end_offset = self.end_offset
        active = self._segments.active
        rolled = self._syncing = tuple(self._rolled)
        # A file may vanish meanwhile: retention needs it no longer, and a truncation limits what `synced` believes.
        for segment in rolled:
            with contextlib.suppress(FileNotFoundError):
                segment.sync()
                segment.sync_indexes()
        with contextlib.suppress(FileNotFoundError):
            active.sync()
        try:
            self._sync_directory(end_offset)
        except FileNotFoundError:
            if not self._closed:  # The partition may have been deleted meanwhile.
                raise
        return end_offset

    def _sync_directory(self, end_offset: int) -> None:
        disk = self._storage.disk
        self._save_epochs(end_offset)
        if self._directory_changed:
            self._directory_changed = False
            disk.sync_directory(self.path)
        if self._is_new:
            sync_file(disk, f"{self.path}/{PARTITION_METADATA}")
            disk.sync_directory(self.path.rpartition("/")[0])
            self._is_new = False

    def synced(self, offset: int) -> None:
        """Back on the loop: everything below the offset that `sync` returned is on disk now."""
        self._rolled = [segment for segment in self._rolled if segment not in self._syncing]
        self._syncing = ()
        self.recovery_point = max(self.recovery_point, min(offset, self._sync_limit))
        self.last_flush_ms = _steady_ms(self._storage)

    def prepare_to_close(self) -> ClosePreparation | None:
        """Write all that a clean close writes. The caller runs the preparation's `sync`, which blocks, in a thread
        perhaps, and then calls `finish_preparation`. None if there is nothing to do.

        The log may be used meanwhile. Raises OSError.
        """
        if self.fsync_failed or self._untouched_end == self.end_offset:
            return None
        active = self._segments.active
        active.seal()
        if len(self.producers) or self.snapshots:
            self.snapshots.take(self.end_offset, self.producers.active())
            self._directory_changed = True
        self._untouched_end = _PREPARED
        return ClosePreparation(self, active)

    def finish_preparation(self, preparation: ClosePreparation) -> None:
        """If nothing was appended, truncated or rolled meanwhile, the log can be closed without another sync."""
        self.synced(preparation.synced_end)
        same_end = preparation.end_offset == preparation.synced_end == self.end_offset
        same_segment = preparation.active is self._segments.active and not self._rolled
        if same_end and same_segment and self._untouched_end == _PREPARED:
            self._untouched_end = self.end_offset


def _steady_ms(storage: Storage) -> int:
    return int(storage.clock.monotonic() * 1000)
