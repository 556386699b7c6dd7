"""One replica of a partition: append, commit, read, as its leader or as a follower.

The high watermark is where consumers stop reading. It is kept apart from the log's end offset: it follows the end at
once when this broker is the only replica, except under `flush.messages=1`, where nothing shows before it is synced.
Among several replicas it follows the slowest that is in sync.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from ottla.errors import ErrorCode, KafkaError
from ottla.log.log import NoRoomError
from ottla.log.producers import SequenceGapError
from ottla.model import NO_LEADER_EPOCH, NO_TIMESTAMP
from ottla.records.control import MARKER_SIZE
from ottla.replication.followers import Followers
from ottla.replication.group_commit import GroupCommit
from ottla.replication.intake import inspect, prepare
from ottla.replication.log_settings import log_config

if TYPE_CHECKING:
    from ottla.config.topic import TopicConfig
    from ottla.env.background import Background
    from ottla.env.clock import Clock, Timer
    from ottla.log.epochs import EpochStart
    from ottla.log.log import Log, LogRead
    from ottla.log.producers import AppendedBatch
    from ottla.log.transaction_index import AbortedTransaction
    from ottla.log.verification import VerificationGuard
    from ottla.model import Producer, TopicId, TopicPartition
    from ottla.records.control import EndTransactionMarker
    from ottla.records.format import Buffer
    from ottla.records.header import BatchHeader
    from ottla.replication.waiting import DataWaiter

logger = logging.getLogger("ottla.partition")

T = TypeVar("T")

_NEVER = 1 << 53
"""A `flush.ms` or `flush.messages` from here on is never reached; the default is the largest number of all."""


_NOWHERE = -1

_ALL = 1 << 31
"""More bytes than a segment has."""

_SYNC_AGAIN_SECONDS = 1.0
"""The pause after a sync for which the disk was too full."""

_GAP_SECONDS = 5.0
"""How long after a refusal a gap in a producer's sequence numbers is put down to it (`docs/decisions/0013`)."""

_NO_REFUSAL = (-_GAP_SECONDS, ErrorCode.NONE)

_REPLICATION_SECONDS = 30.0
"""How long a broker itself waits for the other replicas. Clients say in their requests how long they do."""

_PATIENCE_SECONDS = 0.25
"""How often those who wait are looked at."""


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
    """An append that waits for its sync, or for the other replicas."""

    end_offset: int
    size: int
    """Bytes that become readable with it."""
    future: asyncio.Future[None] | None
    """For who wants to know; None for a producer that did not want to wait for the other replicas."""
    deadline: float = 0.0


