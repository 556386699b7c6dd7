"""Opening a log after a crash, and with missing or damaged files."""

import pytest

from ottla.errors import KafkaError
from ottla.log.config import LogConfig
from ottla.log.directory import LogDirectory
from ottla.log.index import OFFSET_ENTRY, TIME_ENTRY
from ottla.log.log import Log
from ottla.log.snapshot import decode_snapshot
from ottla.records.header import read_header
from tests.log.fault_disk import FaultDisk
from tests.log.world import CLICKS, NOW_MS, TOPIC_ID, StillClock, append, batch, content, open_directory, read_all

BATCH = len(batch().view)
CONFIG = LogConfig(segment_bytes=10 * BATCH, index_interval_bytes=BATCH)


class World:
    def __init__(self, batches: int = 0) -> None:
        self.disk = FaultDisk()
        self.clock = StillClock()
        self.directory: LogDirectory = open_directory(self.disk, self.clock, config=CONFIG)
        self.log: Log = self.directory.create_log(CLICKS, TOPIC_ID, CONFIG)
        for _ in range(batches):
            append(self.log, batch(timestamp=NOW_MS + self.log.end_offset))

    def crash(self) -> Log:
        self.disk.kill()
        self.directory = open_directory(self.disk, self.clock, config=CONFIG)
        self.log = self.directory.logs[CLICKS]
        return self.log

    def stop(self) -> Log:
        self.directory.close()
        return self.crash()

    def sync(self) -> None:
        self.log.synced(self.log.sync())
        self.directory.checkpoint_recovery_points()

    def path(self, base_offset: int, suffix: str = ".log") -> str:
        return f"/data/clicks-0/{base_offset:020d}{suffix}"

    def overwrite(self, position: int, data: bytes, base_offset: int = 0) -> None:
        self.disk.open(self.path(base_offset)).write(data, position)


def readable(log: Log) -> list[int]:
    """The offsets of all readable batches."""
    found = []
    for offset in range(log.log_start_offset, log.end_offset):
        try:
            found.append(read_header(content(log.read(offset, 1, log.end_offset))).base_offset)
        except KafkaError:
            continue
    return found


def test_a_crash_loses_nothing_that_was_written() -> None:
    world = World(25)
    before = read_all(world.log)
    log = world.crash()
    assert (log.log_start_offset, log.end_offset) == (0, 25)
    assert read_all(log) == before
    assert append(log).base_offset == 25


@pytest.mark.parametrize("size", range(2 * BATCH, 3 * BATCH))
def test_a_torn_tail_is_cut_at_the_last_whole_batch(size: int, caplog: pytest.LogCaptureFixture) -> None:
    world = World(3)
    world.disk.open(world.path(0)).truncate(size)
    log = world.crash()
    assert (log.end_offset, world.disk.size(world.path(0))) == (2, 2 * BATCH)
    assert ("torn" in caplog.text) == (size > 2 * BATCH)
    assert append(log).base_offset == 2


OUTSIDE_THE_CHECKSUM = (*range(4, 8), *range(12, 16))
"""The low bytes of the base offset, and the leader epoch: a leader sets them without a new checksum."""


@pytest.mark.parametrize("position", [at for at in range(BATCH) if at not in OUTSIDE_THE_CHECKSUM])
def test_a_tail_with_any_wrong_byte_is_cut(position: int) -> None:
    world = World(4)
    position += 2 * BATCH
    wrong = world.disk.read_bytes(world.path(0))[position] ^ 0x55
    world.overwrite(position, bytes([wrong]))
    assert world.crash().end_offset == 2


def test_offsets_that_fall_are_damage() -> None:
    world = World(4)
    world.overwrite(2 * BATCH, bytes(8))
    assert world.crash().end_offset == 2


def test_zeros_at_the_end_are_cut() -> None:
    world = World(3)
    world.overwrite(3 * BATCH, bytes(5000))
    assert world.crash().end_offset == 3
    assert world.disk.size(world.path(0)) == 3 * BATCH


def test_segments_after_a_torn_one_go(caplog: pytest.LogCaptureFixture) -> None:
    world = World(35)
    world.disk.open(world.path(10)).truncate(4 * BATCH + 5)
    log = world.crash()
    assert log.end_offset == 14
    assert [segment.base_offset for segment in log.segments()] == [0, 10]
    assert "removing /data" in caplog.text
    assert readable(log) == list(range(14))


def test_a_segment_whose_predecessor_lost_its_end_goes_too() -> None:
    world = World(25)
    world.disk.open(world.path(10)).truncate(4 * BATCH)
    assert world.crash().end_offset == 14


def test_a_segment_that_a_crash_brought_back_goes_again() -> None:
    """A truncation had removed the segment. The removal was not on disk, but later appends were."""
    world = World(25)
    world.log.truncate_to(14)
    append(world.log, batch(9, size=1))
    world.disk.rename(world.path(20) + ".deleted", world.path(20))
    log = world.crash()
    assert log.end_offset == 23
    assert [segment.base_offset for segment in log.segments()] == [0, 10]


