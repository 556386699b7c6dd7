"""The rules of compaction, one at a time."""

import pytest

from ottla.env.disk import Disk
from ottla.log.cleaning import CleaningVoidError
from ottla.log.config import LogConfig
from ottla.log.directory import LogDirectory
from ottla.log.layout import CLEANED_OFFSETS
from ottla.log.log import Log
from ottla.log.scan import DamagedBatch
from ottla.records.builder import NewRecord, build_batch
from ottla.records.format import Codec
from ottla.records.header import read_header
from tests.log.compacted_log import check_files, producer_states, stored_batches, visible
from tests.log.compaction_script import MEMORY, clean, compaction_config, sync
from tests.log.fault_disk import FaultDisk
from tests.log.world import CLICKS, NOW_MS, StillClock, content, end_transaction, new_log, open_directory

CONFIG = compaction_config(segment_bytes=1 << 20)
DAY = 24 * 60 * 60 * 1000


class World:
    """A log of which compaction may clean everything after `seal`."""

    def __init__(self, config: LogConfig = CONFIG) -> None:
        self.disk = FaultDisk()
        self.config = config
        self.clock = StillClock()
        self.directory: LogDirectory
        self.log: Log
        self.directory, self.log = new_log(self.disk, self.clock, config=config)

    def put(
        self,
        *records: tuple[bytes | None, bytes | None],
        producer: int = -1,
        sequence: int = 0,
        transactional: bool = False,
        codec: Codec = Codec.NONE,
        leader_epoch: int = 0,
        timestamp: int = NOW_MS,
    ) -> int:
        """Append one batch and return the offset of its first record."""
        data = build_batch(
            [NewRecord(key, value, (), timestamp + at) for at, (key, value) in enumerate(records)],
            codec=codec,
            producer_id=producer,
            producer_epoch=0 if producer >= 0 else -1,
            base_sequence=sequence if producer >= 0 else -1,
            transactional=transactional,
        )
        base_offset = self.log.end_offset
        if transactional:
            guard = self.log.begin_verification(producer, sequence, 0, supports_epoch_bump=False)
            self.log.append_in_transaction(memoryview(data), read_header(data), leader_epoch, guard)
        else:
            self.log.append(memoryview(data), read_header(data), leader_epoch)
        return base_offset

    def seal(self) -> None:
        self.log.roll()
        sync(self.log)

    def compact(self, memory: int = MEMORY) -> None:
        self.seal()
        assert clean(self.log, self.clock.now_ms, memory) is not None

    def reopen(self) -> None:
        self.directory.close()
        self.directory = open_directory(self.disk, self.clock, config=self.config)
        self.log = self.directory.logs[CLICKS]

    def read(self) -> list[tuple[int, bytes | None, bytes | None]]:
        return [(record.offset, record.key, record.value) for record in visible(self.log)]

    def bases(self) -> list[int]:
        return [segment.base_offset for segment in self.log.segments()]


# Which records stay


def test_the_last_value_of_each_key_stays_at_its_offset() -> None:
    world = World()
    world.put((b"a", b"1"), (b"b", b"1"))
    world.put((b"a", b"2"), (b"c", b"1"), (b"a", b"3"))
    world.compact()
    assert world.read() == [(1, b"b", b"1"), (3, b"c", b"1"), (4, b"a", b"3")]
    assert world.put((b"d", b"1")) == 5


def test_the_active_segment_is_not_touched() -> None:
    world = World()
    world.put((b"a", b"1"))
    world.seal()
    world.put((b"a", b"2"))
    world.put((b"a", b"3"))
    sync(world.log)
    clean(world.log, NOW_MS)
    assert world.read() == [(0, b"a", b"1"), (1, b"a", b"2"), (2, b"a", b"3")]


def test_records_without_a_key_go() -> None:
    world = World()
    world.put((None, b"1"), (b"a", b"1"))
    world.put((None, b"2"))
    world.put((b"b", b"1"))
    world.compact()
    assert world.read() == [(1, b"a", b"1"), (3, b"b", b"1")]


def test_a_tombstone_goes_when_its_horizon_is_past() -> None:
    world = World()
    world.put((b"a", b"1"), (b"b", b"1"))
    world.put((b"a", None), (b"c", b"1"))
    world.compact()
    assert world.read() == [(1, b"b", b"1"), (2, b"a", None), (3, b"c", b"1")]
    timestamps = [record.timestamp for record in visible(world.log)]
    assert timestamps == [NOW_MS + 1, NOW_MS, NOW_MS + 1]
    for milliseconds, kept in ((999, [1, 2, 3, 4]), (1, [1, 3, 4, 5])):
        world.clock.now_ms += milliseconds
        world.put((b"%d" % milliseconds, b"1"))
        world.compact()
        assert [record[0] for record in world.read()] == kept