class Partition:
    __slots__ = (
        "_background",
        "_clock",
        "_committing",
        "_epoch_start",
        "_flush_timer",
        "_group_commit",
        "_inspections",
        "_last_refusal",
        "_offline",
        "_patience",
        "_refused_at",
        "_replicating",
        "_synced_end",
        "config",
        "follower_waiters",
        "followers",
        "high_watermark",
        "leader_epoch",
        "leads",
        "log",
        "on_caught_up",
        "state_version",
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
        *,
        inspections: Background | None = None,
    ) -> None:
        self.topic_partition: TopicPartition = log.topic_partition
        self.topic_id = topic_id
        self.log = log
        self.config = config
        self.waiters: dict[DataWaiter, None] = {}
        """In the order in which they came, in which they are told too."""
        self._clock = clock
        self._background = background
        self._inspections = inspections or background
        self._group_commit: GroupCommit | None = None
        self.follower_waiters: dict[DataWaiter, None] = {}
        """Fetches of followers, which read up to the end of the log."""
        self._committing: deque[_Uncommitted] = deque()
        self._replicating: deque[_Uncommitted] = deque()
        self._flush_timer: Timer | None = None
        self._patience: Timer | None = None
        self._offline = False
        self._refused_at = _NOWHERE
        """Where the log ended when it last could not be written."""
        self._last_refusal = _NO_REFUSAL
        """When appends were last refused for the moment, and why."""
        self._synced_end = log.recovery_point
        self._epoch_start = log.end_offset
        self.leads = False
        self.leader_epoch = NO_LEADER_EPOCH
        self.state_version = 0
        """Of the partition's state in the store, as of which this broker leads or follows."""
        self.followers: Followers | None = None
        """Of a leader that has any."""
        self.on_caught_up: Callable[[Partition], None] = lambda _: None
        """Called when a follower that is not in sync could be."""
        self.high_watermark = min(max(high_watermark, log.log_start_offset), log.end_offset)

    def lead(self, leader_epoch: int, followers: Followers | None = None) -> None:
        """Become the leader of an epoch, which begins where the log ends."""
        led, self.leads = self.leads, True
        self.leader_epoch = leader_epoch
        self._refused_at = _NOWHERE
        if not led and leader_epoch > 0 and followers is not None:
            self._refused(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.followers = followers
        self._epoch_start = self.log.end_offset
        self.log.assign_epoch(leader_epoch, self.log.end_offset)
        if followers is not None:
            self.commit()
        elif not led:
            # The only replica is this one, so all that it has is committed.
            self._advance(self.log.end_offset, 0)
        if self.config.flush_messages == 1 and self.log.unflushed_messages > 0:
            # A crash left it unsynced. Nothing of it shows before it is, and nobody may ever append to it again.
            self.start_sync()

    def follow(self, leader_epoch: int) -> None:
        """Another broker leads from now on. Who waits here has to ask there."""
        self.leads = False
        self.leader_epoch = leader_epoch
        self._refused_at = _NOWHERE
        self.followers = None
        self._refuse_waiting(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"another broker leads {self} now"))

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

    async def inspect(self, records: Buffer) -> memoryview:
        """Open a batch in a thread and make it conform to the topic's settings. Raises KafkaError.

        `append` takes the result, with `inspected`. The caller leaves the records alone: they may be changed in place.
        """
        view = memoryview(bytearray(records) if isinstance(records, bytes) else records)
        work = partial(inspect, view, self.config, self._clock.time_ms(), self.topic_partition)
        return await self.run_inspection(work)

    def run_inspection(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Do work that opens batches in one of the threads for that."""
        return self._inspections.run(work)

    def append(
        self,
        records: memoryview,
        admission: Admission | None = None,
        within: float | None = _REPLICATION_SECONDS,
        *,
        inspected: bool = False,
    ) -> Appended:
        """Append the batch of a Produce request, with an admission if it is part of a transaction.

        Unless `within` is None it counts as appended when all in-sync replicas have it; if that takes more seconds,
        nobody can say what will become of it. Raises KafkaError, with nothing appended. Raises InspectionNeeded, with
        nothing appended, if the batch has to be opened and was not `inspected`, nor built by the broker itself.
        """
        if self._offline:
            raise self._is_offline()
        config, log = self.config, self.log
        if within is not None and self.followers is not None:
            self._check_in_sync()
        batch, header = prepare(records, config, self._clock.time_ms(), inspected=inspected)
        base_offset = log.end_offset
        try:
            if admission is None:
                original = log.append(batch, header, self.leader_epoch)
            else:
                guard, from_coordinator = admission
                original = log.append_in_transaction(
                    batch, header, self.leader_epoch, guard, from_coordinator=from_coordinator
                )
        except OSError as error:
            raise self._not_written(error) from error
        except SequenceGapError as error:
            raise self._reason_of(error) from error
        if original is not None:
            return self._repeat(original, within)
        wait = self._after_append(len(batch), within)
        time = header.max_timestamp if config.log_append_time else NO_TIMESTAMP
        return Appended(base_offset, time, log.log_start_offset, wait)

    def _reason_of(self, gap: SequenceGapError) -> KafkaError:
        """Of what a producer has on its way, the first may have come too early, and have been refused here or by the
        last leader. It sends that again, with all that follows, unless it is told that its numbers are wrong."""
        since, reason = self._last_refusal
        if gap.is_ahead and self._clock.monotonic() - since < _GAP_SECONDS:
            return KafkaError(reason, f"{gap.message}, which was refused a moment ago")
        return gap

    def _refused(self, reason: ErrorCode) -> None:
        self._last_refusal = self._clock.monotonic(), reason

    def _not_written(self, error: OSError) -> KafkaError:
        logger.error("%s: %s; the append is refused, what is stored stays readable", self.topic_partition, error)
        self._refused_at = self.log.end_offset
        self._refused(ErrorCode.KAFKA_STORAGE_ERROR)
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
        return self._after_append(MARKER_SIZE, _REPLICATION_SECONDS)

    def _repeat(self, original: AppendedBatch, within: float | None) -> Appended:
        """Answer a duplicate as the original was, or will be, answered."""
        end = original.last_offset + 1
        wait = None
        if end > self.high_watermark:
            if self.followers is None:
                wait = self._wait_for_sync(end, 0)
            elif within is not None:
                wait = self._wait_for_replicas(end, 0, within)
        time = original.timestamp if self.config.log_append_time else NO_TIMESTAMP
        return Appended(original.first_offset, time, self.log.log_start_offset, wait)

    def _after_append(self, size: int, within: float | None) -> asyncio.Future[None] | None:
        """Commit what was appended, or start what commits it. The future is the appender's own."""
        end = self.log.end_offset
        config = self.config
        if self.followers is not None:
            return self._replicate(end, size, within)
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

    # Several replicas

    def update_replicas(self, followers: Sequence[int], in_sync: Sequence[int], *, answered: bool = True) -> None:
        """The store lists other replicas, or others of them as in sync, than when this broker began to lead.

        Unless `answered`, the state is the one that was known: what the store has been asked for may still come.
        """
        if self.followers is not None:
            proposed = None if answered else self.followers.proposed
            self.followers.update(followers, in_sync, self._clock.monotonic())
            self.followers.proposed = proposed
            self.commit()
        elif followers:
            self.lead(self.leader_epoch, Followers(followers, in_sync, self._clock.monotonic()))

    def _check_in_sync(self) -> None:
        if self._in_sync_count < self.config.min_insync_replicas:
            self._refused(ErrorCode.NOT_ENOUGH_REPLICAS)
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{self._in_sync_count} replicas of {self} are in sync, min.insync.replicas wants"
                f" {self.config.min_insync_replicas}",
            )

    @property
    def _in_sync_count(self) -> int:
        return 1 + (0 if self.followers is None else len(self.followers.in_sync))

    def _replicate(self, end: int, size: int, within: float | None) -> asyncio.Future[None] | None:
        """Offer what was appended to the followers."""
        config = self.config
        wait: asyncio.Future[None] | None = None
        if within is not None:
            wait = self._wait_for_replicas(end, size, within)
        else:
            self._replicating.append(_Uncommitted(end, size, None))
        if self.log.unflushed_messages >= config.flush_messages:
            self.start_sync()
            wait = wait or self._wait_for_sync(end, 0)
        elif config.flush_ms < _NEVER:
            self._set_flush_timer()
        for waiter in tuple(self.follower_waiters):
            waiter.grew(size)
        self.commit()
        return None if wait is not None and wait.done() and wait.exception() is None else wait

    def _wait_for_replicas(self, end_offset: int, size: int, within: float) -> asyncio.Future[None]:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._replicating.append(_Uncommitted(end_offset, size, future, self._clock.monotonic() + within))
        if self._patience is None:
            self._patience = self._clock.call_later(_PATIENCE_SECONDS, self._lose_patience)
        return future

    def _lose_patience(self) -> None:
        """Tell those who waited too long. One timer for all: a timer for each would cost more than it is worth."""
        now = self._clock.monotonic()
        waiting = False
        for append in self._replicating:
            if append.future is not None and not append.future.done():
                if append.deadline <= now:
                    text = f"the in-sync replicas of {self} did not have it in time"
                    append.future.set_exception(KafkaError(ErrorCode.REQUEST_TIMED_OUT, text))
                else:
                    waiting = True
        self._patience = self._clock.call_later(_PATIENCE_SECONDS, self._lose_patience) if waiting else None

    def commit(self) -> None:
        """Move the high watermark as far as the in-sync replicas have come."""
        assert self.followers is not None
        own_end = self._synced_end if self.config.flush_messages == 1 else self.log.end_offset
        committed = min(own_end, self.followers.limit(own_end))
        if committed <= self.high_watermark:
            return
        size = 0
        done = []
        while self._replicating and self._replicating[0].end_offset <= committed:
            append = self._replicating.popleft()
            size += append.size
            done.append(append.future)
        self._advance(committed, size)
        enough = self._in_sync_count >= self.config.min_insync_replicas
        for future in done:
            if future is None or future.done():
                continue
            if enough:
                future.set_result(None)
            else:
                future.set_exception(
                    KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, f"too few replicas of {self} are in sync")
                )

    def has_nothing_for(self, replica: int, offset: int, told: tuple[int, int] | None, now: float) -> bool:
        """Fast path, for a follower that fetches once more from the end of the log and was told high watermark and log
        start: `read_as_follower` would find nothing, and nothing to do. A follower of many partitions gets news of few.
        """
        return (
            offset == self.log.end_offset
            and not self._offline
            and self.followers is not None
            and told == (self.high_watermark, self.log.log_start_offset)
            and self.followers.stays(replica, offset, now)
        )

    def read_as_follower(
        self, replica: int, offset: int, max_bytes: int, last_epoch: int, log_start_offset: int = 0
    ) -> LogRead | EpochStart:
        """What a follower fetches, up to the end of the log, which tells how far it has come; or, if its log has gone
        another way than this one, the last epoch that they may share, and where it ends here. Raises KafkaError."""
        if self._offline:
            raise self._is_offline()
        if self.followers is None or replica not in self.followers:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"broker {replica} has no replica of {self}")
        if last_epoch != NO_LEADER_EPOCH:
            known = self.log.end_offset_for_epoch(last_epoch)
            if known.start_offset < 0:
                raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{self} knows nothing of epoch {last_epoch}")
            if known.epoch < last_epoch or known.start_offset < offset:
                return known
        found = self.log.read(offset, max_bytes, self.log.end_offset)
        self.followers.fetches(replica, offset, self.log.end_offset, self._clock.monotonic(), log_start_offset)
        if replica not in self.followers.in_sync and offset >= self.needed_end:
            self.on_caught_up(self)
        self.commit()
        return found

    @property
    def knows_committed(self) -> bool:
        """Whether the high watermark has reached what was there when this broker began to lead."""
        return self.high_watermark >= self._epoch_start

    @property
    def needed_end(self) -> int:
        """How far a follower must have come to be counted as in sync."""
        return max(self.high_watermark, self._epoch_start)

    def append_from_leader(
        self, batches: memoryview, headers: Sequence[BatchHeader], high_watermark: int
    ) -> asyncio.Future[None] | None:
        """As a follower, take over what the leader has, byte for byte. Raises KafkaError.

        The future, if any, must be done before the leader is told that it is here.
        """
        if self._offline:
            raise self._is_offline()
        try:
            self.log.append_as_follower(batches, headers, self.high_watermark)
        except OSError as error:
            raise self._not_written(error) from error
        self.advance_as_follower(high_watermark)
        if self.log.unflushed_messages < self.config.flush_messages:
            return None
        self.start_sync()
        return self._wait_for_sync(self.log.end_offset, 0)

    def advance_as_follower(self, leader_high_watermark: int) -> None:
        """A leader that is new may not know yet how much is committed; what is known here stays known."""
        high_watermark = min(leader_high_watermark, self.log.end_offset)
        if high_watermark > self.high_watermark:
            # Consumers may wait here too (KIP-392), for a number of bytes.
            grown = self.log.read(self.high_watermark, _ALL, high_watermark).size if self.waiters else 0
            self._advance(high_watermark, grown)

    def continue_with(self, log: Log) -> None:
        """Go on with a copy of the log, which has the same records and lies elsewhere."""
        if self._group_commit is not None:
            self._group_commit.stop()
            self._group_commit = None
        log.config = self.log.config
        self.log = log
        self._synced_end = log.recovery_point
        if self._committing or log.unflushed_messages:
            self.start_sync()

    def truncate_to(self, offset: int) -> None:
        """As a follower, drop what the leader does not have. Raises KafkaError, OSError."""
        self.log.truncate_to(offset)
        self.high_watermark = min(self.high_watermark, self.log.end_offset)
        self._synced_end = min(self._synced_end, self.log.end_offset)

    def restart_at(self, offset: int) -> None:
        """As a follower, begin anew where the leader's log begins: it has nothing any more of what would come next."""
        self.log.truncate_fully(offset)
        self.high_watermark = offset
        self._synced_end = min(self._synced_end, offset)

    # Bringing to disk

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
        self._synced_end = self.log.recovery_point
        covered = []
        while self._committing and self._committing[0].end_offset <= offset:
            covered.append(self._committing.popleft())
        if self.followers is not None:
            self.commit()
        elif self.leads and offset > self.high_watermark:
            self._advance(offset, sum(append.size for append in covered))
        for append in covered:
            if append.future is not None and not append.future.done():
                append.future.set_result(None)

    def _sync_failed(self, error: BaseException) -> None:
        """A failed fsync leaves unknown what is on disk: nothing more may be acknowledged by this process.

        Unlike one that found no room for the epochs beside the log: what waits for it goes on waiting.
        """
        if isinstance(error, NoRoomError):
            logger.error("%s: %s; what was appended is synced when there is room again", self, error)
            self._clock.call_later(_SYNC_AGAIN_SECONDS, self.start_sync)
            return
        logger.error("%s: fsync failed (%s); the partition is offline until the broker restarts", self, error)
        self._go_offline(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"fsync failed: {error}"))

    def _go_offline(self, refusal: KafkaError) -> None:
        """Serve nobody any more. Who waits for a sync is refused, who waits for data looks again."""
        self._offline = True
        if self._flush_timer is not None:
            self._flush_timer.cancel()
        if self._group_commit is not None:
            self._group_commit.stop()
        self._refuse_waiting(refusal)

    def _refuse_waiting(self, refusal: KafkaError) -> None:
        for appends in (self._committing, self._replicating):
            while appends:
                future = appends.popleft().future
                if future is not None and not future.done():
                    future.set_exception(refusal)
        for waiter in (*self.waiters, *self.follower_waiters):
            waiter.changed()

    def _flush_due(self) -> None:
        self._flush_timer = None
        if self.log.unflushed_messages > 0:
            self.start_sync()

    async def committed(self, end_offset: int) -> None:
        """Return when everything before an offset is committed, by however few in-sync replicas. Raises KafkaError."""
        if end_offset <= self.high_watermark:
            return
        if self.followers is None:
            self.start_sync()
            wait = self._wait_for_sync(end_offset, 0)
        else:
            wait = self._wait_for_replicas(end_offset, 0, _REPLICATION_SECONDS)
        try:
            await wait
        except KafkaError as error:
            if error.code is not ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND:
                raise

    def read_everything(self, offset: int, max_bytes: int) -> LogRead:
        """Records from an offset on, committed or not. Raises KafkaError."""
        if self._offline:
            raise self._is_offline()
        return self.log.read(offset, max_bytes, self.log.end_offset)

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

    @property
    def is_offline(self) -> bool:
        """Whether nothing can be served, since nobody knows what is on disk."""
        return self._offline

    @property
    def can_be_written(self) -> bool:
        """Whether the last append in this role did not fail for want of room, or of a disk that works."""
        return not self._offline and self._refused_at != self.log.end_offset

    def _is_offline(self) -> KafkaError:
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.topic_partition} is offline")

    def __str__(self) -> str:
        return str(self.topic_partition)
