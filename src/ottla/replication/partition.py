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
from ottla.model import NO_LEADER_EPOCH, NO_TIMESTAMP
from ottla.records.control import MARKER_SIZE
from ottla.replication.group_commit import GroupCommit
from ottla.replication.intake import prepare
from ottla.replication.log_settings import log_config

if TYPE_CHECKING:
    from ottla.config.topic import TopicConfig
    from ottla.env.background import Background
    from ottla.env.clock import Clock, Timer
    from ottla.log.log import Log, LogRead
    from ottla.log.producers import AppendedBatch
    from ottla.log.transaction_index import AbortedTransaction
    from ottla.log.verification import VerificationGuard
    from ottla.model import Producer, TopicId, TopicPartition
    from ottla.records.control import EndTransactionMarker
    from ottla.replication.waiting import DataWaiter

log = logging.getLogger("ottla.partition")

_NEVER = 1 << 53
"""A `flush.ms` or `flush.messages` from here on is never reached; the default is the largest number of all."""


class Appended(NamedTuple):
    base_offset: int
    log_append_time: int
    log_start_offset: int
    wait: asyncio.Future[None] | None
    """When set, the append may be acknowledged only after this is done."""


class Admission(NamedTuple):
    """Leave to append a batch to a transaction."""

    guard: VerificationGuard | None
    """None when the transaction has records here already."""
    from_coordinator: bool = False
    """A group coordinator writes on behalf of a producer, whose sequence numbers it does not know."""


