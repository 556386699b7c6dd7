"""One partition on the broker that leads it: append, commit, read.

The high watermark is where consumers stop reading. It is kept apart from the log's end offset: it follows the end at
once when this broker is the only replica, except under `flush.messages=1`, where nothing shows before it is synced.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from ottla.errors import ErrorCode, KafkaError
from ottla.model import NO_LEADER_EPOCH
from ottla.replication.group_commit import GroupCommit
from ottla.replication.intake import prepare
from ottla.replication.log_settings import log_config

if TYPE_CHECKING:
    from ottla.config.topic import TopicConfig
    from ottla.env.background import Background
    from ottla.env.clock import Clock, Timer
    from ottla.log.log import Log, LogRead
    from ottla.model import TopicId, TopicPartition
    from ottla.replication.waiting import DataWaiter

log = logging.getLogger("ottla.partition")


class Appended(NamedTuple):
    base_offset: int
    log_append_time: int
    log_start_offset: int
    wait: asyncio.Future[None] | None
    """When set, the append may be acknowledged only after this is done."""


class Partition:
    __slots__ = (
        "_background",
        "_clock",
        "_committing",
        "_flush_timer",
        "_group_commit",
        "_offline",
        "config",
        "high_watermark",
        "leader_epoch",
        "log",
        "topic_id",
        "topic_partition",
        "waiters",
    )

    def __init__(
        self,
        topic_id: TopicId,
        log_: Log,
        config: TopicConfig,
        leader_epoch: int,
        clock: Clock,
        background: Background,
    ) -> None:
        self.topic_partition: TopicPartition = log_.topic_partition
        self.topic_id = topic_id
        self.log = log_
        self.config = config
        self.waiters: set[DataWaiter] = set()
        self._clock = clock
        self._background = background
        self._group_commit: GroupCommit | None = None
        self._committing: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._flush_timer: Timer | None = None
        self._offline = False
        self.lead(leader_epoch)

    def lead(self, leader_epoch: int) -> None:
        """Become the leader of an epoch. The only in-sync replica is this one, so all it has is committed."""
        self.leader_epoch = leader_epoch
        self.log.assign_epoch(leader_epoch, self.log.end_offset)
        self.high_watermark = self.log.end_offset

    def configure(self, config: TopicConfig) -> None:
        """Take up changed settings of the topic; they hold from the next append on."""
        self.config = config
        self.log.config = log_config(config)

    def check_leader_epoch(self, epoch: int) -> None:
        """Refuse a client that knows an older or a newer leader than this one; -1 asks for no check (KIP-320)."""
        if epoch == NO_LEADER_EPOCH or epoch == self.leader_epoch:
            return
        if epoch < self.leader_epoch:
            raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
        raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH)

    def append(self, records: memoryview) -> Appended:
        """Append the batch of a Produce request. Raises KafkaError, with nothing appended."""
        self._check_online()
        config = self.config
        now_ms = self._clock.time_ms()
        batch, header = prepare(records, config, now_ms)
        try:
            result = self.log.append(batch, [header], self.leader_epoch)
        except OSError as error:
            log.error("%s: %s; the append is refused, what is stored stays readable", self.topic_partition, error)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"the log cannot be written: {error}") from error
        wait = None if result.duplicate else self._after_append(header.size)
        if result.duplicate and result.last_offset >= self.high_watermark:
            wait = self._committed(result.last_offset)
        time = now_ms if config.log_append_time else -1
        return Appended(result.base_offset, time, self.log.log_start_offset, wait)

    def _after_append(self, size: int) -> asyncio.Future[None] | None:
        """Commit what was appended, or start what commits it. The future is the appender's own."""
        end = self.log.end_offset
        if self.log.unflushed_messages >= self.config.flush_messages:
            if self.config.flush_messages > 1:
                self._advance(end, size)
            future = asyncio.get_running_loop().create_future()
            self._committing.append((end, future))
            self._sync()
            return future
        self._advance(end, size)
        if self._flush_timer is None and self.config.flush_ms < 1 << 53:
            self._flush_timer = self._clock.call_later(self.config.flush_ms / 1000, self._flush_due)
        return None

    def _committed(self, offset: int) -> asyncio.Future[None]:
        future = asyncio.get_running_loop().create_future()
        self._committing.append((offset + 1, future))
        return future

    def _advance(self, high_watermark: int, size: int) -> None:
        self.high_watermark = high_watermark
        if self.waiters:
            for waiter in tuple(self.waiters):
                waiter.grew(size)

    def _sync(self) -> asyncio.Future[None]:
        if self._group_commit is None:
            self._group_commit = GroupCommit(self.log, self._background, self._synced, self._sync_failed)
        return self._group_commit.sync()

    def _synced(self, offset: int) -> None:
        self.log.synced(offset)
        if offset > self.high_watermark:
            self._advance(offset, max(1, self.log.size()))
        while self._committing and self._committing[0][0] <= offset:
            future = self._committing.popleft()[1]
            if not future.done():
                future.set_result(None)

    def _sync_failed(self, error: OSError) -> None:
        """A failed fsync leaves unknown what is on disk: nothing more may be acknowledged by this process."""
        log.error("%s: fsync failed (%s); the partition is offline until the broker restarts", self, error)
        self._offline = True
        refusal = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"fsync failed: {error}")
        while self._committing:
            future = self._committing.popleft()[1]
            if not future.done():
                future.set_exception(refusal)

    def _flush_due(self) -> None:
        self._flush_timer = None
        if self.log.unflushed_messages:
            self._sync()

    def start_sync(self) -> None:
        """Bring to disk what was appended so far, in the background."""
        self._sync()

    def read(self, offset: int, max_bytes: int) -> LogRead:
        """Committed records from an offset on, as a slice of a file. Raises KafkaError."""
        self._check_online()
        return self.log.read(offset, max_bytes, self.high_watermark)

    def delete_records_before(self, offset: int) -> int:
        """Move the log start (-1: to the high watermark). Returns the new start."""
        self._check_online()
        offset = self.high_watermark if offset == -1 else offset
        if not 0 <= offset <= self.high_watermark:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"the high watermark is {self.high_watermark}")
        self.log.delete_records_before(offset)
        return self.log.log_start_offset

    def close(self) -> None:
        """Stop serving: whoever waits for data looks again and finds the partition gone."""
        if self._flush_timer is not None:
            self._flush_timer.cancel()
        self._offline = True
        for waiter in tuple(self.waiters):
            waiter.changed()

    def _check_online(self) -> None:
        if self._offline:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.topic_partition} is offline")

    def __str__(self) -> str:
        return str(self.topic_partition)
