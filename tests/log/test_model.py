"""The log against a list of batches: any sequence of operations, with stops and crashes at any point."""

import errno
import random
from bisect import bisect_right

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ottla.errors import ErrorCode, KafkaError
from ottla.log.config import LogConfig
from ottla.log.log import Log
from ottla.records.header import BatchHeader, read_header
from ottla.records.reader import read_records
from tests.log.fault_disk import FaultDisk
from tests.log.world import CLICKS, NOW_MS, TOPIC_ID, Batch, StillClock, batch, content, open_directory

CONFIG = LogConfig(
    segment_bytes=900, index_interval_bytes=100, retention_ms=50_000, retention_bytes=4000, file_delete_delay_ms=0
)


class ModelBatch:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.header: BatchHeader = read_header(data)
        self.base = self.header.base_offset
        self.last = self.header.last_offset


class LogMachine(RuleBasedStateMachine):
    """`batches` are all that were ever appended and not truncated, also those before the log start."""

    @initialize()
    def begin(self) -> None:
        self.disk = FaultDisk()
        self.clock = StillClock()
        self.batches: list[ModelBatch] = []
        self.start = 0
        self.end = 0
        self.synced = 0
        """Everything below is on disk, as far as the log has said so."""
        self.epoch = 0
        self.sequence = 0
        self.directory = open_directory(self.disk, self.clock, config=CONFIG)
        self.log: Log = self.directory.create_log(CLICKS, TOPIC_ID, CONFIG)

    # Operations

    def _next_batch(self, timestamps: list[int], idempotent: bool) -> Batch:
        if not idempotent:
            return batch([NOW_MS + at for at in timestamps])
        return batch(
            [NOW_MS + at for at in timestamps], producer_id=7, producer_epoch=self.epoch, base_sequence=self.sequence
        )

    @rule(timestamps=st.lists(st.integers(0, 100_000), min_size=1, max_size=8), idempotent=st.booleans())
    def append(self, timestamps: list[int], idempotent: bool) -> None:
        item = self._next_batch(timestamps, idempotent)
        assert self.log.append(item.view, item.header, self.epoch) is None
        assert read_header(item.view).base_offset == self.end
        assert self.log.end_offset == self.end + len(timestamps)
        self._appended(item)

    @rule(sizes=st.lists(st.integers(1, 4), min_size=2, max_size=4), gap=st.integers(0, 3))
    def append_as_follower(self, sizes: list[int], gap: int) -> None:
        offset = self.end + gap
        parts = []
        for count in sizes:
            parts.append(batch(count, base_offset=offset, leader_epoch=self.epoch))
            offset += count
        data = bytearray(b"".join(part.view for part in parts))
        self.log.append_as_follower(memoryview(data), [part.header for part in parts])
        for part in parts:
            self._appended(part)

    def _appended(self, item: Batch) -> None:
        stored = ModelBatch(bytes(item.view))
        self.batches.append(stored)
        self.end = stored.last + 1
        if stored.header.producer_id >= 0:
            self.sequence += stored.header.record_count

    @precondition(lambda self: self.batches and self.batches[-1].header.producer_id >= 0)
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
        self.epoch += 1
        self.sequence = 0
        # A truncation that is not synced may be undone by a power loss, as any change.
        self.sync()

    def _cut(self, end: int) -> None:
        self.batches = [item for item in self.batches if item.last < end]
        self.end = end
        self.start = min(self.start, end)
        self.synced = min(self.synced, end)

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

    @rule()
    def kill_and_open(self) -> None:
        self.disk.kill()
        self._open()
        assert self.log.end_offset == self.end
        self._start_may_fall_back()

    @rule(seed=st.integers(0, 2**32))
    def lose_power_and_open(self, seed: int) -> None:
        self.disk.lose_power(random.Random(seed))
        self._open()
        assert self.synced <= self.log.end_offset <= self.end
        self._cut(self.log.end_offset)
        self._start_may_fall_back()
        # What was recovered need not be on disk: another crash may take it, down to what was known to be synced.

    def _open(self) -> None:
        self.directory = open_directory(self.disk, self.clock, config=CONFIG)
        if CLICKS not in self.directory.logs:
            assert self.synced == 0, "the whole log is gone, although some of it was synced"
            self.directory.create_log(CLICKS, TOPIC_ID, CONFIG)
        self.log = self.directory.logs[CLICKS]
        self.sequence = 0
        self.epoch += 1

    def _start_may_fall_back(self) -> None:
        """The log start is written down now and then; until it is, a crash undoes it."""
        assert self.log.log_start_offset <= self.start
        self.start = self.log.log_start_offset

    # What always holds

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


LogMachine.TestCase.settings = settings(
    max_examples=200, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)
TestLog = LogMachine.TestCase
