"""One partition's log: a list of segments that is appended to at one end and let go of at the other.

Everything here runs on the event loop, except the steps of a search by timestamp. `durable_log` has the syncs.
Offsets are half open: the log holds records from `log_start_offset` up to, not including, `end_offset`; all below
`recovery_point` is known to be on disk.
"""

from __future__ import annotations

import logging
import zlib
from typing import TYPE_CHECKING, NamedTuple

from ottla.errors import ErrorCode, KafkaError
from ottla.log.aborted import AbortedTransactions
from ottla.log.compaction import Compaction
from ottla.log.durable_log import TOUCHED, DurableLog
from ottla.log.index import MAX_RELATIVE_OFFSET
from ottla.log.reading import LogRead, Reading
from ottla.log.replay import Replay
from ottla.log.retention import count_removable
from ottla.log.scan import DamagedBatch
from ottla.log.segment import Segment
from ottla.model import NO_PRODUCER_ID
from ottla.records.control import build_marker, read_marker
from ottla.records.format import CONTROL_FLAG
from ottla.records.header import read_header
from ottla.records.invalid import InvalidBatch
from ottla.records.rewrite import assign

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ottla.log.config import LogConfig
    from ottla.log.epochs import EpochStart, LeaderEpochs
    from ottla.log.producers import AppendedBatch, Producers
    from ottla.log.snapshot import Snapshots
    from ottla.log.storage import Storage
    from ottla.log.timestamp_search import TimestampOffset, TimestampSearch
    from ottla.log.transaction_index import AbortedTransaction
    from ottla.log.verification import VerificationGuard
    from ottla.model import TopicPartition
    from ottla.records.control import EndTransactionMarker
    from ottla.records.header import BatchHeader

__all__ = ["Log", "LogRead", "SegmentInfo"]

logger = logging.getLogger("ottla.log")


class SegmentInfo(NamedTuple):
    base_offset: int
    size: int


