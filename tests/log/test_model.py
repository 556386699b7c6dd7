"""The log against a list of batches: any sequence of operations, with stops and crashes at any point."""

import errno
import random
from bisect import bisect_right
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ottla.errors import ErrorCode, KafkaError
from ottla.log.config import LogConfig
from ottla.log.log import Log
from ottla.log.transaction_index import AbortedTransaction
from ottla.records.control import EndTransactionMarker, build_marker, read_marker
from ottla.records.header import BatchHeader, read_header
from ottla.records.reader import read_records
from ottla.records.rewrite import assign
from tests.log.fault_disk import FaultDisk
from tests.log.world import CLICKS, NOW_MS, TOPIC_ID, Batch, StillClock, batch, content, open_directory

CONFIG = LogConfig(
    segment_bytes=900, index_interval_bytes=100, retention_ms=50_000, retention_bytes=4000, file_delete_delay_ms=0
)


IDEMPOTENT = 7
TRANSACTIONAL = (20, 21, 22)


class ModelBatch:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.header: BatchHeader = read_header(data)
        self.base = self.header.base_offset
        self.last = self.header.last_offset
        self.marker = read_marker(data, self.header) if self.header.is_control else None

    @property
    def producer_id(self) -> int:
        return self.header.producer_id


class Ended(NamedTuple):
    producer_id: int
    first: int
    last: int
    committed: bool


def transactions(batches: list[ModelBatch]) -> tuple[dict[int, int], list[Ended]]:
    """The start of each open transaction, by producer, and the ended transactions."""
    begun: dict[int, int] = {}
    ended: list[Ended] = []
    for item in batches:
        if item.marker is not None:
            first = begun.pop(item.producer_id, None)
            if first is not None:
                ended.append(Ended(item.producer_id, first, item.base, item.marker.committed))
        elif item.header.is_transactional:
            begun.setdefault(item.producer_id, item.base)
    return begun, ended


def unstable(batches: list[ModelBatch], high_watermark: int) -> int:
    """The first offset that a `read_committed` consumer must not get, computed without the log."""
    begun, ended = transactions(batches)
    undecided = [*begun.values(), *(each.first for each in ended if each.last >= high_watermark)]
    return min([high_watermark, *undecided])


def read_committed(batches: list[ModelBatch], aborted: list[AbortedTransaction]) -> list[int]:
    """The base offsets of the batches that a consumer returns, given the list of aborted transactions."""
    waiting = sorted(aborted, key=lambda each: each.first_offset)
    skipped: set[int] = set()
    seen = []
    for item in batches:
        while waiting and waiting[0].first_offset <= item.last:
            skipped.add(waiting.pop(0).producer_id)
        if item.marker is not None:
            skipped.discard(item.producer_id)
        elif not (item.header.is_transactional and item.producer_id in skipped):
            seen.append(item.base)
    return seen