def test_what_is_not_synced_replaces_nothing() -> None:
    world = World()
    world.put((b"a", b"1"))
    world.seal()
    world.put((b"a", b"2"))
    world.log.roll()
    assert clean(world.log, NOW_MS) is None
    assert world.log.compaction.cleanable_after_sync(NOW_MS, world.log.end_offset).segments == 2
    sync(world.log)
    clean(world.log, NOW_MS)
    assert world.read() == [(1, b"a", b"2")]


def test_what_is_synced_later_does_not_hold_up_what_was_synced() -> None:
    world = World()
    world.put((b"a", b"1"), (b"a", b"2"))
    world.log.roll()
    assert clean(world.log, NOW_MS) is None
    sync(world.log)
    world.put((b"a", b"3"))
    assert clean(world.log, NOW_MS) is not None
    assert world.read() == [(1, b"a", b"2"), (2, b"a", b"3")]


# Transactions


def test_an_open_transaction_replaces_nothing() -> None:
    world = World()
    world.put((b"a", b"1"))
    world.seal()
    world.put((b"a", b"2"), producer=5, transactional=True)
    world.seal()
    clean(world.log, NOW_MS)
    assert [read_header(data).record_count for data in stored_batches(world.log)] == [1, 1]
    end_transaction(world.log, 5, committed=False)
    world.compact()
    assert world.read() == [(0, b"a", b"1")]


def test_a_transaction_whose_marker_may_be_lost_replaces_nothing() -> None:
    world = World()
    world.put((b"a", b"1"))
    world.seal()
    world.put((b"a", b"2"), producer=5, transactional=True)
    world.seal()
    end_transaction(world.log, 5, committed=True, high_watermark=world.log.end_offset)
    assert world.log.last_stable_offset(world.log.end_offset) == 3
    clean(world.log, NOW_MS)
    assert world.read() == [(0, b"a", b"1"), (1, b"a", b"2")]
    sync(world.log)
    clean(world.log, NOW_MS)
    assert world.read() == [(1, b"a", b"2")]


def test_aborted_records_go_and_their_marker_after_them() -> None:
    world = World()
    world.put((b"a", b"1"))
    world.put((b"a", b"2"), producer=5, transactional=True)
    end_transaction(world.log, 5, committed=False)
    world.put((b"z", b"1"), producer=5, sequence=1)
    world.compact()
    assert world.read() == [(0, b"a", b"1"), (3, b"z", b"1")]
    offsets = []
    for _ in range(4):
        offsets.append([read_header(data).base_offset for data in stored_batches(world.log)])
        world.clock.now_ms += 600
        world.put((b"z", b"1"))
        world.compact()
    # The marker stays in the pass that removes the records. The next pass sets its delete horizon, 1 s later.
    assert [2 in each for each in offsets] == [True, True, True, False]
    assert world.log.aborted_transactions(0, world.log.end_offset) == []


def test_an_aborted_transaction_of_the_past_says_nothing_of_the_next() -> None:
    world = World()
    world.put((b"a", b"1"), producer=5, transactional=True)
    end_transaction(world.log, 5, committed=False)
    world.compact()
    assert world.log.aborted_transactions(0, world.log.end_offset) != []
    world.put((b"b", b"1"))
    world.put((b"b", b"2"), producer=5, sequence=1, transactional=True)
    end_transaction(world.log, 5, committed=True, high_watermark=world.log.end_offset)
    world.compact()
    assert world.read() == [(3, b"b", b"2")]


# Batches


def test_a_batch_of_which_nothing_goes_keeps_its_bytes() -> None:
    world = World()
    world.put((b"a", b"1"), codec=Codec.GZIP)
    world.put((b"b", b"1"), (b"c", b"1"), codec=Codec.ZSTD)
    world.put((b"a", b"2"))
    before = stored_batches(world.log)
    world.compact()
    assert stored_batches(world.log) == before[1:]


@pytest.mark.parametrize("codec", list(Codec))
def test_a_batch_that_loses_records_keeps_everything_else(codec: Codec) -> None:
    world = World()
    world.put((b"a", b"1"), (b"b", b"1"), (b"c", b"1"), producer=5, codec=codec, leader_epoch=3)
    before = read_header(stored_batches(world.log)[0])
    world.put((b"c", b"2"), (b"a", b"2"))
    world.compact()
    header = read_header(stored_batches(world.log)[0])
    assert header.codec is codec
    assert header.record_count == 1
    assert header.max_timestamp == NOW_MS + 1
    changed = {"batch_length", "crc", "record_count", "max_timestamp"}
    for name in set(header._fields) - changed:
        assert getattr(header, name) == getattr(before, name), name


