"""Housekeeping on a virtual clock: seven days of retention take a few milliseconds."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.config.broker import BrokerConfig
from ottla.log.checkpoint import read_offsets
from ottla.log.layout import HIGH_WATERMARKS, LOG_START_OFFSETS, RECOVERY_POINTS
from ottla.replication.housekeeping import Housekeeping
from ottla.replication.partition import Partition
from tests.manual_clock import NOW_MS
from tests.replication.cluster import Host
from tests.replication.world import batch, kill, on_loop, settle, values, visible

HOUR = 3600.0
DAY = 24 * HOUR
CHECK = 300.0
"""The default of log.retention.check.interval.ms."""

ONE_BATCH_PER_SEGMENT = {"internal.segment.bytes": "120"}


class House(Host):
    """A broker's logs and their housekeeping."""

    def __init__(self, path: Path, *, directories: int = 1, held: bool = False) -> None:
        super().__init__(path, directories=directories, held=held)
        self.keeping = Housekeeping(self.replicas, self.clock, self.background, lambda: self.config)
        self.keeping.start()

    def append(self, partition: Partition, value: bytes = b"v" * 40) -> None:
        """A record with the current timestamp."""
        partition.append(batch(value, timestamp=self.clock.time_ms()))

    async def pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)
        await settle()

    def checkpoint(self, name: str, directory: int = 0) -> dict[str, int]:
        path = f"{self.directories[directory].path}/{name}"
        return {str(key): offset for key, offset in read_offsets(self.disk, path).items()}


def files_in(partition: Partition, suffix: str) -> list[str]:
    return sorted(name for name in os.listdir(partition.log.path) if name.endswith(suffix))


# Retention


@on_loop
async def test_seven_days_by_default(tmp_path: Path) -> None:
    house = House(tmp_path)
    clicks = house.create_topic("clicks", configs=ONE_BATCH_PER_SEGMENT)
    for day in range(3):
        house.append(clicks, b"%040d" % day)
        await house.pass_time(DAY)
    await house.pass_time(4 * DAY)
    assert clicks.log.log_start_offset == 0, "the first record is exactly seven days old"
    await house.pass_time(CHECK)
    assert clicks.log.log_start_offset == 1
    assert values(visible(clicks)) == [b"%040d" % 1, b"%040d" % 2]
    await house.pass_time(2 * DAY)
    assert clicks.log.log_start_offset == 3, "also the last segment goes, when all of it is too old"
    assert visible(clicks) == []
    assert clicks.append(batch(b"new", timestamp=house.clock.time_ms())).base_offset == 3


@on_loop
async def test_retention_is_checked_at_its_own_interval(tmp_path: Path) -> None:
    house = House(tmp_path)
    clicks = house.create_topic("clicks", configs={"retention.ms": "1000"})
    house.append(clicks)
    await house.pass_time(CHECK - 1)
    assert clicks.log.log_start_offset == 0
    await house.pass_time(1)
    assert clicks.log.log_start_offset == 1


@on_loop
async def test_each_topic_has_its_own_retention(tmp_path: Path) -> None:
    house = House(tmp_path)
    topics = {
        name: house.create_topic(name, configs={**ONE_BATCH_PER_SEGMENT, **configs})
        for name, configs in {
            "hour": {"retention.ms": "3600000"},
            "forever": {"retention.ms": "-1"},
            "compacted": {"cleanup.policy": "compact", "retention.ms": "3600000"},
            "both": {"cleanup.policy": "compact,delete", "retention.ms": "3600000"},
        }.items()
    }
    for partition in topics.values():
        partition.append(batch(b"v", key=b"k", timestamp=NOW_MS), inspected=True)
    await house.pass_time(30 * DAY)
    starts = {name: partition.log.log_start_offset for name, partition in topics.items()}
    assert starts == {"hour": 1, "forever": 0, "compacted": 0, "both": 1}


@on_loop
async def test_retention_by_size_keeps_the_newest(tmp_path: Path) -> None:
    house = House(tmp_path)
    size = len(batch(b"v" * 40))
    limits = {**ONE_BATCH_PER_SEGMENT, "retention.bytes": str(3 * size), "retention.ms": "-1"}
    clicks = house.create_topic("clicks", configs=limits)
    for number in range(10):
        house.append(clicks, b"%040d" % number)
    await house.pass_time(CHECK)
    assert clicks.log.size() == 3 * size
    assert values(visible(clicks)) == [b"%040d" % number for number in (7, 8, 9)]


