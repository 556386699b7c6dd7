"""One log directory: the lock on it, its identity, its partitions and the checkpoints they share."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from ottla.log.checkpoint import DamagedCheckpoint, read_offsets, write_offsets
from ottla.log.layout import (
    CLEAN_SHUTDOWN,
    CLEANED_OFFSETS,
    DELETED_DIRECTORY_SUFFIX,
    FUTURE_DIRECTORY_SUFFIX,
    HIGH_WATERMARKS,
    LOCK,
    LOG_START_OFFSETS,
    META_PROPERTIES,
    RECOVERY_POINTS,
    deleted_directory_name,
    future_directory_name,
    parse_future_directory,
    parse_partition_directory,
)
from ottla.log.properties import DirectoryIdentity, read_identity, read_topic_id, write_identity, write_topic_id
from ottla.log.recovery import create_log, open_log
from ottla.log.storage import OpenFiles, Storage
from ottla.log.trash import Trash
from ottla.model import TopicId, format_topic_id, new_topic_id

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ottla.env.clock import Clock
    from ottla.env.disk import Disk
    from ottla.log.config import LogConfig
    from ottla.log.log import Log
    from ottla.model import TopicPartition

logger = logging.getLogger("ottla.log")

_DAY_MS = 24 * 60 * 60 * 1000
_PROGRESS_SECONDS = 5.0
_CLOSING_THREADS = 16
_CLEAN_SHUTDOWN_CONTENT = b'{"version":0,"brokerEpoch":-1}'


class LogDirectoryError(Exception):
    """The directory cannot be used. The message is one sentence for the operator."""


class LogDirectory:
    """`logs` holds every partition of the directory."""

    def __init__(
        self, storage: Storage, path: str, identity: DirectoryIdentity, random_bytes: Callable[[int], bytes]
    ) -> None:
        self.path = path
        self.identity = identity
        self.logs: dict[TopicPartition, Log] = {}
        self.future_logs: dict[TopicPartition, Log] = {}
        """Copies of partitions that are being moved from another log directory to this one."""
        self.interrupted_moves: list[TopicPartition] = []
        """Partitions whose move to this directory was not complete when the broker stopped."""
        self.trash = storage.trash
        self._storage = storage
        self._lock = contextlib.ExitStack()
        self._random_bytes = random_bytes
        self._checkpoint_lock = threading.Lock()
        """The event loop and a thread may write checkpoints at the same time. The later write must have newer data."""
        self._checkpoints: dict[str, dict[TopicPartition, int]] = {}
        """The contents of the checkpoint files, by file name."""

    @classmethod
    def open(
        cls,
        disk: Disk,
        clock: Clock,
        path: str,
        *,
        cluster_id: str,
        node_id: int,
        config_of: Callable[[str], LogConfig],
        producer_id_expiration_ms: int = _DAY_MS,
        max_open_files: int = 512,
        random_bytes: Callable[[int], bytes] = os.urandom,
    ) -> LogDirectory:
        """Create the directory or open all logs in it; `config_of` returns a topic's settings. Blocking.

        Raises LogDirectoryError.
        """
        path = path.rstrip("/") or "/"
        with contextlib.ExitStack() as lock:
            _lock(disk, path, lock)
            try:
                identity = _identify(disk, path, cluster_id, node_id, random_bytes)
                storage = Storage(disk, clock, OpenFiles(max_open_files), Trash(disk, clock), producer_id_expiration_ms)
                directory = cls(storage, path, identity, random_bytes)
                directory._load(config_of)
            except OSError as error:
                raise LogDirectoryError(f"log directory {path} cannot be used: {error}") from error
            directory._lock = lock.pop_all()
        return directory

    def _load(self, config_of: Callable[[str], LogConfig]) -> None:
        disk, clock = self._storage.disk, self._storage.clock
        clean = disk.exists(f"{self.path}/{CLEAN_SHUTDOWN}")
        recovery_points = self._read_checkpoint(RECOVERY_POINTS)
        start_offsets = self._read_checkpoint(LOG_START_OFFSETS)
        cleaned_offsets = self._read_checkpoint(CLEANED_OFFSETS)
        self._read_checkpoint(HIGH_WATERMARKS)
        if clean:
            # The removal must be on disk before the first append. Otherwise a later crash would look like a clean stop.
            disk.remove(f"{self.path}/{CLEAN_SHUTDOWN}")
            disk.sync_directory(self.path)
        partitions = self._find_partitions()
        if partitions and not clean:
            logger.warning("%s was not closed cleanly; checking the ends of %d logs", self.path, len(partitions))
        reported = clock.monotonic()
        for topic_partition, name in partitions:
            log = open_log(
                self._storage,
                topic_partition,
                f"{self.path}/{name}",
                config_of(topic_partition.topic),
                recovery_point=recovery_points.get(topic_partition, 0),
                log_start_offset=start_offsets.get(topic_partition, 0),
                clean=clean,
            )
            cleaned_offset = cleaned_offsets.get(topic_partition, 0)
            # An offset past the end of the log is stale: new records will be written there.
            log.compaction.cleaned_offset = cleaned_offset if cleaned_offset <= log.end_offset else 0
            self._add(log)
            if clock.monotonic() - reported > _PROGRESS_SECONDS:
                reported = clock.monotonic()
                logger.info("%s: %d of %d logs are open", self.path, len(self.logs), len(partitions))
        # Checkpoints must not cover records that a crash has lost, because other records will get their offsets.
        self._lower_checkpoints()

    def _find_partitions(self) -> list[tuple[TopicPartition, str]]:
        disk = self._storage.disk
        partitions = []
        for name in disk.list(self.path):
            topic_partition = parse_partition_directory(name)
            if name.endswith(DELETED_DIRECTORY_SUFFIX):
                self.trash.add(f"{self.path}/{name}", 0, tree=True)
            elif name.endswith(FUTURE_DIRECTORY_SUFFIX):
                self._clear_interrupted_move(name)
            elif topic_partition is not None:
                partitions.append((topic_partition, name))
        return partitions

    def _clear_interrupted_move(self, name: str) -> None:
        """Delete the partial copy. It may no longer match the log, so the move starts over."""
        self.trash.add(f"{self.path}/{name}", 0, tree=True)
        topic_partition = parse_future_directory(name)
        if topic_partition is not None:
            self.interrupted_moves.append(topic_partition)

    def _add(self, log: Log) -> None:
        log.before_truncation(self._lower_checkpoints)
        self.logs[log.topic_partition] = log

    # Partitions

    def create_log(self, topic_partition: TopicPartition, topic_id: TopicId, config: LogConfig) -> Log:
        """Create an empty log. Raises LogDirectoryError if the log exists already, OSError if the disk fails."""
        if topic_partition in self.logs:
            raise LogDirectoryError(f"{topic_partition} exists already in {self.path}")
        self._forget_checkpoints(topic_partition)
        log = self._create(str(topic_partition), topic_partition, topic_id, config)
        self._add(log)
        return log

    def _create(self, name: str, topic_partition: TopicPartition, topic_id: TopicId, config: LogConfig) -> Log:
        path = f"{self.path}/{name}"
        disk = self._storage.disk
        try:
            disk.make_directory(path)
            write_topic_id(disk, path, topic_id)
            return create_log(self._storage, topic_partition, path, config)
        except OSError:
            with contextlib.suppress(OSError):
                disk.remove_tree(path)
            raise

    def create_future_log(self, topic_partition: TopicPartition, topic_id: TopicId, config: LogConfig) -> Log:
        """Create an empty log to copy a partition into. Raises OSError."""
        name = future_directory_name(topic_partition, new_topic_id(self._random_bytes(16)))
        log = self.future_logs[topic_partition] = self._create(name, topic_partition, topic_id, config)
        return log

    def promote_future_log(self, topic_partition: TopicPartition) -> Log:
        """Make the copy the partition's log in this directory. Blocking; short if the copy was synced before."""
        future = self.future_logs.pop(topic_partition)
        future.close(clean=True)
        self._forget_checkpoints(topic_partition)
        path = f"{self.path}/{topic_partition}"
        self._storage.disk.rename(future.path, path)
        self._storage.disk.sync_directory(self.path)
        log = open_log(
            self._storage,
            topic_partition,
            path,
            future.config,
            recovery_point=future.recovery_point,
            log_start_offset=future.log_start_offset,
            clean=True,
        )
        self._add(log)
        return log

    def drop_future_log(self, topic_partition: TopicPartition) -> None:
        self._throw_away(self.future_logs.pop(topic_partition), 0)

    def topic_id(self, topic_partition: TopicPartition) -> TopicId | None:
        """The topic id stored with a partition, read from its file; None if there is none."""
        return read_topic_id(self._storage.disk, self.logs[topic_partition].path)

    def delete_log(self, topic_partition: TopicPartition) -> None:
        """Remove a partition at once. `trash.sweep` deletes its files after `file.delete.delay.ms`."""
        log = self.logs.pop(topic_partition)
        self._throw_away(log, log.config.file_delete_delay_ms)

    def hand_over(self, topic_partition: TopicPartition) -> None:
        """Delete a partition that was moved to another directory. Synced, so a crash does not bring it back."""
        self.delete_log(topic_partition)
        self._storage.disk.sync_directory(self.path)

    def _throw_away(self, log: Log, delay_ms: int) -> None:
        log.close(clean=False)
        name = deleted_directory_name(log.topic_partition, new_topic_id(self._random_bytes(16)))
        self._storage.disk.rename(log.path, f"{self.path}/{name}")
        self.trash.add(f"{self.path}/{name}", delay_ms, tree=True)

    # Checkpoints. All of them block and may run in a thread. Each collects its offsets only after it has taken the
    # lock, so none overwrites newer offsets. `list(logs)` is one step, because the event loop may change `logs`.

    def checkpoint_recovery_points(self) -> None:
        self._checkpoint(
            RECOVERY_POINTS, lambda: {log.topic_partition: log.recovery_point for log in list(self.logs.values())}
        )

    def checkpoint_log_start_offsets(self) -> None:
        """Write the log starts that lie within a segment. The other starts are base offsets of segments."""
        self._checkpoint(
            LOG_START_OFFSETS,
            lambda: {
                log.topic_partition: log.log_start_offset
                for log in list(self.logs.values())
                if log.starts_within_segment
            },
        )

    def checkpoint_cleaned_offsets(self, compacted: Log | None = None) -> None:
        """Write how far logs are compacted. The renames of the log that was just compacted are synced first."""
        if compacted is not None:
            self._storage.disk.sync_directory(compacted.path)
        self._checkpoint(
            CLEANED_OFFSETS,
            lambda: {
                log.topic_partition: log.compaction.cleaned_offset
                for log in list(self.logs.values())
                if log.compaction.cleaned_offset > 0
            },
        )

    def checkpoint_high_watermarks(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Write the high watermarks of those partitions that are in this directory."""
        self._checkpoint(
            HIGH_WATERMARKS, lambda: {key: mark for key, mark in high_watermarks.items() if key in self.logs}
        )

    def read_high_watermarks(self) -> dict[TopicPartition, int]:
        """The high watermarks of the last checkpoint."""
        return dict(self._checkpoints[HIGH_WATERMARKS])

    def _lower_checkpoints(self) -> None:
        self.checkpoint_recovery_points()
        self.checkpoint_log_start_offsets()
        self.checkpoint_cleaned_offsets()

    def _checkpoint(self, name: str, current: Callable[[], dict[TopicPartition, int]]) -> None:
        with self._checkpoint_lock:
            offsets = current()
            if offsets != self._checkpoints[name]:
                write_offsets(self._storage.disk, f"{self.path}/{name}", offsets)
                self._checkpoints[name] = offsets

    def _read_checkpoint(self, name: str) -> dict[TopicPartition, int]:
        path = f"{self.path}/{name}"
        try:
            offsets = read_offsets(self._storage.disk, path)
        except DamagedCheckpoint as error:
            logger.error("ignoring %s, which is damaged: %s", path, error)
            offsets = {}
        self._checkpoints[name] = offsets
        return offsets

    def _forget_checkpoints(self, topic_partition: TopicPartition) -> None:
        """A new partition must not inherit the checkpoints of a deleted partition with the same name."""
        if any(topic_partition in offsets for offsets in self._checkpoints.values()):
            self._lower_checkpoints()
            self.checkpoint_high_watermarks(self.read_high_watermarks())

    @property
    def absolute_path(self) -> str:
        """The path that clients see."""
        return os.path.abspath(self.path)

    def usage(self) -> tuple[int, int]:
        """Total and free bytes of the volume."""
        return self._storage.disk.usage(self.path)

    def close(self) -> None:
        """Close every log cleanly and write the clean-shutdown marker. Blocking; no thread may use the directory."""
        try:
            # Closing mostly waits for syncs, and a file system can do many syncs at once.
            with ThreadPoolExecutor(_CLOSING_THREADS) as threads:
                for _ in threads.map(lambda log: log.close(clean=True), self.logs.values()):
                    pass
            self.checkpoint_recovery_points()
            self.checkpoint_log_start_offsets()
            if any(log.fsync_failed for log in self.logs.values()):
                logger.warning("%s is not marked as closed cleanly, because a sync has failed", self.path)
            else:
                self._storage.disk.replace_bytes(f"{self.path}/{CLEAN_SHUTDOWN}", _CLEAN_SHUTDOWN_CONTENT)
        finally:
            for log in self.future_logs.values():
                log.close(clean=False)
            self.future_logs.clear()
            self.logs.clear()
            self._lock.close()


def _lock(disk: Disk, path: str, lock: contextlib.ExitStack) -> None:
    try:
        if not disk.exists(path):
            disk.make_directory(path)
            disk.sync_directory(os.path.dirname(path))
        lock.enter_context(disk.lock(f"{path}/{LOCK}"))
    except BlockingIOError:
        raise LogDirectoryError(f"log directory {path} is in use by another process") from None
    except OSError as error:
        raise LogDirectoryError(f"log directory {path} cannot be written: {error.strerror or error}") from error


def _identify(
    disk: Disk, path: str, cluster_id: str, node_id: int, random_bytes: Callable[[int], bytes]
) -> DirectoryIdentity:
    """Read the identity of the directory, or write it. Raises LogDirectoryError if it belongs to another broker."""
    try:
        stored = read_identity(disk, path)
    except ValueError as error:
        raise LogDirectoryError(f"{path}/{META_PROPERTIES} cannot be parsed: {error}") from error
    if stored is not None:
        if stored.cluster_id is not None and stored.cluster_id != cluster_id:
            raise LogDirectoryError(
                f"log directory {path} belongs to cluster {stored.cluster_id}, but this broker is in {cluster_id}"
            )
        if stored.node_id is not None and stored.node_id != node_id:
            raise LogDirectoryError(f"log directory {path} belongs to broker {stored.node_id}, not to {node_id}")
    directory_id = stored.directory_id if stored is not None else None
    identity = DirectoryIdentity(cluster_id, node_id, directory_id or format_topic_id(new_topic_id(random_bytes(16))))
    if identity != stored:
        write_identity(disk, path, identity)
    return identity
