"""A partition as its leader serves it: append, commit, let followers fetch. What all replicas do is in `replica`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from ottla.errors import ErrorCode, KafkaError
from ottla.log.producers import SequenceGapError
from ottla.model import NO_TIMESTAMP
from ottla.records.control import MARKER_SIZE
from ottla.replication.followers import Followers
from ottla.replication.intake import inspect, prepare
from ottla.replication.replica import Replica

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence

    from ottla.config.topic import TopicConfig
    from ottla.env.background import Background
    from ottla.env.clock import Clock
    from ottla.log.epochs import EpochStart
    from ottla.log.log import Log, LogRead
    from ottla.log.producers import AppendedBatch
    from ottla.log.verification import VerificationGuard
    from ottla.model import LeaderEpoch, Producer, TopicId
    from ottla.records.control import EndTransactionMarker
    from ottla.records.format import Buffer

T = TypeVar("T")

_REPLICATION_SECONDS = 30.0
"""How long the broker's own appends wait for the in-sync replicas. Clients set the time in their requests."""


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


class Partition(Replica):
    __slots__ = ("_inspections", "_lookups", "_on_caught_up")

    def __init__(
        self,
        topic_id: TopicId,
        log: Log,
        config: TopicConfig,
        clock: Clock,
        syncs: Background,
        high_watermark: int = 0,
        *,
        inspections: Background | None = None,
        lookups: Background | None = None,
        on_caught_up: Callable[[Partition], None] = lambda _: None,
    ) -> None:
        """`on_caught_up` is called when a follower that is not in sync has fetched enough to join."""
        super().__init__(topic_id, log, config, clock, syncs, high_watermark)
        self._inspections = inspections or syncs
        self._lookups = lookups or syncs
        self._on_caught_up = on_caught_up

    # Roles

    def lead(self, leader_epoch: LeaderEpoch, followers: Followers | None = None) -> None:
        """Become the leader of an epoch, which begins where the log ends."""
        end = self.log.end_offset
        if not self.leads and leader_epoch > 0 and followers is not None:
            self._refusals.note(ErrorCode.NOT_LEADER_OR_FOLLOWER, self._clock.monotonic())
        self._refusals.forget_failed_write()
        self.begin_epoch_as_leader(leader_epoch, followers, end)
        self.log.assign_epoch(leader_epoch, end)
        self._commit()
        self._sync_what_a_crash_left()

    def follow(self, leader_epoch: LeaderEpoch) -> None:
        """Become a follower. Pending appends and fetches fail with NOT_LEADER_OR_FOLLOWER so that clients retry on the
        new leader."""
        self.begin_epoch_as_follower(leader_epoch)
        self._refusals.forget_failed_write()
        self._fail_waiting(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"another broker leads {self} now"))
        self._sync_what_a_crash_left()

    def update_replicas(self, followers: Sequence[int], in_sync: Sequence[int], *, answered: bool = True) -> None:
        """Take up the replicas and the in-sync replicas that the store lists now.

        Unless `answered`, the state is the one that was known before: a change of the in-sync replicas that this leader
        has asked for may still come.
        """
        now = self._clock.monotonic()
        if self.followers is not None:
            proposed = None if answered else self.followers.proposed
            self.followers.update(followers, in_sync, now)
            self.followers.proposed = proposed
            self._commit()
        elif followers:
            self.lead(self.leader_epoch, Followers(followers, in_sync, now))

    # Appending

    async def inspect(self, records: Buffer) -> memoryview:
        """Open a batch in a thread and make it conform to the topic's settings. Raises KafkaError.

        `append` takes the result, with `inspected`. The caller leaves the records alone: they may be changed in place.
        """
        view = memoryview(bytearray(records) if isinstance(records, bytes) else records)
        work = partial(inspect, view, self.config, self._clock.time_ms(), self.topic_partition)
        return await self._inspections.run(work)

    def run_lookup(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Run a step of a lookup by timestamp in the thread for lookups. Appends do not wait for that thread."""
        return self._lookups.run(work)

    def append(
        self,
        records: memoryview,
        admission: Admission | None = None,
        replication_timeout: float | None = _REPLICATION_SECONDS,
        *,
        inspected: bool = False,
    ) -> Appended:
        """Append the batch of a Produce request, with an admission if it is part of a transaction.

        With a `replication_timeout` (acks=all) the append counts when all in-sync replicas have it; after that many
        seconds the outcome is unknown. None (acks 0 and 1) does not wait for replicas. Raises KafkaError, with nothing
        appended. Raises InspectionNeeded, with nothing appended, if the batch has to be opened and was not `inspected`,
        nor built by the broker itself.
        """
        if self._offline:
            raise self._offline_error()
        config, log = self.config, self.log
        if replication_timeout is not None and self.followers is not None:
            self._check_min_isr()
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
            raise self._refusals.explain(error, self._clock.monotonic()) from error
        if original is not None:
            return self._duplicate(original, replication_timeout)
        wait = self._after_append(len(batch), replication_timeout)
        time = header.max_timestamp if config.log_append_time else NO_TIMESTAMP
        # Twice as fast as to call the class.
        return tuple.__new__(Appended, (base_offset, time, log.log_start_offset, wait))

    def append_marker(self, marker: EndTransactionMarker, transaction_version: int) -> asyncio.Future[None] | None:
        """End a transaction in this partition. The future, if any, must be done before the end counts as written.

        A marker that repeats an uncommitted one is not appended again: it waits until the first is committed. One that
        repeats a committed marker is appended, as in Kafka, and ends nothing. Raises KafkaError, with nothing appended.
        """
        if self._offline:
            raise self._offline_error()
        if self.followers is not None:
            self._check_min_isr()
        log = self.log
        if log.end_offset > self.high_watermark and log.repeats_last_marker(marker, transaction_version):
            return self._wait_for(log.end_offset, _REPLICATION_SECONDS, must_sync=False)
        try:
            log.append_marker(
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

    def begin_verification(
        self, producer: Producer, base_sequence: int, *, supports_epoch_bump: bool
    ) -> VerificationGuard | None:
        """See `Log.begin_verification`. Raises KafkaError."""
        if self._offline:
            raise self._offline_error()
        return self.log.begin_verification(
            producer.producer_id, base_sequence, producer.producer_epoch, supports_epoch_bump=supports_epoch_bump
        )

    def _check_min_isr(self) -> None:
        wanted = self.config.min_insync_replicas
        if self.is_under_min_isr(wanted):
            self._refusals.note(ErrorCode.NOT_ENOUGH_REPLICAS, self._clock.monotonic())
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{self.in_sync_count} replicas of {self} are in sync, {self.effective_min_isr(wanted)} must be",
            )

    def _duplicate(self, original: AppendedBatch, replication_timeout: float | None) -> Appended:
        """Answer a duplicate as the original was, or will be, answered."""
        config = self.config
        wait = self._wait_for(original.last_offset + 1, replication_timeout, must_sync=config.flush_messages == 1)
        time = original.timestamp if config.log_append_time else NO_TIMESTAMP
        return Appended(original.first_offset, time, self.log.log_start_offset, wait)

    def _after_append(self, size: int, replication_timeout: float | None) -> asyncio.Future[None] | None:
        """Commit what was appended, or start what commits it. The future is the appender's own."""
        end = self.log.end_offset
        config = self.config
        if self.followers is None and config.never_syncs:
            # Fast path: `_commit` and `_wait_for` would do the same.
            self.commit_to(end, end)
            if self.waiters:
                self._wake(size)
            return None
        must_sync = not config.never_syncs and self._durability.appended(config)
        for waiter in tuple(self.follower_waiters):
            waiter.grew(size)
        if not config.syncs_before_visible:
            # Otherwise nothing is committed before the sync.
            self._commit()
        return self._wait_for(end, replication_timeout, must_sync=must_sync)

    async def committed(self, end_offset: int) -> None:
        """Return when all in-sync replicas have everything before an offset, however few they are. Raises KafkaError.

        Coordinators load with this. It does not wait for `min.insync.replicas`: while they are not reached, only these
        replicas can lead, so that what they have is not lost.
        """
        if not self.leads:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"another broker leads {self} now")
        if end_offset > self.in_sync_end:
            if self.config.syncs_before_visible:
                self.start_sync()
            await self._appends.add(end_offset, replicated=end_offset, timeout=_REPLICATION_SECONDS)

    # Followers

    def has_nothing_for(self, replica: int, offset: int, told: tuple[int, int] | None, now: float) -> bool:
        """Fast path for a follower that fetches again from the end of the log and knows the high watermark and the log
        start: `read_as_follower` would find and change nothing. Most fetches of most partitions are such ones."""
        return (
            offset == self.log.end_offset
            and not self._offline
            and self.followers is not None
            and told == (self.high_watermark, self.log.log_start_offset)
            and self.followers.renew_if_caught_up(replica, offset, now)
        )

    def read_as_follower(
        self, replica: int, offset: int, max_bytes: int, last_epoch: int, log_start_offset: int = 0
    ) -> LogRead | EpochStart:
        """What a follower fetches, up to the end of the log. Its fetch offset also tells how far it has come.

        If its log has diverged from this one: the last epoch that both may share, and where it ends here. Raises
        KafkaError.
        """
        if self._offline:
            raise self._offline_error()
        followers, log = self.followers, self.log
        if followers is None or replica not in followers:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"broker {replica} has no replica of {self}")
        diverging = self.divergence(offset, last_epoch)
        if diverging is not None:
            return diverging
        found = log.read(offset, max_bytes, log.end_offset)
        followers.fetches(replica, offset, log.end_offset, self._clock.monotonic(), log_start_offset)
        if replica not in followers.in_sync and offset >= self.needed_end:
            self._on_caught_up(self)
        self._commit()
        return found

    def divergence(self, offset: int, last_epoch: int) -> EpochStart | None:
        """Where the log of a reader, whose last record has this epoch, differs from this one: the last epoch that both
        may share, and where it ends here. None if they agree, or if the epoch is negative. Raises KafkaError."""
        if last_epoch < 0:
            return None
        known = self.log.end_offset_for_epoch(last_epoch)
        if known.start_offset < 0 or offset < self.log.log_start_offset:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{self} knows nothing of epoch {last_epoch}")
        return known if known.epoch < last_epoch or known.start_offset < offset else None