def test_only_the_tail_is_read_after_a_sync() -> None:
    world = World(25)
    world.sync()
    append(world.log)
    world.overwrite(70, b"damage", 0)
    log = world.crash()
    assert log.end_offset == 26
    assert log.recovery_point == 25


@pytest.mark.parametrize("wrong", [b"\xff" * 20, b"\x00" * 12, b""])
def test_damage_before_the_recovery_point_stays_and_is_reported(wrong: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """One batch in the active segment has a damaged header or content. All others stay readable."""
    world = World(18)
    world.sync()
    append(world.log)
    world.log._segments.active.offset_index.flush()
    if wrong:
        world.overwrite(3 * BATCH, wrong, 10)
    else:
        world.overwrite(3 * BATCH + 70, b"\xff", 10)
    size = world.disk.size(world.path(10))
    log = world.crash()
    assert log.end_offset == 19
    assert world.disk.size(world.path(10)) == size
    assert "is damaged" in caplog.text
    assert "stays in place" in caplog.text
    assert set(range(19)) - set(readable(log)) <= {13, 14}
    assert append(log).base_offset == 19


def test_damage_that_nothing_follows_is_reported_as_a_loss(caplog: pytest.LogCaptureFixture) -> None:
    world = World(5)
    world.sync()
    world.disk.open(world.path(0)).truncate(3 * BATCH + 1)
    log = world.crash()
    assert log.end_offset == 3
    assert "the synced offsets 3 to 4 are lost" in caplog.text
    world.disk.kill()
    assert world.disk.read_bytes("/data/recovery-point-offset-checkpoint") == b"0\n1\nclicks 0 3\n"


def test_indexes_are_as_they_were_after_a_rescan() -> None:
    world = World(25)
    world.log.roll()
    paths = [world.path(base, suffix) for base in (0, 10, 20) for suffix in (".index", ".timeindex")]
    before = [world.disk.read_bytes(path) for path in paths]
    world.disk.open(paths[0]).write(b"\xff" * 50, 8)
    world.disk.remove(paths[3])
    world.crash()
    assert [world.disk.read_bytes(path) for path in paths] == before
    assert all(before)


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_a_missing_index_is_rebuilt_after_a_clean_stop(suffix: str, caplog: pytest.LogCaptureFixture) -> None:
    world = World(25)
    world.directory.close()
    before = [world.disk.read_bytes(world.path(base, suffix)) for base in (0, 10, 20)]
    for base in (0, 20):
        world.disk.remove(world.path(base, suffix))
    world.crash()
    assert "rebuilding the missing indexes" in caplog.text
    assert [world.disk.read_bytes(world.path(base, suffix)) for base in (0, 10, 20)] == before


def test_an_index_without_a_segment_is_removed() -> None:
    world = World(5)
    world.directory.close()
    world.disk.replace_bytes(world.path(77, ".index"), b"")
    world.crash()
    assert not world.disk.exists(world.path(77, ".index"))


def test_kafkas_preallocated_indexes_are_understood() -> None:
    world = World(25)
    world.directory.close()
    for base in (0, 10, 20):
        for suffix, entry in ((".index", OFFSET_ENTRY), (".timeindex", TIME_ENTRY)):
            file = world.disk.open(world.path(base, suffix))
            file.truncate(10_000 // entry.size * entry.size)
    log = world.crash()
    assert log.end_offset == 25
    assert readable(log) == list(range(25))
    assert log.max_timestamp() == (24, NOW_MS + 24, 0)
    append(log, batch(timestamp=NOW_MS + 30))
    assert world.stop().max_timestamp() == (25, NOW_MS + 30, 0)


def test_a_clean_stop_leaves_nothing_to_do() -> None:
    world = World(25)
    before = read_all(world.log)
    world.directory.close()
    files = {name: world.disk.read_bytes(f"/data/clicks-0/{name}") for name in world.disk.list("/data/clicks-0")}
    log = world.crash()
    assert (log.end_offset, log.recovery_point) == (25, 25)
    assert read_all(log) == before
    world.directory.close()
    assert files == {name: world.disk.read_bytes(f"/data/clicks-0/{name}") for name in files}
    assert sorted(files) == world.disk.list("/data/clicks-0")


def test_a_log_that_was_damaged_while_it_was_closed_is_checked(caplog: pytest.LogCaptureFixture) -> None:
    world = World(5)
    world.directory.close()
    world.disk.open(world.path(0)).truncate(4 * BATCH + 30)
    assert world.crash().end_offset == 4
    assert "although the log was closed cleanly" in caplog.text


def test_epochs_are_read_again_from_the_batches() -> None:
    world = World()
    for number in range(14):
        append(world.log, leader_epoch=number // 5)
    log = world.crash()
    assert list(log.epochs.entries) == [(0, 0), (1, 5), (2, 10)]
    world.sync()
    assert world.disk.read_bytes("/data/clicks-0/leader-epoch-checkpoint") == b"0\n3\n0 0\n1 5\n2 10\n"
    for _ in range(8):
        append(log, leader_epoch=7)
    assert list(world.crash().epochs.entries) == [(0, 0), (1, 5), (2, 10), (7, 14)]


def test_an_epoch_that_began_before_what_is_read_again_keeps_its_start() -> None:
    world = World()
    for number in range(18):
        append(world.log, leader_epoch=number // 15)
    world.sync()
    append(world.log, leader_epoch=1)
    assert list(world.crash().epochs.entries) == [(0, 0), (1, 15)]


def test_epochs_past_a_cut_are_forgotten() -> None:
    world = World()
    for number in range(4):
        append(world.log, leader_epoch=number)
    world.sync()
    world.disk.open(world.path(0)).truncate(2 * BATCH)
    assert list(world.crash().epochs.entries) == [(0, 0), (1, 1)]


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("batches", [3, 10, 11, 34])
def test_producers_are_known_after_a_restart(clean: bool, batches: int) -> None:
    world = World()
    for number in range(batches):
        append(world.log, batch(producer_id=1, producer_epoch=2, base_sequence=number))
    log = world.stop() if clean else world.crash()
    for number in range(max(0, batches - 3), batches):
        assert append(log, batch(producer_id=1, producer_epoch=2, base_sequence=number)).base_offset == number
    with pytest.raises(KafkaError):
        append(log, batch(producer_id=1, producer_epoch=2, base_sequence=batches + 1))
    with pytest.raises(KafkaError):
        append(log, batch(producer_id=1, producer_epoch=1, base_sequence=batches))
    assert append(log, batch(producer_id=1, producer_epoch=2, base_sequence=batches)).base_offset == batches


def test_a_snapshot_is_taken_when_a_segment_is_rolled() -> None:
    world = World()
    for number in range(25):
        append(world.log, batch(producer_id=1, producer_epoch=0, base_sequence=number))
    (producer,) = decode_snapshot(world.disk.read_bytes(world.path(20, ".snapshot")))
    assert (producer.producer_id, producer.next_sequence, producer.batches[-1].last_offset) == (1, 20, 19)


def test_a_torn_snapshot_is_replaced_by_reading_the_log() -> None:
    world = World()
    for number in range(25):
        append(world.log, batch(producer_id=1, producer_epoch=0, base_sequence=number))
    world.directory.close()
    world.disk.open(world.path(25, ".snapshot")).truncate(10)
    log = world.crash()
    assert append(log, batch(producer_id=1, producer_epoch=0, base_sequence=24)).duplicate
    assert not append(log, batch(producer_id=1, producer_epoch=0, base_sequence=25)).duplicate


def test_without_idempotent_producers_only_a_roll_takes_a_snapshot() -> None:
    """The empty snapshot tells recovery where to begin, so recovery need not read the whole log."""
    world = World(9)
    world.directory.close()
    assert [name for name in world.disk.list("/data/clicks-0") if name.endswith(".snapshot")] == []
    world.crash()
    append(world.log)
    append(world.log)
    assert world.disk.exists(world.path(10, ".snapshot"))


def test_expired_producers_are_forgotten_at_the_next_start() -> None:
    world = World()
    append(world.log, batch(producer_id=1, producer_epoch=0, base_sequence=0))
    world.directory.close()
    world.clock.now_ms += 86_400_000
    assert world.crash().producers.active() == []


def test_the_log_start_survives_once_it_is_checkpointed() -> None:
    world = World(25)
    world.log.delete_records_before(13)
    assert world.crash().log_start_offset == 10
    world.log.delete_records_before(13)
    world.directory.checkpoint_log_start_offsets()
    assert world.crash().log_start_offset == 13
    world.log.delete_records_before(14)
    assert world.stop().log_start_offset == 14


def test_a_log_that_lost_all_after_its_start_is_empty(caplog: pytest.LogCaptureFixture) -> None:
    world = World(5)
    world.log.delete_records_before(4)
    world.directory.checkpoint_log_start_offsets()
    world.disk.open(world.path(0)).truncate(2 * BATCH)
    log = world.crash()
    assert (log.log_start_offset, log.end_offset) == (4, 4)
    assert "the log starts at 4" in caplog.text
    assert append(log).base_offset == 4


def test_what_a_crash_left_to_delete_is_deleted() -> None:
    world = World(25)
    world.log.delete_records_before(10)
    assert world.disk.exists(world.path(0) + ".deleted")
    world.crash()
    assert not [name for name in world.disk.list("/data/clicks-0") if name.endswith(".deleted")]


def test_a_directory_without_segments_is_an_empty_log() -> None:
    world = World(5)
    world.directory.close()
    world.disk.remove_tree("/data/clicks-0")
    world.disk.make_directory("/data/clicks-0")
    log = world.crash()
    assert (log.log_start_offset, log.end_offset) == (0, 0)
    assert append(log).base_offset == 0


def test_a_large_batch_is_checked_whole() -> None:
    world = World()
    append(world.log, batch(size=3 << 20))
    append(world.log, batch(size=10))
    assert world.crash().end_offset == 2
    world.overwrite(2 << 20, b"x")
    assert world.crash().end_offset == 0