@on_loop
async def test_a_changed_retention_holds_at_the_next_check(tmp_path: Path) -> None:
    house = House(tmp_path)
    clicks = house.create_topic("clicks")
    house.append(clicks)
    await house.pass_time(HOUR)
    assert clicks.log.log_start_offset == 0
    house.cluster.configure_topic("clicks", {"retention.ms": "60000"})
    house.follow()
    await house.pass_time(CHECK)
    assert clicks.log.log_start_offset == 1


@on_loop
async def test_what_is_not_committed_is_not_removed(tmp_path: Path) -> None:
    house = House(tmp_path, held=True)
    clicks = house.create_topic("clicks", configs={"flush.messages": "1", "retention.ms": "1000"})
    house.append(clicks)
    await house.pass_time(CHECK)
    assert (clicks.high_watermark, clicks.log.log_start_offset) == (0, 0)
    await house.background.finish_all()
    await house.pass_time(CHECK)
    assert clicks.log.log_start_offset == 1
    await house.background.finish_all()


@on_loop
async def test_the_time_between_checks_can_change_at_run_time(tmp_path: Path) -> None:
    house = House(tmp_path)
    house.config = BrokerConfig({"log.retention.check.interval.ms": "10000"})
    clicks = house.create_topic("clicks", configs={"retention.ms": "1"})
    await house.pass_time(CHECK)
    house.append(clicks)
    await house.pass_time(10)
    assert clicks.log.log_start_offset == 1