class _Uncommitted(NamedTuple):
    """An append that waits for its sync."""

    end_offset: int
    size: int
    """Bytes that become readable with it."""
    future: asyncio.Future[None]


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
        self._committing: deque[_Uncommitted] = deque()
        self._flush_timer: Timer | None = None
        self._offline = False
        # The only in-sync replica is this one, so all that it has is committed.
        self.high_watermark = log_.end_offset
        self.lead(leader_epoch)

    def lead(self, leader_epoch: int) -> None:
        """Become the leader of an epoch, which begins where the log ends."""
        self.leader_epoch = leader_epoch
        self.log.assign_epoch(leader_epoch, self.log.end_offset)

    def configure(self, config: TopicConfig) -> None:
        """Take up changed settings of the topic; they hold from the next append on."""
        if self._flush_timer is not None and config.flush_ms != self.config.flush_ms:
            self._flush_timer.cancel()
            self._flush_timer = None
        self.config = config
        self.log.config = log_config(config)
        if self.log.unflushed_messages > 0:
            self._set_flush_timer()

    def check_leader_epoch(self, epoch: int) -> None:
        """Refuse a client that knows an older or a newer leader than this one; -1 asks for no check (KIP-320)."""
        if epoch == NO_LEADER_EPOCH or epoch == self.leader_epoch:
            return
        if epoch < self.leader_epoch:
            raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
        raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH)

    def append(self, records: memoryview, admission: Admission | None = None) -> Appended:
        """Append the batch of a Produce request, with an admission if it is part of a transaction.

        Raises KafkaError, with nothing appended.
        """
        if self._offline:
            raise self._is_offline()
        config, log_ = self.config, self.log
        batch, header = prepare(records, config, self._clock.time_ms())
        base_offset = log_.end_offset
        try:
            if admission is None:
                original = log_.append(batch, header, self.leader_epoch)
            else:
                guard, from_coordinator = admission
                original = log_.append_in_transaction(
                    batch, header, self.leader_epoch, guard, from_coordinator=from_coordinator
                )
        except OSError as error:
            raise self._not_written(error) from error
        if original is not None:
            return self._repeat(original)
        wait = self._after_append(len(batch))
        time = header.max_timestamp if config.log_append_time else NO_TIMESTAMP
        return Appended(base_offset, time, log_.log_start_offset, wait)

    def _not_written(self, error: OSError) -> KafkaError:
        log.error("%s: %s; the append is refused, what is stored stays readable", self.topic_partition, error)
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"the log cannot be written: {error}")

    def begin_verification(
        self, producer: Producer, base_sequence: int, *, supports_epoch_bump: bool
    ) -> VerificationGuard | None:
        """What `Log.begin_verification` says. Raises KafkaError."""
        if self._offline:
            raise self._is_offline()
        return self.log.begin_verification(
            producer.producer_id, base_sequence, producer.producer_epoch, supports_epoch_bump=supports_epoch_bump
        )

    def append_marker(self, marker: EndTransactionMarker, transaction_version: int) -> asyncio.Future[None] | None:
        """End a transaction in this partition. The future, if any, must be done before the end counts as written."""
        if self._offline:
            raise self._is_offline()
        try:
            self.log.append_marker(
                marker,
                self.leader_epoch,
                self._clock.time_ms(),
                transaction_version=transaction_version,
                high_watermark=self.high_watermark,
                log_append_time=self.config.log_append_time,
            )
        except OSError as error:
            raise self._not_written(error) from error
        return self._after_append(MARKER_SIZE)

    def _repeat(self, original: AppendedBatch) -> Appended:
        """Answer a duplicate as the original was, or will be, answered."""
        end = original.last_offset + 1
        wait = self._wait_for_sync(end, 0) if end > self.high_watermark else None
        time = original.timestamp if self.config.log_append_time else NO_TIMESTAMP
        return Appended(original.first_offset, time, self.log.log_start_offset, wait)

    def _after_append(self, size: int) -> asyncio.Future[None] | None:
        """Commit what was appended, or start what commits it. The future is the appender's own."""
        end = self.log.end_offset
        config = self.config
        if config.flush_messages == 1:
            self.start_sync()
            return self._wait_for_sync(end, size)
        self._advance(end, size)
        if config.flush_messages < _NEVER and self.log.unflushed_messages >= config.flush_messages:
            self.start_sync()
            return self._wait_for_sync(end, 0)
        if config.flush_ms < _NEVER:
            self._set_flush_timer()
        return None

    def _set_flush_timer(self) -> None:
        if self._flush_timer is None and self.config.flush_ms < _NEVER:
            self._flush_timer = self._clock.call_later(self.config.flush_ms / 1000, self._flush_due)

    def _wait_for_sync(self, end_offset: int, size: int) -> asyncio.Future[None]:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._committing.append(_Uncommitted(end_offset, size, future))
        return future

    def _advance(self, high_watermark: int, size: int) -> None:
        self.high_watermark = high_watermark
        if self.waiters:
            for waiter in tuple(self.waiters):
                waiter.grew(size)

    def start_sync(self) -> None:
        """Bring to disk what was appended so far, in the background."""
        if self._offline:
            return
        if self._group_commit is None:
            self._group_commit = GroupCommit(self.log, self._background, self._synced, self._sync_failed)
        self._group_commit.sync()

    def _synced(self, offset: int) -> None:
        self.log.synced(offset)
        covered = []
        while self._committing and self._committing[0].end_offset <= offset:
            covered.append(self._committing.popleft())
        if offset > self.high_watermark:
            self._advance(offset, sum(append.size for append in covered))
        for append in covered:
            if not append.future.done():
                append.future.set_result(None)

    def _sync_failed(self, error: BaseException) -> None:
        """A failed fsync leaves unknown what is on disk: nothing more may be acknowledged by this process."""
        log.error("%s: fsync failed (%s); the partition is offline until the broker restarts", self, error)
        self._go_offline(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"fsync failed: {error}"))

    def _go_offline(self, refusal: KafkaError) -> None:
        """Serve nobody any more. Who waits for a sync is refused, who waits for data looks again."""
        self._offline = True
        if self._flush_timer is not None:
            self._flush_timer.cancel()
        if self._group_commit is not None:
            self._group_commit.stop()
        while self._committing:
            future = self._committing.popleft().future
            if not future.done():
                future.set_exception(refusal)
        for waiter in tuple(self.waiters):
            waiter.changed()

    def _flush_due(self) -> None:
        self._flush_timer = None
        if self.log.unflushed_messages > 0:
            self.start_sync()

    def read(self, offset: int, max_bytes: int) -> LogRead:
        """Committed records from an offset on, as a slice of a file. Raises KafkaError."""
        if self._offline:
            raise self._is_offline()
        return self.log.read(offset, max_bytes, self.high_watermark)

    @property
    def last_stable_offset(self) -> int:
        """Where readers of committed transactions stop."""
        return self.log.last_stable_offset(self.high_watermark)

    def read_committed(self, offset: int, max_bytes: int) -> tuple[LogRead, list[AbortedTransaction]]:
        """Records below the last stable offset, and the aborted transactions that their reader must leave out."""
        if self._offline:
            raise self._is_offline()
        found = self.log.read(offset, max_bytes, self.last_stable_offset)
        if found.file is None:
            return found, []
        return found, self.log.aborted_transactions(offset, found.next_offset)

    def delete_records_before(self, offset: int) -> int:
        """Move the log start (-1: to the high watermark). Returns the new start."""
        if self._offline:
            raise self._is_offline()
        offset = self.high_watermark if offset == -1 else offset
        if not 0 <= offset <= self.high_watermark:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"the high watermark is {self.high_watermark}")
        self.log.delete_records_before(offset)
        return self.log.log_start_offset

    def close(self) -> None:
        """Stop serving, because the topic is deleted or the broker stops."""
        self._go_offline(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self} is no longer served here"))

    def _is_offline(self) -> KafkaError:
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.topic_partition} is offline")

    def __str__(self) -> str:
        return str(self.topic_partition)
