"""The schedule of compaction, on a virtual clock."""

import os
from pathlib import Path
from typing import Any

import pytest

from ottla.config.broker import BrokerConfig
from ottla.log.cleanable import Cleanable, find_cleanable
from ottla.log.cleaning import CleaningVoidError
from ottla.log.layout import CLEANED_OFFSETS, RECOVERY_POINTS
from ottla.log.segment import Segment
from ottla.replication.cleaning import LogCleaner, Rest
from ottla.replication.partition import Partition
from tests.log.compacted_log import stored_batches
from tests.manual_clock import ManualClock
from tests.replication.cluster import Host
from tests.replication.test_housekeeping import House
from tests.replication.world import batch, kill, on_loop, open_directory, records_in, settle, values, visible

COMPACTED = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "internal.segment.bytes": "200",
    "file.delete.delay.ms": "0",
}
LOOK = 15.0
"""The default of log.cleaner.backoff.ms."""


def put(house: Host, partition: Partition, key: bytes, *values: bytes) -> None:
    for value in values:
        partition.append(batch(value, key=key, timestamp=house.clock.time_ms()), inspected=True)


async def look(house: House, times: int = 2) -> None:
    """The first check may only start a sync."""
    for _ in range(times):
        await house.pass_time(LOOK)


def keys_and_values(partition: Partition) -> list[tuple[bytes | None, bytes | None]]:
    return [(record.key, record.value) for record in visible(partition)]


def said_by_the_cleaner(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "ottla.cleaner"]


@on_loop
async def test_only_the_last_value_of_a_key_is_kept(tmp_path: Path) -> None:
    house = House(tmp_path)
    table = house.create_topic("table", configs=COMPACTED)
    for number in range(20):
        put(house, table, b"k%d" % (number % 3), b"%d" % number)
    await look(house)
    found = keys_and_values(table)
    assert len(found) < 8
    assert dict(found) == {b"k0": b"18", b"k1": b"19", b"k2": b"17"}
    assert house.checkpoint(CLEANED_OFFSETS) == {"table-0": table.log.compaction.cleaned_offset}
    assert house.checkpoint(RECOVERY_POINTS)["table-0"] >= table.log.compaction.cleaned_offset
    await house.pass_time(5)
    assert not [name for name in os.listdir(table.log.path) if name.endswith((".deleted", ".cleaned", ".swap"))]


@on_loop
async def test_a_topic_that_is_only_deleted_from_keeps_everything(tmp_path: Path) -> None:
    house = House(tmp_path)
    clicks = house.create_topic("clicks", configs={**COMPACTED, "cleanup.policy": "delete"})
    put(house, clicks, b"k", *(b"%d" % number for number in range(20)))
    await look(house, 4)
    assert len(visible(clicks)) == 20


@on_loop
async def test_a_log_is_compacted_when_enough_of_it_is_new(tmp_path: Path) -> None:
    house = House(tmp_path)
    table = house.create_topic("table", configs={**COMPACTED, "min.cleanable.dirty.ratio": "0.5"})
    for number in range(20):
        put(house, table, b"k%d" % number, b"v")
    await look(house)
    cleaned = table.log.compaction.cleaned_offset
    assert cleaned > 0
    put(house, table, b"k0", *(b"v" for _ in range(6)))
    await look(house)
    assert table.log.compaction.cleaned_offset == cleaned
    put(house, table, b"k0", *(b"v" for _ in range(30)))
    await look(house)
    assert table.log.compaction.cleaned_offset > cleaned


@on_loop
async def test_the_lags_say_when_as_well(tmp_path: Path) -> None:
    house = House(tmp_path)
    lagging = house.create_topic("lagging", configs={**COMPACTED, "min.compaction.lag.ms": "60000"})
    overdue = house.create_topic(
        "overdue", configs={**COMPACTED, "min.cleanable.dirty.ratio": "1", "max.compaction.lag.ms": "60000"}
    )
    for partition in (lagging, overdue):
        put(house, partition, b"k", *(b"%d" % number for number in range(10)))
    await look(house)
    assert [len(visible(partition)) for partition in (lagging, overdue)] == [10, 10]
    await look(house, 4)
    assert [len(visible(partition)) < 4 for partition in (lagging, overdue)] == [True, True]


@on_loop
async def test_max_compaction_lag_also_rolls(tmp_path: Path) -> None:
    house = House(tmp_path)
    table = house.create_topic(
        "table", configs={"cleanup.policy": "compact", "max.compaction.lag.ms": "60000", "segment.ms": "3600000"}
    )
    put(house, table, b"k", b"1")
    await house.pass_time(61)
    put(house, table, b"k", b"2")
    assert len(table.log.segments()) == 2


