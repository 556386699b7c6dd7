"""One replica of a partition: the parts that leaders and followers share, and the follower's part. `Partition` adds the
leader's part.

Three parts do the work: `leadership` decides what is committed, `durability` syncs the log, and `appends` has the
appends that wait for either.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ottla.errors import ErrorCode, KafkaError
from ottla.replication.appends import WaitingAppends
from ottla.replication.durability import Durability
from ottla.replication.leadership import Leadership
from ottla.replication.log_settings import log_config
from ottla.replication.refusals import Refusals

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence

    from ottla.config.topic import TopicConfig
    from ottla.env.background import Background
    from ottla.env.clock import Clock
    from ottla.log.log import Log, LogRead
    from ottla.log.transaction_index import AbortedTransaction
    from ottla.model import TopicId, TopicPartition
    from ottla.records.header import BatchHeader
    from ottla.replication.waiting import DataWaiter

logger = logging.getLogger("ottla.partition")

_ALL = 1 << 31
"""More bytes than a segment can have."""


class Replica(Leadership):
    __slots__ = (
        "_appends",
        "_clock",
        "_durability",
        "_offline",
        "_refusals",
        "config",
        "follower_waiters",
        "log",
        "topic_id",
        "topic_partition",
        "waiters",
    )

    def __init__(
        self,
        topic_id: TopicId,
        log: Log,
        config: TopicConfig,
        clock: Clock,
        background: Background,
        high_watermark: int = 0,
    ) -> None:
        end = log.recovery_point if config.syncs_before_visible else log.end_offset
        super().__init__(max(min(high_watermark, end), log.log_start_offset), log.end_offset)
        self.topic_partition: TopicPartition = log.topic_partition
        self.topic_id = topic_id
        self.log = log
        self.config = config
        self.waiters: dict[DataWaiter, None] = {}
        """Fetches that wait for committed records, in the order of their arrival. They are woken in this order."""
        self.follower_waiters: dict[DataWaiter, None] = {}
        """Fetches of followers, which read up to the end of the log."""
        self._clock = clock
        self._appends = WaitingAppends(log.topic_partition, clock)
        self._durability = Durability(log, clock, background, self._on_synced, self._on_sync_failed)
        self._refusals = Refusals()
        self._offline = False

    def configure(self, config: TopicConfig) -> None:
        """Apply changed settings of the topic."""
        old, self.config = self.config, config
        self.log.config = log_config(config)
        self._durability.configure(old, config)
        if self.leads:
            self._commit()

    # Committing

    @property
    def _own_end(self) -> int:
        """The end of the part of the leader's log that may be committed: the log end, or the synced end if records must
        be synced before they become visible."""
        return self._durability.synced_end if self.config.syncs_before_visible else self.log.end_offset

    @property
    def in_sync_end(self) -> int:
        """The highest offset that all in-sync replicas have, regardless of `min.insync.replicas`. Never below the high
        watermark."""
        if not self.leads:
            return self.high_watermark
        return max(self.high_watermark, self.replicated_offset(self._own_end))

    def _commit(self) -> None:
        """Advance the high watermark to the lowest end of the in-sync replicas, and complete the appends it passes."""
        before, replicated = self.high_watermark, self.replicated_offset(self._own_end)
        if replicated > before and not self.is_under_min_isr(self.config.min_insync_replicas):
            self.commit_to(replicated, self.log.end_offset)
            if self.waiters:
                self._wake(self._size_between(before, replicated))
        if self._appends.queue:
            committed = self.high_watermark
            self._appends.complete(committed, self._durability.synced_end, max(committed, replicated))

    def _wake(self, size: int) -> None:
        for waiter in tuple(self.waiters):
            waiter.grew(size)

    def _size_between(self, start: int, end: int) -> int:
        """The bytes that become readable when the high watermark advances. If the log is damaged there, a large number,
        so that waiting fetches wake up and return the error."""
        size, offset = 0, max(start, self.log.log_start_offset)
        try:
            while offset < end and (found := self.log.read(offset, _ALL, end)).file is not None:
                size += found.size
                offset = found.next_offset
        except (KafkaError, OSError):
            return _ALL
        return size

    def _wait_for(
        self, end_offset: int, replication_timeout: float | None, *, must_sync: bool
    ) -> asyncio.Future[None] | None:
        """A future that completes when the append is replicated and synced as required; None if it already is."""
        synced = end_offset if must_sync and end_offset > self._durability.synced_end else 0
        if replication_timeout is not None and end_offset > self.high_watermark:
            return self._appends.add(end_offset, committed=end_offset, synced=synced, timeout=replication_timeout)
        return self._appends.add(end_offset, synced=synced) if synced else None

    # Following

    def ready_to_fetch(self) -> bool:
        """Whether this follower may fetch. A fetch tells the leader that everything up to the end of its log is stored.

        Starts a sync if records must be synced before: after a truncation that failed half-way, nothing else would.
        """
        if self._offline:
            return False
        if not self.config.syncs_before_visible or self.log.unflushed_messages <= 0:
            return True
        self.start_sync()
        return False

    def append_from_leader(
        self, batches: memoryview, headers: Sequence[BatchHeader], high_watermark: int
    ) -> asyncio.Future[None] | None:
        """As a follower, append batches of the leader unchanged. Raises KafkaError.

        If there is a future, the next fetch must wait for it.
        """
        if self._offline:
            raise self._offline_error()
        try:
            self.log.append_as_follower(batches, headers, self.high_watermark)
        except OSError as error:
            raise self._not_written(error) from error
        self.advance_as_follower(high_watermark)
        config = self.config
        if config.never_syncs:
            return None
        must_sync = self._durability.appended(config)
        if config.syncs_before_visible and not must_sync:
            # The leader waits for this follower. The waits for `flush.ms` on both brokers would add up.
            self.start_sync()
        return self._wait_for(self.log.end_offset, None, must_sync=must_sync or config.syncs_before_visible)

    def advance_as_follower(self, leader_high_watermark: int) -> None:
        """Advance the high watermark to the leader's. A lower one is ignored: a new leader may not know yet how much is
        committed."""
        before, high_watermark = self.high_watermark, min(leader_high_watermark, self.log.end_offset)
        if high_watermark > before:
            self.commit_to(high_watermark, self.log.end_offset)
            if self.waiters:
                # Consumers may read from followers (KIP-392).
                self._wake(self._size_between(before, high_watermark))

    def truncate_to(self, offset: int) -> None:
        """As a follower, drop the records that the leader does not have. Raises KafkaError, OSError."""
        self.log.truncate_to(offset)
        self.reset_high_watermark(min(self.high_watermark, self.log.end_offset))
        self._durability.truncated()

    def restart_at(self, offset: int) -> None:
        """As a follower, drop all records and continue at the leader's log start, after the end of this log."""
        self.log.truncate_fully(offset)
        self.reset_high_watermark(offset)
        self._durability.truncated()

    # Bringing to disk

    def start_sync(self) -> None:
        """Sync all appended records in the background."""
        self._durability.start_sync()

    def continue_with(self, log: Log) -> None:
        """Use a copy of the log, which has the same records in another directory, from now on."""
        log.config = self.log.config
        self.log = log
        self._durability.continue_with(log)
        if self._appends.queue or log.unflushed_messages:
            self.start_sync()

    def _sync_what_a_crash_left(self) -> None:
        """Records that a crash left unsynced must be synced before they become visible, and before a fetch tells the
        leader that they are stored. There may never be an append that would start the sync."""
        if self.config.syncs_before_visible and self.log.unflushed_messages > 0:
            self.start_sync()

    def _on_synced(self) -> None:
        if self.leads:
            self._commit()
        else:
            self._appends.complete(0, self._durability.synced_end, 0)

    def _on_sync_failed(self, error: BaseException) -> None:
        logger.error("%s: fsync failed (%s); the partition is offline until the broker restarts", self, error)
        self._go_offline(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"fsync failed: {error}"))

    def _not_written(self, error: OSError) -> KafkaError:
        logger.error("%s: %s; rejecting the append, stored records stay readable", self.topic_partition, error)
        self._refusals.note_failed_write(self.log.end_offset, self._clock.monotonic())
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"cannot write the log: {error}")

    # The end

    def close(self) -> None:
        """Stop serving, because the topic is deleted or the broker stops."""
        self._go_offline(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self} is no longer served here"))

    def _go_offline(self, error: KafkaError) -> None:
        self._offline = True
        self._durability.stop()
        self._fail_waiting(error)

    def _fail_waiting(self, error: KafkaError) -> None:
        """Fail the waiting appends, and let the waiting fetches read again."""
        self._appends.fail(error)
        for waiter in (*self.waiters, *self.follower_waiters):
            waiter.changed()

    @property
    def is_offline(self) -> bool:
        """Whether the replica is closed, or an fsync has failed. It then serves nothing."""
        return self._offline

    @property
    def can_be_written(self) -> bool:
        """False if the replica is offline, or if the last write failed, for example because the disk is full."""
        return not self._offline and not self._refusals.last_write_failed(self.log.end_offset)

    def _offline_error(self) -> KafkaError:
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.topic_partition} is offline")

    # Reading

    def read(self, offset: int, max_bytes: int) -> LogRead:
        """Committed records from an offset on, as a slice of a file. Raises KafkaError."""
        if self._offline:
            raise self._offline_error()
        return self.log.read(offset, max_bytes, self.high_watermark)

    def read_committed(self, offset: int, max_bytes: int) -> tuple[LogRead, list[AbortedTransaction]]:
        """Records below the last stable offset, and the aborted transactions that the consumer must skip."""
        if self._offline:
            raise self._offline_error()
        found = self.log.read(offset, max_bytes, self.last_stable_offset)
        if found.file is None:
            return found, []
        return found, self.log.aborted_transactions(offset, found.next_offset)

    def read_everything(self, offset: int, max_bytes: int) -> LogRead:
        """Records from an offset on, committed or not. Raises KafkaError."""
        if self._offline:
            raise self._offline_error()
        return self.log.read(offset, max_bytes, self.log.end_offset)

    @property
    def last_stable_offset(self) -> int:
        """The end offset for `read_committed` consumers."""
        return self.log.last_stable_offset(self.high_watermark)

    def delete_records_before(self, offset: int) -> int:
        """Advance the log start (-1: to the high watermark). Returns the new start."""
        if self._offline:
            raise self._offline_error()
        offset = self.high_watermark if offset == -1 else offset
        if not 0 <= offset <= self.high_watermark:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"the high watermark is {self.high_watermark}")
        self.log.delete_records_before(offset)
        return self.log.log_start_offset

    def __str__(self) -> str:
        return str(self.topic_partition)
