"""A compacted log against a model of all written batches: any order of operations, with crashes at any point."""

import random

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ottla.log.cleaning import CleanedSegment, Cleaning
from ottla.log.log import Log
from ottla.records.builder import NewRecord, build_batch
from ottla.records.control import EndTransactionMarker
from ottla.records.format import Codec
from ottla.records.header import read_header
from tests.log.compacted_log import (
    StoredBatch,
    check,
    check_compacted,
    check_files,
    producer_states,
    stored_batches,
)
from tests.log.compaction_script import compaction_config
from tests.log.crashing_disk import CrashingDisk, PowerCut
from tests.log.world import CLICKS, TOPIC_ID, StillClock, open_directory

CONFIG = compaction_config(segment_bytes=700)
IDEMPOTENT = 10
TRANSACTIONAL = (20, 21)
NOBODY = -1

record = st.tuples(st.sampled_from([b"a", b"b", b"c", b"d"]), st.sampled_from([b"one", b"two", None]))


class CompactionMachine(RuleBasedStateMachine):
    """`batches` are all appended batches that no crash has lost, before compaction."""

    @initialize()
    def begin(self) -> None:
        self.disk = CrashingDisk()
        self.clock = StillClock()
        self.batches: list[StoredBatch] = []
        self.synced = 0
        self.high_watermark = 0
        self.leader_epoch = 0
        self.directory = open_directory(self.disk, self.clock, config=CONFIG)
        self.log: Log = self.directory.create_log(CLICKS, TOPIC_ID, CONFIG)
        self.cleaning: Cleaning | None = None
        self.sync()

    # Writing

    @rule(batches=st.lists(st.lists(record, min_size=1, max_size=4), min_size=3, max_size=8), chance=st.randoms())
    def append_many(self, batches: list[list[tuple[bytes, bytes | None]]], chance: random.Random) -> None:
        for records in batches:
            self.append(records, chance.choice([NOBODY, IDEMPOTENT, *TRANSACTIONAL]), Codec.NONE)
            if chance.random() < 0.3:
                self.end_transaction(chance.choice(TRANSACTIONAL), chance.random() < 0.5, chance.choice([1, 2]))

    @rule(
        records=st.lists(record, min_size=1, max_size=4),
        producer_id=st.sampled_from([NOBODY, NOBODY, IDEMPOTENT, *TRANSACTIONAL, *TRANSACTIONAL]),
        codec=st.sampled_from([Codec.NONE, Codec.LZ4]),
    )
    def append(self, records: list[tuple[bytes, bytes | None]], producer_id: int, codec: Codec) -> None:
        epoch, sequence, _ = producer_states(self.log).get(producer_id, (0, 0, -1))
        transactional = producer_id in TRANSACTIONAL
        data = build_batch(
            [NewRecord(key, value, (), self.clock.now_ms + at) for at, (key, value) in enumerate(records)],
            codec=codec,
            producer_id=producer_id,
            producer_epoch=epoch if producer_id >= 0 else -1,
            base_sequence=sequence if producer_id >= 0 else -1,
            transactional=transactional,
        )
        header = read_header(data)
        if transactional:
            guard = self.log.begin_verification(producer_id, sequence, epoch, supports_epoch_bump=False)
            original = self.log.append_in_transaction(memoryview(data), header, self.leader_epoch, guard)
        else:
            original = self.log.append(memoryview(data), header, self.leader_epoch)
        assert original is None
        self.batches.append(StoredBatch(bytes(data)))

    @rule(producer_id=st.sampled_from(TRANSACTIONAL), committed=st.booleans(), version=st.sampled_from([1, 2]))
    def end_transaction(self, producer_id: int, committed: bool, version: int) -> None:
        epoch, _, start = producer_states(self.log).get(producer_id, (0, 0, -1))
        if start < 0:
            return
        marker = EndTransactionMarker(producer_id, epoch + version - 1, 0, committed)
        end = self.log.end_offset
        self.log.append_marker(
            marker,
            self.leader_epoch,
            self.clock.now_ms,
            transaction_version=version,
            high_watermark=self.high_watermark,
        )
        (data,) = [data for data in stored_batches(self.log) if read_header(data).base_offset == end]
        self.batches.append(StoredBatch(data))

    @rule()
    def new_leader(self) -> None:
        self.leader_epoch += 1

    @rule(fraction=st.floats(0, 1))
    def commit(self, fraction: float) -> None:
        """Records below the high watermark are never truncated."""
        behind = self.log.end_offset - self.high_watermark
        self.high_watermark += round(behind * max(fraction, 0.5))

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule(milliseconds=st.sampled_from([10, 600]))
    def pass_time(self, milliseconds: int) -> None:
        self.clock.now_ms += milliseconds

    # Compaction step by step, with other operations in between

    @rule()
    def sync(self) -> None:
        self.log.synced(self.log.sync())
        self.directory.checkpoint_recovery_points()
        self.synced = self.log.end_offset

    @precondition(lambda self: self.cleaning is None)
    @rule(memory=st.sampled_from([1, 1000, 1 << 20]), everything=st.booleans())
    def start_pass(self, memory: int, everything: bool) -> None:
        if everything:
            self._make_compactable()
        cleanable = self.log.compaction.cleanable(self.clock.now_ms, self.high_watermark)
        if cleanable.is_due(CONFIG):
            self.cleaning = self.log.compaction.start(cleanable, self.clock.now_ms, memory)
            self.directory.checkpoint_recovery_points()
            self.cleaning.prepare()

    def _make_compactable(self) -> None:
        for producer_id in TRANSACTIONAL:
            self.end_transaction(producer_id, True, 2)
        self.log.roll()
        self.commit(1.0)
        self.sync()

    @precondition(lambda self: self.cleaning is not None)
    @rule()
    def clean_group(self) -> None:
        assert self.cleaning is not None
        if not self.cleaning.groups:
            self.log.compaction.finish(self.cleaning)
            self.directory.checkpoint_cleaned_offsets(self.log)
            self.cleaning = None
            check_compacted(self.log)
            return
        group = self.cleaning.groups.pop(0)
        if self.log.compaction.holds(group):
            cleaned = self.cleaning.clean(group)
            if cleaned is not None:
                assert self.log.compaction.swap(cleaned)

    @precondition(lambda self: self.cleaning is not None and self.cleaning.groups)
    @rule(fraction=st.floats(0, 1))
    def start_changes_while_a_group_is_cleaned(self, fraction: float) -> None:
        """Retention may remove the segments before their replacement is ready. The replacement is then dropped."""
        assert self.cleaning is not None
        group = self.cleaning.groups.pop(0)
        if self.log.compaction.holds(group):
            cleaned = self.cleaning.clean(group)
            self.delete_records(fraction)
            if cleaned is not None:
                self.log.compaction.swap(cleaned)

    @rule(fraction=st.floats(0, 1))
    def delete_records(self, fraction: float) -> None:
        start = self.log.log_start_offset
        self.log.delete_records_before(start + int((self.high_watermark - start) * fraction * 0.3))

    @rule(back=st.integers(1, 12))
    def truncate(self, back: int) -> None:
        """Truncate at the end of a batch, like a follower. A running pass must notice."""
        if back >= len(self.batches):
            return
        kept = self.batches[-1 - back].header.next_offset
        if kept <= max(self.log.log_start_offset, self.high_watermark):
            return
        generation = self.log.compaction.generation
        self.log.truncate_to(kept)
        assert self.log.compaction.generation > generation
        self._lost_from(self.log.end_offset)
        self.sync()  # Otherwise a power loss could undo the truncation.
        if self.cleaning is not None:
            while self.cleaning.groups:
                group = self.cleaning.groups.pop()
                cleaned = CleanedSegment(group, self.cleaning.log.generation, 0, 0)
                assert not self.log.compaction.swap(cleaned)
            self.cleaning = None

    def _lost_from(self, end: int) -> None:
        self.batches = [batch for batch in self.batches if batch.header.next_offset <= end]
        self.synced = min(self.synced, end)
        self.high_watermark = min(self.high_watermark, end)

    # Crashes

    @rule(steps=st.integers(0, 60), power=st.one_of(st.none(), st.integers(0, 1000)))
    def crash_in_a_pass(self, steps: int, power: int | None) -> None:
        self._make_compactable()
        cleanable = self.log.compaction.cleanable(self.clock.now_ms, self.high_watermark)
        if not cleanable.is_due(CONFIG):
            return
        self.directory.checkpoint_recovery_points()
        self.disk.steps_left = steps
        try:
            cleaning = self.log.compaction.start(cleanable, self.clock.now_ms, 1 << 20)
            cleaning.prepare()
            for group in cleaning.groups:
                cleaned = cleaning.clean(group)
                if cleaned is not None:
                    self.log.compaction.swap(cleaned)
            self.log.compaction.finish(cleaning)
            self.directory.checkpoint_cleaned_offsets(self.log)
        except PowerCut:
            pass
        self.disk.steps_left = None
        self.crash(power)

    @rule(power=st.one_of(st.none(), st.integers(0, 1000)))
    def crash(self, power: int | None) -> None:
        self.directory.checkpoint_log_start_offsets()
        if power is None:
            self.disk.kill()
        else:
            self.disk.lose_power(random.Random(power))
        self._reopen()
        end = self.log.end_offset
        assert end >= self.synced
        self._lost_from(end)

    @rule()
    def restart(self) -> None:
        self.directory.close()
        states, epochs = producer_states(self.log), self._epochs()
        self._reopen()
        assert producer_states(self.log) == states
        assert self._epochs() == epochs

    def _epochs(self) -> list[int]:
        """The leader epoch of every offset."""
        log = self.log
        return [log.epochs.epoch_at(offset) for offset in range(log.log_start_offset, log.end_offset)]

    def _reopen(self) -> None:
        self.cleaning = None
        self.directory = open_directory(self.disk, self.clock, config=CONFIG)
        self.log = self.directory.logs[CLICKS]
        self.leader_epoch = max(self.leader_epoch, self.log.latest_epoch + 1)
        check_files(self.disk, self.log)

    @invariant()
    def holds(self) -> None:
        if not hasattr(self, "log"):
            return
        check(self.log, self.batches, self.clock.now_ms)


CompactionMachine.TestCase.settings = settings(
    max_examples=150, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)
TestCompaction = CompactionMachine.TestCase