def test_the_last_batch_of_a_producer_stays_without_records() -> None:
    world = World()
    world.put((b"a", b"1"), producer=5)
    world.put((b"b", b"1"), producer=5, sequence=1)
    world.put((b"a", b"2"), (b"b", b"2"))
    world.compact()
    assert [(read_header(data).base_offset, read_header(data).record_count) for data in stored_batches(world.log)] == [
        (1, 0),
        (2, 2),
    ]
    known = producer_states(world.log)
    world.disk.kill()
    world.directory = open_directory(world.disk, world.clock, config=CONFIG)
    world.log = world.directory.logs[CLICKS]
    assert producer_states(world.log) == known
    assert world.put((b"c", b"1"), producer=5, sequence=2) == 4


def test_a_producer_that_is_forgotten_keeps_nothing() -> None:
    world = World()
    world.put((b"a", b"1"), producer=5)
    world.put((b"a", b"2"))
    world.clock.now_ms += 2 * DAY
    world.log.producers.expire(world.clock.now_ms)
    world.compact()
    assert [read_header(data).base_offset for data in stored_batches(world.log)] == [1]


def test_the_end_of_a_log_stays_without_records() -> None:
    world = World()
    world.put((b"a", b"1"))
    world.put((None, b"2"))
    world.compact()
    assert [read_header(data).base_offset for data in stored_batches(world.log)] == [0, 1]
    world.reopen()
    assert world.log.end_offset == 2
    assert world.put((b"a", b"2")) == 2


def test_times_are_found_where_records_are() -> None:
    world = World()
    world.put((b"a", b"1"), timestamp=NOW_MS)
    world.put((b"b", b"1"), timestamp=NOW_MS + 50)
    world.put((None, b"1"), timestamp=NOW_MS + 100)
    world.compact()
    newest = world.log.max_timestamp()
    assert newest is not None
    assert (newest.offset, newest.timestamp) == (1, NOW_MS + 50)
    found = world.log.offset_for_timestamp(NOW_MS + 1)
    assert found is not None
    assert found.offset == 1
    assert world.log.offset_for_timestamp(NOW_MS + 51) is None


# Segments


def test_small_segments_become_one() -> None:
    world = World()
    for number in range(5):
        world.put((b"%d" % number, b"1"))
        world.log.roll()
    world.compact()
    assert world.bases() == [0, 5]
    assert [record[0] for record in world.read()] == [0, 1, 2, 3, 4]
    for offset in range(5):
        assert read_header(content(world.log.read(offset, 1, 5))).base_offset == offset


def test_segments_that_would_be_too_large_stay_apart() -> None:
    world = World(compaction_config(segment_bytes=200))
    for number in range(6):
        world.put((b"%d" % number, b"1"))
    world.compact()
    assert world.bases() == [0, 2, 4, 6]


def test_a_segment_in_which_nothing_goes_is_not_written_again() -> None:
    world = World(compaction_config(segment_bytes=200))
    world.put((b"a", b"1"), (b"b", b"v" * 60))
    world.log.roll()
    world.put((b"c", b"1"), (b"d", b"v" * 60))
    world.compact()
    segments = list(world.log._segments.all)
    world.put((b"c", b"2"))
    world.compact()
    assert world.log._segments.all[0] is segments[0]
    assert world.log._segments.all[1] is not segments[1]


def test_an_offset_index_is_made_for_what_is_left() -> None:
    world = World()
    for number in range(200):
        world.put((b"%d" % number, b"v" * 50), (b"same", b"v" * 50))
    world.compact()
    index = world.log._segments.all[0].offset_index
    assert len(index) > 30
    for offset in range(0, 400, 2):
        assert read_header(content(world.log.read(offset, 1, 400))).base_offset == offset


def test_who_reads_a_segment_goes_on_reading_it() -> None:
    world = World()
    world.put((b"a", b"1"))
    world.put((b"a", b"2"))
    held = world.log.read(0, 1 << 20, 2)
    before = content(held)
    world.compact()
    world.directory.trash.sweep()
    assert content(held) == before
    assert content(world.log.read(0, 1 << 20, 2)) != before


def test_little_memory_takes_several_passes() -> None:
    world = World()
    for number in range(6):
        world.put((b"%d" % (number % 3), b"%d" % number))
    world.seal()
    offsets = []
    while clean(world.log, NOW_MS, 1) is not None:
        offsets.append(world.log.compaction.cleaned_offset)
    assert offsets == [1, 2, 3, 4, 5, 6]
    assert [record[0] for record in world.read()] == [3, 4, 5]


# Changes during a pass


