"""Schedules compaction: one partition at a time, the one with the highest dirty ratio first."""

from __future__ import annotations

import asyncio
import logging
import time
from functools import partial
from typing import TYPE_CHECKING

from ottla.env.clock import period_seconds
from ottla.log.cleaning import CleaningVoidError
from ottla.log.scan import DamagedBatch
from ottla.records.invalid import InvalidBatch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ottla.config.broker import BrokerConfig
    from ottla.env.background import Background
    from ottla.env.clock import Clock, Timer
    from ottla.log.cleanable import Cleanable
    from ottla.log.cleaning import Cleaning, Source
    from ottla.log.directory import LogDirectory
    from ottla.log.log import Log
    from ottla.replication.partition import Partition
    from ottla.replication.replicas import Replicas

logger = logging.getLogger("ottla.cleaner")

_SLICE_SECONDS = 0.001
"""While the thread computes, the event loop waits. The thread computes for this long at most, then sleeps as long."""

_LONGEST_SLEEP_SECONDS = 0.5


class LogCleaner:
    def __init__(
        self,
        replicas: Replicas,
        clock: Clock,
        background: Background,
        config: Callable[[], BrokerConfig],
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._replicas = replicas
        self._clock = clock
        self._background = background
        self._config = config
        self._sleep = sleep
        self._timer: Timer | None = None
        self._work: asyncio.Task[None] | None = None
        self._stopped = False
        self._uncleanable: set[Log] = set()
        """Damaged logs, which are not compacted until a restart has checked them."""

    def start(self) -> None:
        if self._config().boolean("log.cleaner.enable"):
            self._schedule()

    def stop(self) -> None:
        """End the running pass. Its thread notices, and deletes its files. Otherwise the next start deletes them."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def _schedule(self, delay: float | None = None) -> None:
        if not self._stopped:
            seconds = period_seconds(self._config().integer("log.cleaner.backoff.ms")) if delay is None else delay
            self._timer = self._clock.call_later(seconds, self._start_next_pass)

    def _start_next_pass(self) -> None:
        found = self._find_dirtiest()
        if found is None:
            self._schedule()
        else:
            self._work = asyncio.get_running_loop().create_task(self._clean(*found))

    def _find_dirtiest(self) -> tuple[Partition, Cleanable] | None:
        now_ms = self._clock.time_ms()
        found: tuple[Partition, Cleanable] | None = None
        for partition in self._replicas:
            log = partition.log
            if not log.config.compact or log.fsync_failed or log in self._uncleanable:
                continue
            try:
                cleanable = self._cleanable(partition, now_ms)
            except Exception as error:
                self._failed(partition, error)
                continue
            if cleanable.is_due(log.config) and (found is None or cleanable.dirty_ratio > found[1].dirty_ratio):
                found = partition, cleanable
        return found

    def _cleanable(self, partition: Partition, now_ms: int) -> Cleanable:
        log, high_watermark = partition.log, partition.high_watermark
        cleanable = log.compaction.cleanable(now_ms, high_watermark)
        if not cleanable.is_due(log.config):
            after_sync = log.compaction.cleanable_after_sync(now_ms, high_watermark)
            if after_sync.is_due(log.config):
                partition.start_sync()
        return cleanable

    async def _clean(self, partition: Partition, cleanable: Cleanable) -> None:
        """Run one pass over a partition, then schedule the next: at once, if this pass compacted anything."""
        delay: float | None = None
        compaction = partition.log.compaction
        generation = compaction.generation
        try:
            await self._run(partition, cleanable)
            delay = 0 if compaction.cleaned_offset > cleanable.first_dirty_offset else None
        except CleaningVoidError:
            logger.debug("%s was truncated, closed or moved while it was compacted", partition)
        except Exception as error:
            # Errors are ignored if the log was truncated meanwhile: the thread may have read arbitrary bytes.
            if generation == compaction.generation:
                self._failed(partition, error)
        self._schedule(delay)

    def _failed(self, partition: Partition, error: Exception) -> None:
        if isinstance(error, DamagedBatch | InvalidBatch | OverflowError):
            logger.error("%s will not be compacted until the broker restarts: %s", partition, error)
            self._uncleanable = self._uncleanable & {each.log for each in self._replicas} | {partition.log}
        else:
            logger.error("%s: compaction failed, will retry: %s", partition, error, exc_info=error)

    async def _run(self, partition: Partition, cleanable: Cleanable) -> None:
        log, config = partition.log, self._config()
        compaction = log.compaction
        directory = self._directory_of(log)
        memory = config.integer("log.cleaner.dedupe.buffer.size") * config.double("log.cleaner.io.buffer.load.factor")
        is_void = partial(self._is_void, log, compaction.generation)
        rest = Rest(self._clock, self._sleep, config.double("log.cleaner.io.max.bytes.per.second"), is_void)
        size = log.size()
        cleaning = compaction.start(cleanable, self._clock.time_ms(), int(memory), rest)
        # Recovery reads leader epochs from segments past the recovery point. Compacted segments may lack the first
        # batch of an epoch, so the recovery point is written before.
        await self._background.run(directory.checkpoint_recovery_points)
        await self._prepare(cleaning, log)
        for group in cleaning.groups:
            await self._clean_group(cleaning, group, log)
        compaction.finish(cleaning)
        await self._background.run(partial(directory.checkpoint_cleaned_offsets, log))
        logger.info(
            "%s: compacted up to offset %d, with %d keys; %d bytes of %d are left",
            partition,
            compaction.cleaned_offset,
            len(cleaning.offsets),
            log.size(),
            size,
        )

    async def _prepare(self, cleaning: Cleaning, log: Log) -> None:
        try:
            await self._background.run(cleaning.prepare)
        except FileNotFoundError as error:
            if log.compaction.holds(cleaning.log.sources):
                raise
            raise CleaningVoidError from error

    async def _clean_group(self, cleaning: Cleaning, group: Sequence[Source], log: Log) -> None:
        """Compact one group of segments, unless retention has removed one of them meanwhile."""
        if not log.compaction.holds(group):
            return
        try:
            cleaned = await self._background.run(partial(cleaning.clean, group))
        except FileNotFoundError:
            if log.compaction.holds(group):
                raise
            return
        if cleaned is not None:
            log.compaction.swap(cleaned)

    def _directory_of(self, log: Log) -> LogDirectory:
        return next(each for each in self._replicas.directories if each.logs.get(log.topic_partition) is log)

    def _is_void(self, log: Log, generation: int) -> bool:
        return self._stopped or log.compaction.generation != generation


class Rest:
    """Limits the CPU time and the bytes per second of a pass. The pass calls it for every batch, in its thread."""

    def __init__(
        self,
        clock: Clock,
        sleep: Callable[[float], None],
        bytes_per_second: float,
        is_void: Callable[[], bool],
    ) -> None:
        self._clock = clock
        self._sleep = sleep
        self._bytes_per_second = bytes_per_second
        self._is_void = is_void
        self._begun = self._slept_at = clock.monotonic()
        self._bytes = 0

    def __call__(self, size: int) -> None:
        """Raises CleaningVoidError."""
        self._bytes += size
        earliest = self._begun + self._bytes / self._bytes_per_second
        now = self._clock.monotonic()
        wait = now - self._slept_at
        if wait < _SLICE_SECONDS:
            wait = 0.0
        while not self._is_void():
            wait = max(wait, min(earliest - now, _LONGEST_SLEEP_SECONDS))
            if wait <= 0:
                return
            self._sleep(wait)
            now = self._slept_at = self._clock.monotonic()
            wait = 0.0
        raise CleaningVoidError
