"""One segment: the positions of index entries, and damaged indexes."""

import pytest

from ottla.log.config import LogConfig
from ottla.log.index import OFFSET_ENTRY, TIME_ENTRY, whole_entries
from ottla.log.scan import DamagedBatch
from ottla.log.segment import Segment
from ottla.log.storage import OpenFiles, Storage
from ottla.log.timestamp_search import TimestampOffset, finish
from ottla.log.trash import Trash
from tests.log.fault_disk import FaultDisk
from tests.log.world import NOW_MS, StillClock, batch

BATCH = len(batch().view)
CONFIG = LogConfig(index_interval_bytes=2 * BATCH)


class World:
    def __init__(self, base_offset: int = 1000) -> None:
        self.disk = FaultDisk()
        clock = StillClock()
        self.storage = Storage(self.disk, clock, OpenFiles(10), Trash(self.disk, clock), 1000)
        self.segment = Segment.create(self.storage, "", base_offset)
        self.next_offset = base_offset

    def append(self, *timestamps: int) -> None:
        for timestamp in timestamps or (0,):
            item = batch(timestamp=NOW_MS + timestamp, base_offset=self.next_offset)
            self.segment.append(item.view, item.header, self.next_offset, CONFIG)
            self.next_offset += 1

    def reopen(self) -> Segment:
        self.segment.seal()
        self.segment = Segment(self.storage, "", self.segment.base_offset, self.segment.size)
        return self.segment

    def offset_entries(self) -> list[tuple[int, int]]:
        return list(whole_entries(OFFSET_ENTRY, self.disk.read_bytes(self.segment.path(".index"))))

    def time_entries(self) -> list[tuple[int, int]]:
        entries = whole_entries(TIME_ENTRY, self.disk.read_bytes(self.segment.path(".timeindex")))
        return [(timestamp - NOW_MS, offset) for timestamp, offset in entries]


def test_a_batch_is_indexed_when_more_than_the_interval_lies_before_it() -> None:
    world = World()
    world.append(*[0] * 8)
    world.segment.seal()
    assert world.offset_entries() == [(3, 3 * BATCH), (6, 6 * BATCH)]


def test_the_time_index_has_the_largest_timestamp_so_far() -> None:
    world = World()
    world.append(10, 50, 20, 30, 40, 60, 55, 58)
    world.segment.seal()
    assert world.time_entries() == [(50, 1), (60, 5)]


def test_sealing_records_the_largest_timestamp() -> None:
    world = World()
    world.append(10, 20)
    assert world.reopen().max_timestamp == NOW_MS + 20
    assert world.time_entries() == [(20, 1)]
    assert world.offset_entries() == []


def test_every_offset_is_found() -> None:
    world = World()
    world.append(*range(20))
    for segment in (world.segment, world.reopen()):
        for offset in range(1000, 1020):
            found = segment.find(offset)
            assert found is not None
            assert (found[0], found[1].base_offset) == ((offset - 1000) * BATCH, offset)
        assert segment.find(1020) is None