class LogMachine(RuleBasedStateMachine):
    """`batches` are all appended batches that were not truncated, including those before the log start."""

    @initialize()
    def begin(self) -> None:
        self.disk = FaultDisk()
        self.clock = StillClock()
        self.batches: list[ModelBatch] = []
        self.start = 0
        self.end = 0
        self.synced = 0
        """The log has reported everything below this offset as synced."""
        self.epoch = 0
        self.sequence = 0
        self.high_watermark = 0
        self.producer_epochs = dict.fromkeys(TRANSACTIONAL, 0)
        self.sequences = dict.fromkeys(TRANSACTIONAL, 0)
        self.directory = open_directory(self.disk, self.clock, config=CONFIG)
        self.log: Log = self.directory.create_log(CLICKS, TOPIC_ID, CONFIG)

    # Operations

    def _next_batch(self, timestamps: list[int], idempotent: bool) -> Batch:
        if not idempotent:
            return batch([NOW_MS + at for at in timestamps])
        return batch(
            [NOW_MS + at for at in timestamps],
            producer_id=IDEMPOTENT,
            producer_epoch=self.epoch,
            base_sequence=self.sequence,
        )

    @rule(timestamps=st.lists(st.integers(0, 100_000), min_size=1, max_size=8), idempotent=st.booleans())
    def append(self, timestamps: list[int], idempotent: bool) -> None:
        item = self._next_batch(timestamps, idempotent)
        assert self.log.append(item.view, item.header, self.epoch) is None
        assert read_header(item.view).base_offset == self.end
        assert self.log.end_offset == self.end + len(timestamps)
        self._appended(item)

    def _in_transaction(self, producer_id: int, count: int, base_offset: int = 0) -> Batch:
        return batch(
            count,
            producer_id=producer_id,
            producer_epoch=self.producer_epochs[producer_id],
            base_sequence=self.sequences[producer_id],
            base_offset=base_offset,
            leader_epoch=self.epoch,
            transactional=True,
        )

    @rule(producer_id=st.sampled_from(TRANSACTIONAL), count=st.integers(1, 4))
    def append_in_transaction(self, producer_id: int, count: int) -> None:
        item = self._in_transaction(producer_id, count)
        begun, _ = transactions([item for item in self.batches if item.last >= self.start])
        if producer_id not in begun and self.start == 0:
            with pytest.raises(KafkaError) as error:
                self.log.append_in_transaction(item.view, item.header, self.epoch, None)
            assert error.value.code == ErrorCode.INVALID_TXN_STATE
        guard = self.log.begin_verification(
            producer_id, item.header.base_sequence, item.header.producer_epoch, supports_epoch_bump=False
        )
        assert self.log.append_in_transaction(item.view, item.header, self.epoch, guard) is None
        self._appended(item)

    def _next_marker(self, producer_id: int, committed: bool, version: int) -> EndTransactionMarker:
        epoch = self.producer_epochs[producer_id] + (1 if version == 2 else 0)
        return EndTransactionMarker(producer_id, epoch, 0, committed)

    @rule(producer_id=st.sampled_from(TRANSACTIONAL), committed=st.booleans(), version=st.sampled_from([1, 2]))
    def end_transaction(self, producer_id: int, committed: bool, version: int) -> None:
        marker = self._next_marker(producer_id, committed, version)
        offset = self.log.append_marker(
            marker,
            self.epoch,
            self.clock.now_ms,
            transaction_version=version,
            high_watermark=self.high_watermark,
        )
        assert offset == self.end
        self._appended(self._stored_marker(marker, offset))

    def _stored_marker(self, marker: EndTransactionMarker, offset: int) -> Batch:
        data = build_marker(marker, self.clock.now_ms)
        assign(data, read_header(data), offset, self.epoch)
        return Batch(memoryview(data), read_header(data))

    @rule(
        producer_id=st.sampled_from(TRANSACTIONAL),
        committed=st.booleans(),
        room=st.integers(0, 77),
        after_index=st.booleans(),
    )
    def marker_on_a_full_disk(self, producer_id: int, committed: bool, room: int, after_index: bool) -> None:
        marker = self._next_marker(producer_id, committed, 2)
        begun, _ = transactions(self.batches)
        self.disk.room = room + (
            34 if after_index and not committed and producer_id in begun and self.start == 0 else 0
        )
        with pytest.raises(OSError, match="No space left"):
            self.log.append_marker(
                marker,
                self.epoch,
                self.clock.now_ms,
                transaction_version=2,
                high_watermark=self.high_watermark,
            )
        self.disk.room = None

    @rule(
        kinds=st.lists(
            st.tuples(st.sampled_from(["plain", "data", "commit", "abort"]), st.integers(1, 4)), min_size=2, max_size=4
        ),
        producer_id=st.sampled_from(TRANSACTIONAL),
        gap=st.integers(0, 3),
    )
    def append_as_follower(self, kinds: list[tuple[str, int]], producer_id: int, gap: int) -> None:
        offset = self.end + gap
        parts = []
        sequences, epochs = dict(self.sequences), dict(self.producer_epochs)
        for kind, count in kinds:
            if kind == "plain":
                part = batch(count, base_offset=offset, leader_epoch=self.epoch)
            elif kind == "data":
                part = self._in_transaction(producer_id, count, offset)
            else:
                part = self._stored_marker(self._next_marker(producer_id, kind == "commit", 2), offset)
            self._account(part.header)
            parts.append(part)
            offset = part.header.next_offset
        self.sequences, self.producer_epochs = sequences, epochs
        data = bytearray(b"".join(part.view for part in parts))
        self.log.append_as_follower(memoryview(data), [part.header for part in parts], self.high_watermark)
        for part in parts:
            self._appended(part)

    def _appended(self, item: Batch) -> None:
        stored = ModelBatch(bytes(item.view))
        self.batches.append(stored)
        self.end = stored.last + 1
        self._account(item.header)

    def _account(self, header: BatchHeader) -> None:
        """The producer's next sequence number and epoch after a batch."""
        if header.producer_id == IDEMPOTENT:
            self.sequence += header.record_count
        elif header.is_control and header.producer_epoch > self.producer_epochs[header.producer_id]:
            self.producer_epochs[header.producer_id] = header.producer_epoch
            self.sequences[header.producer_id] = 0
        elif header.is_transactional and not header.is_control:
            self.sequences[header.producer_id] += header.record_count

    @rule(data=st.data())
    def advance_high_watermark(self, data: st.DataObject) -> None:
        self.high_watermark = data.draw(st.integers(self.high_watermark, self.end))

    @precondition(lambda self: self.batches and self.batches[-1].producer_id == IDEMPOTENT)
    @rule()
    def append_again(self) -> None:
        last = self.batches[-1]
        if last.header.producer_epoch != self.epoch or last.last < self.start:
            return
        data = memoryview(bytearray(last.data))
        original = self.log.append(data, last.header, self.epoch)
        assert original is not None
        assert (original.first_offset, original.last_offset) == (last.base, last.last)

    @rule(room=st.integers(0, 80))
    def append_to_full_disk(self, room: int) -> None:
        item = self._next_batch([1, 2, 3], True)
        self.disk.room = room
        with pytest.raises(OSError, match="No space left") as error:
            self.log.append(item.view, item.header, self.epoch)
        assert error.value.errno == errno.ENOSPC
        self.disk.room = None

    @rule()
    def new_leader(self) -> None:
        self.epoch += 1
        self.sequence = 0
        self.log.assign_epoch(self.epoch, self.log.end_offset)

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.start, self.end))
        self.log.delete_records_before(offset)
        self.start = offset
        assert self.log.log_start_offset == offset

    @rule(passed=st.integers(0, 200_000), data=st.data())
    def retain(self, passed: int, data: st.DataObject) -> None:
        self.clock.now_ms += passed
        high_watermark = data.draw(st.integers(self.start, self.end))
        bases = [segment.base_offset for segment in self.log.segments()]
        removed = self.log.retain(self.clock.now_ms, high_watermark)
        self.start = max(self.start, ([*bases, self.end])[removed])
        assert self.start <= max(high_watermark, self.log.log_start_offset)

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(max(0, self.start - 5), self.end))
        self.log.truncate_to(offset)
        kept = [item for item in self.batches if item.last < offset]
        assert self.log.end_offset <= offset
        self._cut(self.log.end_offset)
        assert [item.base for item in self.batches] == [item.base for item in kept]
        self._new_epochs()
        # A power loss may undo an unsynced truncation, like any unsynced change.
        self.sync()

    def _cut(self, end: int) -> None:
        self.batches = [item for item in self.batches if item.last < end]
        self.end = end
        self.start = min(self.start, end)
        self.synced = min(self.synced, end)

    def _new_epochs(self) -> None:
        """The log may have lost state, so all producers start again. All remaining records are committed."""
        self.epoch += 1
        self.sequence = 0
        for producer_id in TRANSACTIONAL:
            self.producer_epochs[producer_id] += 1
            self.sequences[producer_id] = 0
        self.high_watermark = self.end

    @rule(data=st.data())
    def read(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.start, self.end))
        limit = data.draw(st.integers(self.start, self.end + 1))
        max_bytes = data.draw(st.integers(0, 1200))
        read = self.log.read(offset, max_bytes, limit)
        self._check_read(offset, max_bytes, limit, content(read))

    def _check_read(self, offset: int, max_bytes: int, limit: int, found: bytes) -> None:
        readable = [item for item in self.batches if item.last >= offset and item.last < limit]
        if offset >= limit or not readable or any(offset <= item.last < readable[0].last for item in self.batches):
            assert found == b""
            return
        bases = [segment.base_offset for segment in self.log.segments()]
        segment = bisect_right(bases, readable[0].base)
        expected = readable[0].data
        for item in readable[1:]:
            if bisect_right(bases, item.base) != segment or len(expected) + len(item.data) > max_bytes:
                break
            expected += item.data
        assert found == expected

    @rule(timestamp=st.integers(-10, 100_010))
    def look_up_time(self, timestamp: int) -> None:
        expected = next(
            (
                (record.offset, record.timestamp)
                for item in self.batches
                for record in read_records(item.data)
                if record.offset >= self.start and record.timestamp >= NOW_MS + timestamp
            ),
            None,
        )
        found = self.log.offset_for_timestamp(NOW_MS + timestamp)
        assert (None if found is None else (found.offset, found.timestamp)) == expected

    @rule()
    def read_out_of_range(self) -> None:
        for offset in (self.start - 1, self.end + 1):
            with pytest.raises(KafkaError) as error:
                self.log.read(offset, 100, self.end)
            assert error.value.code == ErrorCode.OFFSET_OUT_OF_RANGE

    @rule()
    def sync(self) -> None:
        self.log.synced(self.log.sync())
        self.synced = self.end
        assert self.log.recovery_point == self.end

    @rule()
    def checkpoint(self) -> None:
        self.directory.checkpoint_recovery_points()
        self.directory.checkpoint_log_start_offsets()

    # Stops

    @rule()
    def close_and_open(self) -> None:
        self.directory.close()
        self._open()
        assert (self.log.log_start_offset, self.log.end_offset) == (self.start, self.end)
        self.synced = self.end
        self._new_epochs()

    @rule()
    def kill_and_open(self) -> None:
        self.disk.kill()
        self._open()
        assert self.log.end_offset == self.end
        self._start_may_fall_back()
        self._new_epochs()

    @rule(seed=st.integers(0, 2**32))
    def lose_power_and_open(self, seed: int) -> None:
        self.disk.lose_power(random.Random(seed))
        self._open()
        assert self.synced <= self.log.end_offset <= self.end
        self._cut(self.log.end_offset)
        self._start_may_fall_back()
        self._new_epochs()
        # Recovered records need not be on disk. Another crash may lose them, down to the last reported sync.

    def _open(self) -> None:
        self.directory = open_directory(self.disk, self.clock, config=CONFIG)
        if CLICKS not in self.directory.logs:
            assert self.synced == 0, "the whole log is gone, although some of it was synced"
            self.directory.create_log(CLICKS, TOPIC_ID, CONFIG)
        self.log = self.directory.logs[CLICKS]

    def _start_may_fall_back(self) -> None:
        """The log start is checkpointed periodically. A crash undoes changes since the last checkpoint."""
        assert self.log.log_start_offset <= self.start
        self.start = self.log.log_start_offset

    # Invariants

    @invariant()
    def offsets_agree(self) -> None:
        assert (self.log.log_start_offset, self.log.end_offset) == (self.start, self.end)
        assert self.log.recovery_point <= self.end

    @invariant()
    def all_is_readable(self) -> None:
        offset, found = self.start, b""
        while offset < self.end:
            read = self.log.read(offset, 500, self.end)
            if not read.size:
                break
            found += content(read)
            offset = read.next_offset
        assert found == b"".join(item.data for item in self.batches if item.last >= self.start)

    @invariant()
    def transactions_agree(self) -> None:
        """The log may drop the state of records before the log start, and of transactions without other records."""
        self.high_watermark = max(self.high_watermark, self.start)
        visible = [item for item in self.batches if item.last >= self.start]
        stable = self.log.last_stable_offset(self.high_watermark)
        assert max(unstable(self.batches, self.high_watermark), self.start) <= stable
        assert stable <= max(unstable(visible, self.high_watermark), self.start)
        if self.start == 0:
            begun, _ = transactions(self.batches)
            assert {
                producer.producer_id: producer.transaction_start
                for producer in self.log.producers.active()
                if producer.transaction_start >= 0
            } == begun

    @rule(data=st.data())
    def read_what_is_committed(self, data: st.DataObject) -> None:
        stable = self.log.last_stable_offset(self.high_watermark)
        offset = data.draw(st.integers(self.start, max(self.start, stable)))
        limit = data.draw(st.integers(offset, max(offset, stable)))
        found = self.log.aborted_transactions(offset, limit)
        _, ended = transactions(self.batches)
        aborted = [each for each in ended if not each.committed and each.last >= offset and each.first < limit]
        if self.start == 0:
            assert [each[:3] for each in found] == [each[:3] for each in aborted]
        read = [item for item in self.batches if item.last >= offset and item.last < limit]
        expected = [
            item.base
            for item in read
            if item.marker is None
            and not any(
                item.producer_id == each.producer_id and each.first <= item.base < each.last for each in aborted
            )
        ]
        assert read_committed(read, found) == expected


LogMachine.TestCase.settings = settings(
    max_examples=200, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)
TestLog = LogMachine.TestCase