@on_loop
async def test_the_dirtiest_goes_first(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "ottla.cleaner")
    house = House(tmp_path)
    tables = [house.create_topic(name, configs=COMPACTED) for name in ("a", "b")]
    put(house, tables[0], b"k", *(b"%d" % number for number in range(20)))
    await look(house)
    caplog.clear()
    put(house, tables[0], b"k", b"1", b"2", b"3")
    put(house, tables[1], b"k", *(b"%d" % number for number in range(20)))
    for table in tables:
        table.start_sync()
    await settle()
    await look(house)
    assert [line.split(":")[0] for line in said_by_the_cleaner(caplog)] == ["b-0", "a-0"]


@on_loop
async def test_compaction_can_be_switched_off(tmp_path: Path) -> None:
    house = Host(tmp_path, held=False)
    table = house.create_topic("table", configs=COMPACTED)
    put(house, table, b"k", *(b"%d" % number for number in range(10)))
    cleaner = LogCleaner(
        house.replicas, house.clock, house.background, lambda: BrokerConfig({"log.cleaner.enable": "false"})
    )
    cleaner.start()
    house.clock.advance(60)
    await settle()
    assert len(visible(table)) == 10
    assert house.clock.pending == 0


@on_loop
async def test_without_a_backoff_the_cleaner_does_not_spin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    house = Host(tmp_path, held=False)
    config = BrokerConfig({"log.cleaner.backoff.ms": "0"})
    cleaner = LogCleaner(house.replicas, house.clock, house.background, lambda: config)
    looks = 0

    def look_in_vain() -> None:
        nonlocal looks
        looks += 1
        assert looks < 100, "the cleaner spins"

    monkeypatch.setattr(cleaner, "_find_dirtiest", look_in_vain)
    cleaner.start()
    for _ in range(10):
        house.clock.advance(0.1)
    assert looks == 10


@on_loop
async def test_the_broker_serves_while_it_compacts(tmp_path: Path) -> None:
    house = House(tmp_path, held=True)
    table = house.create_topic("table", configs=COMPACTED)
    put(house, table, b"k", *(b"%d" % number for number in range(10)))
    await house.pass_time(LOOK)
    await house.background.finish_all()
    await house.pass_time(LOOK)
    number = 10
    while house.background.waiting:
        put(house, table, b"k", b"%d" % number)
        assert values(visible(table))[-1] == b"%d" % number
        await house.background.finish_one()
        number += 1
    assert number > 13
    assert len(visible(table)) < number