@pytest.mark.parametrize("max_bytes", [0, 1, BATCH - 1, BATCH, BATCH + 1, 5 * BATCH, 7 * BATCH - 1])
@pytest.mark.parametrize("start", range(0, 14, 3))
def test_a_boundary_is_the_last_that_fits(start: int, max_bytes: int) -> None:
    world = World()
    world.append(*range(30))
    batches = max(1, max_bytes // BATCH)
    assert world.segment.boundary(start * BATCH, max_bytes) == ((start + batches) * BATCH, 1000 + start + batches)


def test_what_lies_before_an_offset() -> None:
    world = World()
    world.append(*range(10))
    for kept in range(11):
        assert world.segment.end_before(1000 + kept) == (kept * BATCH, 1000 + kept)


@pytest.mark.parametrize("damage", ["missing", "odd size", "garbage", "short"])
def test_a_damaged_index_is_rebuilt_when_it_is_used(damage: str, caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.append(*range(20))
    segment = world.reopen()
    path = segment.path(".index")
    if damage == "missing":
        world.disk.remove(path)
    elif damage == "odd size":
        world.disk.open(path).truncate(9)
    elif damage == "garbage":
        world.disk.open(path).write(b"\x00\x00\x00\x01" * 4, 16)
    else:
        world.disk.open(path).truncate(8)
    for offset in range(1000, 1020):
        found = segment.find(offset)
        assert found is not None
        assert found[1].base_offset == offset
    if damage == "short":
        assert caplog.text == ""  # The index is still correct, only sparser.
    else:
        assert "rebuilt" in caplog.text
        assert world.disk.size(path) % OFFSET_ENTRY.size == 0


def test_a_damaged_time_index_is_rebuilt() -> None:
    world = World()
    world.append(*range(20))
    segment = world.reopen()
    world.disk.open(segment.path(".timeindex")).truncate(5)
    assert segment.max_timestamp == NOW_MS + 19
    assert world.time_entries()[-1] == (19, 19)


def break_batch(world: World, number: int) -> None:
    """Damage the length of one batch, so that a scan cannot find the next batches."""
    world.disk.open(world.segment.path()).write(b"\xff" * 20, number * BATCH)


def test_reads_before_and_after_a_damaged_batch_still_work() -> None:
    world = World()
    world.append(*range(20))
    segment = world.reopen()
    break_batch(world, 10)
    for offset in [*range(1000, 1010), *range(1012, 1020)]:
        found = segment.find(offset)
        assert found is not None
        assert found[1].base_offset == offset
    with pytest.raises(DamagedBatch):
        segment.find(1010)


def test_a_rebuild_keeps_the_way_to_what_lies_behind_the_damage() -> None:
    world = World()
    world.append(*range(20))
    segment = world.reopen()
    break_batch(world, 10)
    segment.rebuild_indexes(CONFIG)
    found = segment.find(1019)
    assert found is not None
    assert found[1].base_offset == 1019
    assert segment.max_timestamp == NOW_MS + 19
    with pytest.raises(DamagedBatch):
        segment.find(1010)


def test_a_damaged_batch_that_is_indexed_does_not_ruin_the_rest() -> None:
    world = World()
    world.append(*range(20))
    segment = world.reopen()
    number = world.offset_entries()[2][0]
    break_batch(world, number)
    with pytest.raises(DamagedBatch):
        segment.find(1000 + number)
    for offset in (1000, 1000 + number - 1, 1019):
        found = segment.find(offset)
        assert found is not None
        assert found[1].base_offset == offset


def test_truncation_cuts_the_indexes_too() -> None:
    world = World()
    world.append(10, 90, *range(20, 38))
    segment = world.segment
    segment.truncate(7 * BATCH, 1007)
    world.next_offset = 1007
    assert segment.max_timestamp == NOW_MS + 90
    segment.truncate(1 * BATCH, 1001)
    world.next_offset = 1001
    assert segment.max_timestamp == NOW_MS + 10
    world.append(*range(40, 50))
    segment.seal()
    assert [offset for offset, _ in world.offset_entries()] == [4, 7, 10]
    assert segment.first_timestamp == NOW_MS + 10
    for offset in range(1000, world.next_offset):
        found = segment.find(offset)
        assert found is not None
        assert found[1].base_offset == offset


def test_records_without_a_timestamp_are_as_old_as_the_file() -> None:
    world = World()
    world.disk.now_ms = 4711
    world.append(-NOW_MS - 1)
    assert world.segment.max_timestamp == -1
    assert world.segment.largest_timestamp == 4711
    world.append(5)
    assert world.segment.largest_timestamp == NOW_MS + 5


def test_times_are_found() -> None:
    world = World()
    world.append(10, 30, 20, 40, 25, 60)

    def find(timestamp: int, start_offset: int) -> TimestampOffset | None:
        return finish(world.segment.search_timestamp(timestamp, start_offset))

    assert [find(NOW_MS + at, 1000) for at in (0, 10, 15, 31, 41)] == [
        (1000, NOW_MS + 10, -1),
        (1000, NOW_MS + 10, -1),
        (1001, NOW_MS + 30, -1),
        (1003, NOW_MS + 40, -1),
        (1005, NOW_MS + 60, -1),
    ]
    assert find(NOW_MS + 61, 1000) is None
    assert find(NOW_MS + 10, 1002) == (1002, NOW_MS + 20, -1)
    search = world.segment.search_max_timestamp()
    assert search is not None
    assert finish(search) == (1005, NOW_MS + 60, -1)


def test_full_indexes_are_reported() -> None:
    world = World()
    config = LogConfig(index_interval_bytes=0, segment_index_bytes=36)
    for number in range(4):
        assert not world.segment.indexes_are_full
        item = batch(timestamp=NOW_MS + number, base_offset=1000 + number)
        world.segment.append(item.view, item.header, 1000 + number, config)
        if number == 2:
            break
    # Two entries of 12 bytes fit, beside the one reserved for sealing. Four entries of 8 bytes would still have
    # fitted.
    assert world.segment.indexes_are_full


def test_what_a_failed_write_leaves_is_cut_off_by_sealing() -> None:
    world = World()
    world.append()
    world.segment.file().write(b"half a batch", world.segment.size)
    world.segment.seal()
    assert world.disk.size(world.segment.path()) == BATCH