def test_segments_that_went_meanwhile_do_not_come_back() -> None:
    world = World()
    world.put((b"a", b"1"), (b"a", b"2"))
    world.seal()
    compaction = world.log.compaction
    cleaning = compaction.start(compaction.cleanable(NOW_MS, 2), NOW_MS, MEMORY)
    cleaning.prepare()
    cleaned = cleaning.clean(cleaning.groups[0])
    assert cleaned is not None
    world.log.delete_records_before(2)
    assert not compaction.swap(cleaned)
    check_files(world.disk, world.log)
    assert world.bases() == [2]


def test_a_log_that_was_truncated_meanwhile_keeps_its_new_records() -> None:
    world = World()
    world.put((b"a", b"1"))
    world.put((b"a", b"2"))
    world.seal()
    compaction = world.log.compaction
    cleaning = compaction.start(compaction.cleanable(NOW_MS, 2), NOW_MS, MEMORY)
    cleaning.prepare()
    cleaned = cleaning.clean(cleaning.groups[0])
    assert cleaned is not None
    world.log.truncate_to(1)
    world.put((b"b", b"2"))
    world.seal()
    assert not compaction.swap(cleaned)
    compaction.finish(cleaning)
    assert compaction.cleaned_offset == 0
    assert world.read() == [(0, b"a", b"1"), (1, b"b", b"2")]
    check_files(world.disk, world.log)


def test_a_pass_that_is_given_up_leaves_nothing() -> None:
    world = World()
    for number in range(3):
        world.put((b"a", b"%d" % number))
        world.log.roll()
    world.seal()
    batches = 0

    def rest(_: int) -> None:
        nonlocal batches
        batches += 1
        if batches == 5:
            raise CleaningVoidError

    compaction = world.log.compaction
    cleaning = compaction.start(compaction.cleanable(NOW_MS, 3), NOW_MS, MEMORY, rest)
    cleaning.prepare()
    with pytest.raises(CleaningVoidError):
        cleaning.clean(cleaning.groups[0])
    check_files(world.disk, world.log)
    assert len(world.read()) == 3


def test_a_full_disk_leaves_the_log_as_it_was() -> None:
    world = World()
    world.put((b"a", b"v" * 1000), (b"b", b"v" * 1000))
    world.put((b"a", b"v" * 1000))
    world.seal()
    before = stored_batches(world.log)
    world.disk.room = 500
    with pytest.raises(OSError, match="No space left"):
        clean(world.log, NOW_MS)
    world.disk.room = None
    assert stored_batches(world.log) == before
    check_files(world.disk, world.log)
    assert clean(world.log, NOW_MS) is not None
    assert [record[0] for record in world.read()] == [1, 2]


def test_damage_is_not_copied() -> None:
    world = World()
    world.put((b"a", b"1"), (b"b", b"1"))
    world.put((b"a", b"2"))
    world.seal()
    file = world.disk.open(f"{world.log.path}/{0:020d}.log")
    file.write(b"?", 70)
    with pytest.raises(DamagedBatch, match="checksum"):
        clean(world.log, NOW_MS)
    check_files(world.disk, world.log)


# Checkpoints


def checkpoint(disk: Disk) -> bytes:
    return disk.read_bytes(f"/data/{CLEANED_OFFSETS}")


def test_how_far_a_log_was_compacted_is_kept_as_kafka_keeps_it() -> None:
    world = World()
    world.put((b"a", b"1"), (b"a", b"2"))
    world.compact()
    world.directory.checkpoint_cleaned_offsets(world.log)
    assert checkpoint(world.disk) == b"0\n1\nclicks 0 2\n"
    world.reopen()
    assert world.log.compaction.cleaned_offset == 2
    assert clean(world.log, NOW_MS) is None


def test_a_truncation_is_written_down_first() -> None:
    world = World()
    world.put((b"a", b"1"))
    world.put((b"a", b"2"))
    world.compact()
    world.directory.checkpoint_cleaned_offsets(world.log)
    world.log.truncate_to(1)
    assert checkpoint(world.disk) == b"0\n0\n"
    assert world.log.compaction.cleaned_offset == 0


def test_a_checkpoint_past_the_end_is_ignored() -> None:
    world = World()
    world.put((b"a", b"1"))
    world.directory.close()
    world.disk.replace_bytes(f"/data/{CLEANED_OFFSETS}", b"0\n1\nclicks 0 7\n")
    world.directory = open_directory(world.disk, world.clock, config=CONFIG)
    assert world.directory.logs[CLICKS].compaction.cleaned_offset == 0


def test_a_new_partition_has_nothing_compacted() -> None:
    world = World()
    world.put((b"a", b"1"), (b"a", b"2"))
    world.compact()
    world.directory.checkpoint_cleaned_offsets(world.log)
    world.directory.delete_log(CLICKS)
    world.directory.create_log(CLICKS, world.directory._random_bytes(16), CONFIG)  # type: ignore[arg-type]
    assert checkpoint(world.disk) == b"0\n0\n"
