"""Periodic work on the logs: retention, compaction, checkpoints, expiring idle producers, deleting files."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.env.clock import period_seconds
from ottla.log.layout import HIGH_WATERMARKS, LOG_START_OFFSETS, RECOVERY_POINTS
from ottla.replication.cleaning import LogCleaner

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig
    from ottla.env.background import Background
    from ottla.env.clock import Clock, Timer
    from ottla.log.directory import LogDirectory
    from ottla.replication.partition import Partition
    from ottla.replication.replicas import Replicas

logger = logging.getLogger("ottla.housekeeping")

_SWEEP_SECONDS = 1.0


class Housekeeping:
    """Runs each chore at its own interval. The interval is read before each run, since it may change at run time."""

    def __init__(
        self, replicas: Replicas, clock: Clock, background: Background, config: Callable[[], BrokerConfig]
    ) -> None:
        self._replicas = replicas
        self._clock = clock
        self._background = background
        self._config = config
        self._timers: dict[str, Timer] = {}
        self._cleaner = LogCleaner(replicas, clock, background, config)
        self._sweeping: set[LogDirectory] = set()
        self._writing: set[tuple[LogDirectory, str]] = set()
        """Checkpoints that a thread is writing."""
        self._chores: dict[str, Callable[[], None]] = {
            "log.retention.check.interval.ms": self.retain,
            "log.flush.offset.checkpoint.interval.ms": self._checkpoint_recovery_points,
            "log.flush.start.offset.checkpoint.interval.ms": self._checkpoint_log_starts,
            "replica.high.watermark.checkpoint.interval.ms": self._checkpoint_high_watermarks,
            "producer.id.expiration.check.interval.ms": self._expire_producers,
        }

    def start(self) -> None:
        for interval in self._chores:
            self._schedule(interval)
        self._sweep()
        self._cleaner.start()

    def _sweep(self) -> None:
        """Remove the files of deleted segments and topics whose delay is over."""
        for directory in self._replicas.directories:
            if len(directory.trash) and directory not in self._sweeping:
                # One sweep at a time: the sweep of a large topic may take longer than the interval.
                self._sweeping.add(directory)
                self._background.run(directory.trash.sweep).add_done_callback(partial(self._swept, directory))
        self._timers["sweep"] = self._clock.call_later(_SWEEP_SECONDS, self._sweep)

    def _swept(self, directory: LogDirectory, work: asyncio.Future[int]) -> None:
        self._sweeping.discard(directory)
        _log_failure("the sweep of deleted files failed", work)

    def stop(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._cleaner.stop()

    def _schedule(self, interval: str) -> None:
        delay = period_seconds(self._config().integer(interval))
        self._timers[interval] = self._clock.call_later(delay, self._run, interval)

    def _run(self, interval: str) -> None:
        try:
            self._chores[interval]()
        except Exception:
            logger.exception("housekeeping (%s) failed, will retry", interval)
        self._schedule(interval)

    def retain(self) -> None:
        now_ms = self._clock.time_ms()
        for partition in self._replicas:
            try:
                self._retain(partition, now_ms)
            except OSError as error:
                logger.error("%s: retention failed, will retry: %s", partition, error)

    def _retain(self, partition: Partition, now_ms: int) -> None:
        removed = partition.log.retain(now_ms, partition.high_watermark)
        if removed:
            start = partition.log.log_start_offset
            logger.info("%s: retention removed %d segments; the log starts at offset %d", partition, removed, start)

    def _expire_producers(self) -> None:
        now_ms = self._clock.time_ms()
        for partition in self._replicas:
            partition.log.producers.expire(now_ms)

    def _checkpoint_recovery_points(self) -> None:
        """Sync logs with rolled segments or overdue records, and write the recovery points of earlier syncs."""
        for partition in self._replicas:
            if partition.log.sync_due:
                partition.start_sync()
        for directory in self._replicas.directories:
            self._write_checkpoint(directory, RECOVERY_POINTS, directory.checkpoint_recovery_points)

    def _checkpoint_log_starts(self) -> None:
        for directory in self._replicas.directories:
            self._write_checkpoint(directory, LOG_START_OFFSETS, directory.checkpoint_log_start_offsets)

    def _checkpoint_high_watermarks(self) -> None:
        for directory in self._replicas.directories:
            marks = {
                partition.topic_partition: partition.high_watermark
                for partition in self._replicas
                if partition.topic_partition in directory.logs
            }
            write = partial(directory.checkpoint_high_watermarks, marks)
            self._write_checkpoint(directory, HIGH_WATERMARKS, write)

    def _write_checkpoint(self, directory: LogDirectory, name: str, write: Callable[[], None]) -> None:
        """Write a checkpoint in a thread, unless the last write of it still runs, as it may on a slow disk."""
        if (directory, name) not in self._writing:
            self._writing.add((directory, name))
            self._background.run(write).add_done_callback(partial(self._written, directory, name))

    def _written(self, directory: LogDirectory, name: str, work: asyncio.Future[None]) -> None:
        self._writing.discard((directory, name))
        _log_failure("writing a checkpoint failed", work)


def _log_failure(what: str, work: asyncio.Future[Any]) -> None:
    error = work.exception()
    if error is not None:
        logger.error("%s, will retry: %s", what, error)