@on_loop
async def test_trouble_with_one_partition_is_not_trouble_for_all(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    house = House(tmp_path)
    partitions = [house.create_topic(name, configs={"retention.ms": "1"}) for name in ("bad", "good")]
    for partition in partitions:
        house.append(partition)
    house.disk.break_("open", "bad-0")
    await house.pass_time(CHECK)
    assert partitions[1].log.log_start_offset == 1
    assert "bad-0: retention failed, will retry" in caplog.text
    house.disk.repair()
    await house.pass_time(CHECK)
    assert [partition.log.log_start_offset for partition in partitions] == [1, 1]


@on_loop
async def test_a_chore_with_a_bug_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    house = House(tmp_path)
    clicks = house.create_topic("clicks", configs={"retention.ms": "1"})
    house.append(clicks)
    with monkeypatch.context() as patch:
        patch.setattr("ottla.log.log.count_removable", _fail)
        await house.pass_time(CHECK)
    assert "log.retention.check.interval.ms) failed, will retry" in caplog.text
    await house.pass_time(CHECK)
    assert clicks.log.log_start_offset == 1


def _fail(*_: object, **__: object) -> int:
    raise ZeroDivisionError


# Deleted files


@on_loop
async def test_deleted_segments_leave_the_disk_after_their_delay(tmp_path: Path) -> None:
    house = House(tmp_path)
    clicks = house.create_topic(
        "clicks", configs={**ONE_BATCH_PER_SEGMENT, "retention.ms": "1", "file.delete.delay.ms": "60000"}
    )
    house.append(clicks)
    house.append(clicks)
    await house.pass_time(CHECK)
    assert len(files_in(clicks, ".log.deleted")) == 2
    await house.pass_time(59)
    assert len(files_in(clicks, ".log.deleted")) == 2
    await house.pass_time(1)
    assert files_in(clicks, ".deleted") == []
    assert files_in(clicks, ".log") == [f"{2:020d}.log"]


@on_loop
async def test_a_deleted_topic_frees_its_disk(tmp_path: Path) -> None:
    house = House(tmp_path)
    house.append(house.create_topic("clicks"))
    house.cluster.delete_topic("clicks")
    house.follow()
    path = house.directories[0].path
    assert any(name.endswith("-delete") for name in os.listdir(path))
    await house.pass_time(61)
    assert not any("clicks" in name for name in os.listdir(path))
    assert len(house.directories[0].trash) == 0


@on_loop
async def test_a_slow_sweep_is_not_overtaken_by_the_next(tmp_path: Path) -> None:
    house = House(tmp_path, held=True)
    house.create_topic("clicks")
    house.cluster.delete_topic("clicks")
    house.follow()
    for _ in range(4):
        await house.pass_time(1)
    assert house.background.waiting == 1
    await house.background.finish_all()
    await house.pass_time(60)
    await house.background.finish_all()
    assert len(house.directories[0].trash) == 0


@on_loop
async def test_nothing_to_sweep_is_no_work(tmp_path: Path) -> None:
    house = House(tmp_path)
    house.create_topic("clicks")
    for _ in range(4):
        await house.pass_time(1)
    assert house.background.started == 0


# Checkpoints


@on_loop
async def test_checkpoints_are_written_at_their_intervals(tmp_path: Path) -> None:
    house = House(tmp_path)
    clicks = house.create_topic("clicks", partitions=2)
    for _ in range(3):
        house.append(clicks)
    clicks.delete_records_before(2)
    clicks.start_sync()
    await settle()
    assert house.checkpoint(HIGH_WATERMARKS) == {}
    await house.pass_time(5)
    assert house.checkpoint(HIGH_WATERMARKS) == {"clicks-0": 3, "clicks-1": 0}
    assert house.checkpoint(RECOVERY_POINTS) == house.checkpoint(LOG_START_OFFSETS) == {}
    await house.pass_time(55)
    assert house.checkpoint(RECOVERY_POINTS) == {"clicks-0": 3, "clicks-1": 0}
    assert house.checkpoint(LOG_START_OFFSETS) == {"clicks-0": 2}


@on_loop
async def test_each_log_directory_writes_down_its_own_partitions(tmp_path: Path) -> None:
    house = House(tmp_path, directories=2)
    house.create_topic("clicks", partitions=2)
    await house.pass_time(60)
    for name in (HIGH_WATERMARKS, RECOVERY_POINTS):
        written = [set(house.checkpoint(name, directory)) for directory in range(2)]
        assert written == [{"clicks-0"}, {"clicks-1"}]


@on_loop
async def test_rolled_segments_are_synced_before_the_recovery_point_passes_them(tmp_path: Path) -> None:
    house = House(tmp_path)
    clicks = house.create_topic("clicks", configs=ONE_BATCH_PER_SEGMENT)
    quiet = house.create_topic("quiet")
    for _ in range(3):
        house.append(clicks)
    house.append(quiet)
    await house.pass_time(60)
    assert house.disk.syncs[".log"] == 3, "two rolled segments and the active one of the same log"
    await house.pass_time(60)
    assert house.checkpoint(RECOVERY_POINTS) == {"clicks-0": 3, "quiet-0": 0}
    kill(house.directories[0])
    assert house.checkpoint(RECOVERY_POINTS) == {"clicks-0": 3, "quiet-0": 0}


@on_loop
async def test_a_checkpoint_that_cannot_be_written_is_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    house = House(tmp_path)
    house.append(house.create_topic("clicks"))
    house.disk.break_("replace_bytes", HIGH_WATERMARKS)
    await house.pass_time(5)
    assert "writing a checkpoint failed, will retry" in caplog.text
    house.disk.repair()
    await house.pass_time(5)
    assert house.checkpoint(HIGH_WATERMARKS) == {"clicks-0": 1}


# Producers


@on_loop
async def test_producers_are_forgotten_after_a_day(tmp_path: Path) -> None:
    house = House(tmp_path)
    clicks = house.create_topic("clicks")
    clicks.append(batch(producer_id=7, sequence=0, timestamp=NOW_MS))
    await house.pass_time(DAY - 1)
    assert len(clicks.log.producers) == 1
    await house.pass_time(600)
    assert len(clicks.log.producers) == 0


# Start and stop


@pytest.mark.parametrize("work", [lambda _: None, lambda house: house.keeping.retain()])
@on_loop
async def test_after_a_stop_nothing_happens_any_more(tmp_path: Path, work: Callable[[House], None]) -> None:
    house = House(tmp_path)
    house.append(house.create_topic("clicks", configs={"retention.ms": "1"}))
    work(house)
    house.keeping.stop()
    assert house.clock.pending == 0
    await house.pass_time(30 * DAY)
    assert house.background.started == 0


# Intervals


CHORES = {
    "log.retention.check.interval.ms": "1",
    "log.flush.offset.checkpoint.interval.ms": "0",
    "log.flush.start.offset.checkpoint.interval.ms": "0",
    "replica.high.watermark.checkpoint.interval.ms": "-1",
    "producer.id.expiration.check.interval.ms": "1",
}


@pytest.mark.parametrize("interval", CHORES)
@on_loop
async def test_no_interval_makes_a_chore_spin(interval: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    house = Host(tmp_path, held=False)
    config = BrokerConfig({interval: CHORES[interval]})
    keeping = Housekeeping(house.replicas, house.clock, house.background, lambda: config)
    runs = 0

    def run() -> None:
        nonlocal runs
        runs += 1
        if runs > 100:
            keeping.stop()
            raise SystemExit("the chore spins")

    monkeypatch.setitem(keeping._chores, interval, run)
    keeping.start()
    for _ in range(10):
        house.clock.advance(0.1)
    keeping.stop()
    assert runs == 10


@on_loop
async def test_a_checkpoint_is_not_written_twice_at_once(tmp_path: Path) -> None:
    house = House(tmp_path, held=True)
    house.create_topic("clicks")
    await house.pass_time(60)
    waiting = house.background.waiting
    assert waiting
    await house.pass_time(60)
    assert house.background.waiting == waiting
    await house.background.finish_all()
    await house.pass_time(60)
    assert house.background.waiting