@on_loop
async def test_a_topic_that_is_deleted_meanwhile_is_let_go(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    house = House(tmp_path, held=True)
    table = house.create_topic("table", configs=COMPACTED)
    put(house, table, b"k", *(b"%d" % number for number in range(10)))
    await house.pass_time(LOOK)
    await house.background.finish_all()
    await house.pass_time(LOOK)
    await house.background.finish_one()
    house.cluster.delete_topic("table")
    house.follow()
    await house.background.finish_all()
    assert said_by_the_cleaner(caplog) == []
    other = house.create_topic("other", configs=COMPACTED)
    put(house, other, b"k", *(b"%d" % number for number in range(10)))
    for _ in range(3):
        await house.pass_time(LOOK)
        await house.background.finish_all()
    assert len(visible(other)) < 10


@on_loop
async def test_segments_that_are_deleted_meanwhile_are_let_go(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    house = House(tmp_path, held=True)
    table = house.create_topic("table", configs={**COMPACTED, "cleanup.policy": "compact,delete"})
    put(house, table, b"k", *(b"%d" % number for number in range(12)))
    await house.pass_time(LOOK)
    await house.background.finish_all()
    await house.pass_time(LOOK)
    for _ in range(3):
        await house.background.finish_one()
        table.delete_records_before(table.log.log_start_offset + 3)
    await house.background.finish_all()
    assert said_by_the_cleaner(caplog) == []
    assert values(visible(table))[-1] == b"11"


@on_loop
async def test_a_failure_is_tried_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    house = House(tmp_path)
    table = house.create_topic("table", configs=COMPACTED)
    put(house, table, b"k", *(b"%d" % number for number in range(10)))
    house.disk.break_("write", ".cleaned")
    await look(house)
    assert "table-0: compaction failed, will retry" in caplog.text
    assert len(visible(table)) == 10
    house.disk.repair()
    await look(house)
    assert len(visible(table)) < 4


@on_loop
async def test_a_swap_that_fails_is_finished_by_the_next_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    house = House(tmp_path)
    table = house.create_topic("table", configs=COMPACTED)
    for number in range(20):
        put(house, table, b"k%d" % (number % 3), b"%d" % number)
    before = dict(keys_and_values(table))
    house.disk.break_("rename", ".log.swap")
    await look(house, 4)
    assert caplog.text.count("compaction failed") == 1
    house.disk.repair()
    directory = house.directories[0]
    kill(directory)
    log = open_directory(directory.path, house.disk, house.clock, COMPACTED).logs[table.topic_partition]
    assert not [name for name in os.listdir(log.path) if name.endswith((".cleaned", ".swap"))]
    read = records_in(b"".join(stored_batches(log)))
    assert {record.key: record.value for record in read} == before
    assert len(read) < 20


@on_loop
async def test_a_swap_that_cannot_begin_is_tried_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    house = House(tmp_path)
    table = house.create_topic("table", configs=COMPACTED)
    put(house, table, b"k", *(b"%d" % number for number in range(10)))
    house.disk.break_("rename", ".log.cleaned")
    await look(house)
    assert caplog.text.count("compaction failed") >= 1
    assert len(visible(table)) == 10
    assert not [name for name in os.listdir(table.log.path) if name.endswith((".cleaned", ".swap"))]
    house.disk.repair()
    await look(house)
    assert len(visible(table)) < 4


@on_loop
async def test_a_damaged_log_is_left_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    house = House(tmp_path)
    table = house.create_topic("table", configs=COMPACTED)
    put(house, table, b"k", *(b"%d" % number for number in range(10)))
    house.disk.open(f"{table.log.path}/{0:020d}.log").write(b"?", 64)
    await look(house, 4)
    assert caplog.text.count("will not be compacted until the broker restarts: at byte 0: the checksum is") == 1


@on_loop
async def test_trouble_with_one_log_is_not_trouble_for_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    house = House(tmp_path)
    bad, good = (house.create_topic(name, configs=COMPACTED) for name in ("bad", "good"))
    for partition in (bad, good):
        put(house, partition, b"k", *(b"%d" % number for number in range(10)))

    def fail_for_bad(segments: list[Segment], *args: Any, **settings: Any) -> Cleanable:
        assert "bad-0" not in segments[0].directory
        return find_cleanable(segments, *args, **settings)

    with monkeypatch.context() as patch:
        patch.setattr("ottla.log.compaction.find_cleanable", fail_for_bad)
        await look(house)
    assert "bad-0: compaction failed, will retry" in caplog.text
    assert len(visible(good)) < 4
    await look(house)
    assert len(visible(bad)) < 4


@on_loop
async def test_who_stops_does_not_wait_for_a_pass(tmp_path: Path) -> None:
    house = House(tmp_path, held=True)
    table = house.create_topic("table", configs=COMPACTED)
    put(house, table, b"k", *(b"%d" % number for number in range(10)))
    await house.pass_time(LOOK)
    await house.background.finish_all()
    await house.pass_time(LOOK)
    await house.background.finish_one()
    house.keeping.stop()
    await house.background.finish_all()
    assert not [name for name in os.listdir(table.log.path) if name.endswith((".cleaned", ".swap"))]
    assert len(visible(table)) == 10
    assert house.clock.pending == 0


class SleepingClock(ManualClock):
    def __init__(self) -> None:
        super().__init__()
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def test_half_of_the_time_is_for_others() -> None:
    clock = SleepingClock()
    rest = Rest(clock, clock.sleep, 1e308, lambda: False)
    for _ in range(10):
        clock.now += 0.0004
        rest(1000)
    assert clock.slept == [pytest.approx(0.0012)] * 3


def test_no_more_bytes_per_second_than_are_allowed() -> None:
    clock = SleepingClock()
    rest = Rest(clock, clock.sleep, 1000.0, lambda: False)
    for _ in range(20):
        rest(1000)
    assert clock.now == pytest.approx(20.0)
    assert max(clock.slept) <= 0.5


@pytest.mark.parametrize("rate", [-1.0, float("nan"), float("inf")])
def test_a_rate_without_meaning_is_no_limit_as_in_apache_kafka(rate: float) -> None:
    clock = SleepingClock()
    rest = Rest(clock, clock.sleep, rate, lambda: False)
    for _ in range(20):
        rest(1000)
    assert clock.slept == []


def test_a_pass_that_nobody_wants_ends() -> None:
    clock = SleepingClock()
    with pytest.raises(CleaningVoidError):
        Rest(clock, clock.sleep, 1e308, lambda: True)(1)