class Log(DurableLog):
    __slots__ = ("_aborted", "_before_truncation", "_reading", "_replay", "compaction", "topic_partition")

    def __init__(
        self,
        storage: Storage,
        topic_partition: TopicPartition,
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
        unsynced: Iterable[Segment] = (),
        untouched: bool = False,
        new: bool = False,
    ) -> None:
        super().__init__(
            storage,
            path,
            config,
            segments,
            end_offset=end_offset,
            log_start_offset=log_start_offset,
            recovery_point=recovery_point,
            epochs=epochs,
            producers=producers,
            snapshots=snapshots,
            unsynced=unsynced,
            untouched=untouched,
            new=new,
        )
        self.topic_partition = topic_partition
        self._reading = Reading(self._segments)
        self._replay = Replay(storage, self._segments, snapshots)
        self._aborted = AbortedTransactions(self._segments, self._replay)
        self.compaction = Compaction(self, storage, self._segments, self._aborted)
        self._before_truncation: Callable[[], None] | None = None

    def __str__(self) -> str:
        return str(self.topic_partition)

    # Appending

    def append(self, batch: memoryview, header: BatchHeader, leader_epoch: int) -> AppendedBatch | None:
        """Append as the leader: give the batch the next offsets and the epoch, in place, and write it.

        The batch was validated and `header` is its own. Returns the original, with nothing appended, for a duplicate.
        Raises KafkaError when an idempotent producer's sequence does not fit, and OSError when the batch cannot be
        written; either way the log is as it was, and usable.
        """
        if header.producer_id >= 0:
            original = self._check_producer(header)
            if original is not None:
                return original
        base_offset = self.end_offset
        assign(batch, header, base_offset, leader_epoch)
        self._write(batch, header, base_offset)
        if leader_epoch != self.epochs.latest:
            self.epochs.assign(leader_epoch, base_offset)
        return None

    def append_in_transaction(
        self,
        batch: memoryview,
        header: BatchHeader,
        leader_epoch: int,
        guard: VerificationGuard | None,
        *,
        from_coordinator: bool = False,
    ) -> AppendedBatch | None:
        """Append a transactional batch, with what `begin_verification` has given for it. Otherwise like `append`.

        A group coordinator, which writes on behalf of transactional producers, has no sequence numbers of theirs: all
        of its batches have 0.
        """
        original = self._check_in_transaction(header, guard, from_coordinator)
        if original is None:
            base_offset = self.end_offset
            assign(batch, header, base_offset, leader_epoch)
            self._write(batch, header, base_offset)
            self.epochs.assign(leader_epoch, base_offset)
        return original

    def begin_verification(
        self, producer_id: int, base_sequence: int, producer_epoch: int, *, supports_epoch_bump: bool
    ) -> VerificationGuard | None:
        """Before a transactional batch is appended: the guard to append it with, once the transaction's coordinator has
        said that the partition is part of the transaction; None when that is known already. Raises KafkaError."""
        now_ms = self._storage.clock.time_ms()
        return self.producers.begin_verification(
            producer_id, base_sequence, producer_epoch, supports_epoch_bump, now_ms
        )

    def _check_producer(self, header: BatchHeader) -> AppendedBatch | None:
        """The original, if the batch is a duplicate. Raises KafkaError."""
        try:
            return self.producers.check(header)
        except KafkaError:
            if not self.producers.abridged:
                raise
            self._replay.recall(self.producers)
            return self.producers.check(header)

    def _check_in_transaction(
        self, header: BatchHeader, guard: VerificationGuard | None, from_coordinator: bool
    ) -> AppendedBatch | None:
        try:
            return self.producers.check_in_transaction(header, guard, from_coordinator)
        except KafkaError:
            if not self.producers.abridged:
                raise
            self._replay.recall(self.producers)
            return self.producers.check_in_transaction(header, guard, from_coordinator)

    def append_as_follower(self, batches: memoryview, headers: Sequence[BatchHeader], high_watermark: int = 0) -> None:
        """Append what a leader has written already: offsets and epochs are kept.

        Offsets may have gaps, where the leader's log was compacted, but never go back: that raises KafkaError. On
        OSError the batches before the one that could not be written are in the log. Transactions that are complete
        below the high watermark, as far as the follower knows it, need not be remembered any longer.
        """
        self.producers.transactions.replicated(high_watermark)
        position = 0
        for header in headers:
            if header.base_offset < self.end_offset:
                raise KafkaError(
                    ErrorCode.CORRUPT_MESSAGE,
                    f"{self} ends at {self.end_offset}, a batch at {header.base_offset} cannot follow",
                )
            batch = batches[position : position + header.size]
            if header.attributes & CONTROL_FLAG:
                self._write_control(batch, header)
            else:
                self._write(batch, header, header.base_offset)
            self.epochs.assign(header.partition_leader_epoch, header.base_offset)
            position += header.size

    def _write(self, batch: memoryview, header: BatchHeader, base_offset: int) -> None:
        """Write a batch at its place, then account for it."""
        _, _, _, _, _, _, last_offset_delta, _, timestamp, producer_id, _, _, _ = header
        last_offset = base_offset + last_offset_delta
        segment = self._segments.active
        if self._must_roll(segment, len(batch), last_offset, timestamp):
            segment = self._roll_before(base_offset, last_offset)
        try:
            segment.append(batch, header, base_offset, self.config)
        except OSError:
            segment.cut_back()
            raise
        self.end_offset = last_offset + 1
        if producer_id >= 0:
            self.producers.update(header, base_offset)

    def append_marker(
        self,
        marker: EndTransactionMarker,
        leader_epoch: int,
        timestamp: int,
        *,
        transaction_version: int,
        high_watermark: int,
        log_append_time: bool = False,
    ) -> int:
        """Append, as the leader, the end of a transaction. Returns the marker's offset.

        Raises KafkaError when a newer coordinator or producer is known, and OSError when the marker cannot be written;
        either way the log is as it was. A marker that repeats an earlier one is appended, too, and ends nothing.
        """
        self.producers.check_marker(marker, transaction_version)
        self.producers.transactions.replicated(high_watermark)
        batch = build_marker(marker, timestamp, log_append_time=log_append_time)
        header = read_header(batch)
        offset = self.end_offset
        assign(batch, header, offset, leader_epoch)
        self._write_marker(memoryview(batch), header, offset, marker)
        self.epochs.assign(leader_epoch, offset)
        return offset

    def repeats_last_marker(self, marker: EndTransactionMarker, transaction_version: int) -> bool:
        """Whether this marker was appended already and nothing has followed that it could end. Raises KafkaError when
        a newer coordinator or producer is known."""
        self.producers.check_marker(marker, transaction_version)
        return self.producers.repeats_last_marker(marker)

    def _write_control(self, batch: memoryview, header: BatchHeader) -> None:
        """Write a control batch of a leader's. Raises KafkaError when it cannot be understood."""
        try:
            marker = read_marker(batch, header) if header.producer_id >= 0 else None
        except InvalidBatch as error:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{self}: a control batch cannot be read: {error}") from error
        if marker is None:
            self._write(batch, header._replace(producer_id=NO_PRODUCER_ID), header.base_offset)
        else:
            self._write_marker(batch, header, header.base_offset, marker)

    def _write_marker(self, batch: memoryview, header: BatchHeader, offset: int, marker: EndTransactionMarker) -> None:
        """Write a marker, then account for it. An entry in the transaction index comes first and counts last, so that
        there is never a marker without one."""
        if self._must_roll(self._segments.active, len(batch), offset, header.max_timestamp):
            self._roll_before(offset, offset)
        aborted = self.producers.aborted_by(marker, offset)
        index = None
        if aborted is not None:
            active = self._segments.active
            index = self._aborted.index_of(active, self.log_start_offset) or active.add_transaction_index(new=True)
            self._directory_changed = True
            index.prepare(aborted)
        # The header that is passed on is not the producer's: a marker is none of its batches.
        self._write(batch, header._replace(producer_id=NO_PRODUCER_ID), offset)
        if index is not None and aborted is not None:
            index.commit(aborted)
        self.producers.end_transaction(marker, offset, header.max_timestamp)

    def _must_roll(self, segment: Segment, size: int, last_offset: int, timestamp: int) -> bool:
        used, config = segment.size, self.config
        if last_offset - segment.base_offset > MAX_RELATIVE_OFFSET:
            return True
        if used == 0:
            return False
        if used + size > config.segment_bytes or segment.indexes_are_full:
            return True
        first = segment.first_timestamp
        waited = timestamp - first if first >= 0 else self._storage.clock.time_ms() - segment.created_ms
        return waited > config.segment_ms - (config.segment_jitter_ms and self._jitter_ms(segment))

    def _jitter_ms(self, segment: Segment) -> int:
        """`segment.jitter.ms` keeps partitions from rolling all at once. Any spread will do: it need not be random."""
        limit = min(self.config.segment_jitter_ms, self.config.segment_ms)
        return zlib.crc32(b"%s %d" % (self.path.encode(), segment.base_offset)) % limit if limit > 0 else 0

    def _roll_before(self, base_offset: int, last_offset: int) -> Segment:
        # Segments follow each other without a hole, even where offsets have one, so that recovery can tell.
        fits = last_offset - self.end_offset <= MAX_RELATIVE_OFFSET
        self.roll(self.end_offset if fits else base_offset)
        return self._segments.active

    def roll(self, base_offset: int | None = None) -> None:
        """Seal the active segment and begin a new one at the end of the log. On OSError the log is as it was."""
        base_offset = self.end_offset if base_offset is None else base_offset
        active = self._segments.active
        if active.base_offset == base_offset:
            return
        active.seal()
        self.snapshots.take(base_offset, self.producers.active())
        segment = Segment.create(self._storage, self.path, base_offset)
        self._directory_changed = True
        # In this order: `sync`, in its thread, must find the old segment as the active one or among the rolled ones.
        if active.size and active not in self._rolled:
            self._rolled.append(active)
        self._segments.add(segment)
        if not active.size:
            last = len(self._segments.all) - 1
            self._remove_segments(last - 1, last)

    # Reading

    def read(self, offset: int, max_bytes: int, limit: int) -> LogRead:
        """Whole batches from the one that holds `offset` on, all below the offset `limit`, from one segment.

        At least one batch comes even if it is over `max_bytes`. Raises KafkaError: OFFSET_OUT_OF_RANGE, or
        CORRUPT_MESSAGE where the file is damaged so that batches cannot be told apart.
        """
        end_offset = self.end_offset
        if not self.log_start_offset <= offset <= end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self} holds offsets {self.log_start_offset} to {end_offset}, not {offset}",
            )
        if limit > end_offset:
            limit = end_offset
        if offset >= limit:
            return tuple.__new__(LogRead, (None, 0, 0, offset))
        return self._reading.read(offset, max_bytes, limit, end_offset)

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """The first offset whose transaction is open, or has ended with a marker that is not below the high watermark
        and may still be lost; None if all transactions are decided."""
        first = self.producers.transactions.first_unstable(high_watermark)
        return None if first is None else max(first, self.log_start_offset)

    def last_stable_offset(self, high_watermark: int) -> int:
        """Where a reader of committed records must stop: at most at the high watermark."""
        if self.producers.transactions.all_stable:
            return high_watermark
        first = self.first_unstable_offset(high_watermark)
        return high_watermark if first is None else min(first, high_watermark)

    def aborted_transactions(self, fetch_offset: int, upper_bound_offset: int) -> list[AbortedTransaction]:
        """The aborted transactions that may have records in a range below the last stable offset, in the order of their
        ends. The upper bound is the offset after the last one that was read."""
        return self._aborted.collect(fetch_offset, upper_bound_offset, self.log_start_offset)

    def offset_for_timestamp(self, timestamp: int) -> TimestampOffset | None:
        """The first record that is not older than a timestamp. Blocking. Raises KafkaError where the log is damaged."""
        return self._reading.finish(self.search_timestamp(timestamp))

    def max_timestamp(self) -> TimestampOffset | None:
        """The first record that carries the largest timestamp of the log (KIP-734). Blocking. Raises KafkaError."""
        return self._reading.finish(self.search_max_timestamp())

    def search_timestamp(self, timestamp: int) -> Iterator[TimestampSearch]:
        """The same as searches whose steps may run in a thread. The next search is asked for on the event loop."""
        return self._reading.search_timestamp(timestamp, self.log_start_offset)

    def search_max_timestamp(self) -> Iterator[TimestampSearch]:
        return self._reading.search_max_timestamp()

    def damaged(self, error: Exception) -> KafkaError:
        """What a reader is answered when a search fails."""
        return self._reading.damaged(error)

    def size(self) -> int:
        return sum(segment.size for segment in self._segments.all)

    def segments(self) -> list[SegmentInfo]:
        return [SegmentInfo(segment.base_offset, segment.size) for segment in self._segments.all]

    @property
    def starts_within_segment(self) -> bool:
        """Whether the log start is past the first segment's start, so that it must be written down."""
        return self.log_start_offset > self._segments.start

    # Letting go

    def retain(self, now_ms: int, high_watermark: int) -> int:
        """Remove the segments that the topic's retention no longer wants. Returns how many."""
        count = count_removable(
            self._segments.all,
            self.config,
            log_start_offset=self.log_start_offset,
            end_offset=self.end_offset,
            high_watermark=high_watermark,
            now_ms=now_ms,
        )
        if count:
            self._drop_oldest(count)
        return count

    def delete_records_before(self, offset: int) -> None:
        """Move the log start up to an offset, and remove the segments that lie wholly before it.

        Whoever calls this has made sure that the offset is not past the high watermark.
        """
        if offset > self.end_offset:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{self} ends at {self.end_offset}")
        if offset <= self.log_start_offset:
            return
        self.log_start_offset = offset
        self.epochs.truncate_start(offset)
        count = self._segments.beginning_up_to(offset) - 1
        if count:
            self._drop_oldest(count)

    def _drop_oldest(self, count: int) -> None:
        if count == len(self._segments.all):
            self.roll()
        try:
            self._remove_segments(0, count)
        finally:
            start = self._segments.start
            if start > self.log_start_offset:
                self.log_start_offset = start
                self.epochs.truncate_start(start)
        self.snapshots.keep_only(start, self.end_offset)

    def _remove_segments(self, start: int, stop: int) -> None:
        """Raises OSError; a segment whose files could not be renamed is still one of the log's, to be tried again."""
        doomed = self._segments.all[start:stop]
        self._directory_changed = True
        self._reading.forget()
        # From the outside in, so that a crash on the way leaves a log without holes.
        for segment in doomed if start == 0 else reversed(doomed):
            segment.discard(self.config.file_delete_delay_ms)
            self._segments.remove(segment)
            if segment in self._rolled:
                self._rolled.remove(segment)

    def segments_replaced(self, old: Sequence[Segment]) -> None:
        """Compaction has put a segment, which is on disk, in the place of some."""
        self._rolled = [segment for segment in self._rolled if segment not in old]
        self._directory_changed = True
        self._reading.forget()

    # Truncation, by followers

    def truncate_to(self, offset: int) -> None:
        """Cut the log after the last batch that ends before an offset. Raises KafkaError, OSError."""
        if offset >= self.end_offset:
            return
        if not self._segments.all or offset <= self._segments.start:
            # No segment is left when there was no room for the new one of an earlier attempt.
            self.truncate_fully(offset)
            return
        keep = self._segments.beginning_up_to(offset - 1)
        segment = self._segments.all[keep - 1]
        try:
            position, end_offset = segment.end_before(offset)
        except DamagedBatch as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self} is damaged: {error}") from error
        self._lower_checkpoints(end_offset)
        self._remove_segments(keep, len(self._segments.all))
        self._aborted.index_of(segment, self.log_start_offset)
        segment.truncate(position, end_offset)
        self._ends_at(end_offset)

    def truncate_fully(self, new_start: int) -> None:
        """Drop everything and go on as an empty log at an offset, as a follower does that fell behind its leader."""
        self._lower_checkpoints(new_start)
        self._remove_segments(0, len(self._segments.all))
        self._segments.add(Segment.create(self._storage, self.path, new_start))
        self.log_start_offset = new_start
        self.epochs.clear()
        self._ends_at(new_start)

    def _lower_checkpoints(self, offset: int) -> None:
        """Before records may be replaced by others, no checkpoint may vouch for them any more."""
        self.compaction.invalidate(offset)
        if offset < self.recovery_point or offset < self.log_start_offset:
            self.recovery_point = min(self.recovery_point, offset)
            self.log_start_offset = min(self.log_start_offset, offset)
            if self._before_truncation is not None:
                self._before_truncation()

    def before_truncation(self, checkpoint: Callable[[], None]) -> None:
        """Have this function write recovery points and log starts whenever a truncation lowers this log's."""
        self._before_truncation = checkpoint

    def _ends_at(self, offset: int) -> None:
        # In this order: a `sync` that starts in between sees the new end, one that runs finds its result limited.
        self.end_offset = offset
        self._untouched_end = TOUCHED
        self._sync_limit = min(self._sync_limit, offset)
        self.recovery_point = min(self.recovery_point, offset)
        self.log_start_offset = min(self.log_start_offset, offset)
        self.epochs.truncate_end(offset)
        self._reading.forget()
        self.replay_producers()

    def replay_producers(self) -> None:
        """Bring the producers to the end of the log."""
        self.snapshots.keep_only(self.log_start_offset, self.end_offset)
        self._replay.bring(self.producers, self.log_start_offset, self.end_offset)

    # Leader epochs

    @property
    def latest_epoch(self) -> int:
        return self.epochs.latest

    def assign_epoch(self, epoch: int, start_offset: int) -> None:
        self.epochs.assign(epoch, start_offset)

    def end_offset_for_epoch(self, epoch: int) -> EpochStart:
        """The largest epoch not above the one asked for, and where it ended; -1 and -1 when that is not known."""
        return self.epochs.end_offset_for(epoch, self.end_offset)

    # The end

    def close(self, *, clean: bool) -> None:
        """Let go of all files. `clean` also leaves them so that nothing is to be done at the next open.

        Blocking when clean, and then may run in a thread; no `sync` may be running.
        """
        preparation = self.prepare_to_close() if clean else None
        if preparation is not None:
            preparation.sync()
            self.finish_preparation(preparation)
        self._closed = True
        self.compaction.invalidate()
        for segment in self._segments.all:
            segment.close()
        self._reading.forget()
