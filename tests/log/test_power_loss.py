"""The worst power loss: all unsynced changes are undone, of names and of contents."""

import random
from collections.abc import Sequence
from typing import TypeVar

import pytest

from ottla.log.config import LogConfig
from ottla.log.log import Log
from ottla.model import TopicPartition
from tests.log.fault_disk import FaultDisk
from tests.log.world import CLICKS, NOW_MS, TOPIC_ID, append, batch, new_log, open_directory, read_all

T = TypeVar("T")

BATCH = len(batch().view)
CONFIG = LogConfig(segment_bytes=3 * BATCH, index_interval_bytes=BATCH // 2)


class Worst(random.Random):
    """The fault disk chooses between outcomes. The first is always to undo everything."""

    def randrange(self, *_: object) -> int:
        return 0

    def choice(self, outcomes: Sequence[T]) -> T:  # type: ignore[override]
        return outcomes[0]


class ContentsLost(Worst):
    """All names are kept, but each file has the content of its last sync. New files are empty."""

    def choice(self, outcomes: Sequence[T]) -> T:  # type: ignore[override]
        return outcomes[-1]


def lose_power(disk: FaultDisk, how: random.Random | None = None) -> Log:
    disk.lose_power(how or Worst())
    return open_directory(disk, config=CONFIG).logs[CLICKS]


def test_what_was_synced_is_there_even_in_a_new_directory() -> None:
    disk = FaultDisk()
    _, log = new_log(disk, config=CONFIG)
    for _ in range(8):
        append(log)
    before = read_all(log)
    log.synced(log.sync())
    append(log)
    log = lose_power(disk)
    assert (log.end_offset, read_all(log)) == (8, before)
    assert disk.read_bytes(f"{log.path}/partition.metadata").startswith(b"version: 0\ntopic_id: ")


def test_a_segment_that_is_new_since_the_last_sync_is_there_after_the_next() -> None:
    disk = FaultDisk()
    _, log = new_log(disk, config=CONFIG)
    append(log)
    log.synced(log.sync())
    for _ in range(6):
        append(log)
    before = read_all(log)
    log.synced(log.sync())
    log = lose_power(disk)
    assert (log.end_offset, read_all(log)) == (7, before)


def test_indexes_that_a_roll_wrote_may_be_lost() -> None:
    """All batches were synced before the segment rolled, so the recovery point is the end of the segment."""
    disk = FaultDisk()
    directory, log = new_log(disk, config=CONFIG)
    for number in range(3):
        append(log, batch(timestamp=NOW_MS + number))
    log.synced(log.sync())
    directory.checkpoint_recovery_points()
    log.roll()
    log = lose_power(disk, ContentsLost())
    assert log.offset_for_timestamp(NOW_MS + 2) == (2, NOW_MS + 2, 0)


def test_nothing_is_promised_of_what_was_not_synced() -> None:
    disk = FaultDisk()
    _, log = new_log(disk, config=CONFIG)
    log.synced(log.sync())
    for _ in range(8):
        append(log)
    log = lose_power(disk)
    assert log.end_offset == 0
    assert append(log).base_offset == 0


@pytest.mark.parametrize("how", [Worst(), ContentsLost()])
def test_a_clean_stop_survives(how: random.Random) -> None:
    disk = FaultDisk()
    directory, log = new_log(disk, config=CONFIG)
    for number in range(8):
        item = batch(producer_id=1, producer_epoch=0, base_sequence=number, timestamp=NOW_MS + number)
        append(log, item, leader_epoch=number // 3)
    log.delete_records_before(4)
    before = read_all(log)
    directory.close()
    log = lose_power(disk, how)
    assert (log.log_start_offset, log.end_offset, log.recovery_point) == (4, 8, 8)
    assert read_all(log) == before
    assert list(log.epochs.entries) == [(1, 4), (2, 6)]
    assert log.max_timestamp() == (7, NOW_MS + 7, 2)
    assert append(log, batch(producer_id=1, producer_epoch=0, base_sequence=7)).duplicate


def test_a_directory_that_is_open_never_passes_for_one_that_was_closed() -> None:
    disk = FaultDisk()
    directory, _ = new_log(disk)
    directory.close()
    open_directory(disk)
    disk.lose_power(Worst())
    assert not disk.exists("/data/.kafka_cleanshutdown")


@pytest.mark.parametrize("clean", [True, False])
def test_what_a_killed_process_wrote_is_synced_by_the_next(clean: bool) -> None:
    """Recovery reads from the page cache, so a successful read does not prove that the data is on disk."""
    disk = FaultDisk()
    _, log = new_log(disk, config=CONFIG)
    for _ in range(8):
        append(log)
    before = read_all(log)
    disk.kill()
    directory = open_directory(disk, config=CONFIG)
    log = directory.logs[CLICKS]
    assert log.recovery_point == 0
    if clean:
        directory.close()
    else:
        log.synced(log.sync())
    log = lose_power(disk)
    assert (log.end_offset, read_all(log)) == (8, before)
    assert disk.read_bytes(f"{log.path}/partition.metadata").startswith(b"version: 0\ntopic_id: ")


def test_the_recovery_point_is_lowered_before_records_are_replaced() -> None:
    disk = FaultDisk()
    directory, log = new_log(disk, config=CONFIG)
    for _ in range(8):
        append(log)
    log.synced(log.sync())
    directory.checkpoint_recovery_points()
    log.truncate_to(4)
    assert disk.read_bytes("/data/recovery-point-offset-checkpoint") == b"0\n1\nclicks 0 4\n"


def test_the_log_start_is_lowered_before_records_are_replaced() -> None:
    disk = FaultDisk()
    directory, log = new_log(disk)
    append(log, batch(5))
    log.delete_records_before(3)
    directory.checkpoint_log_start_offsets()
    log.truncate_to(4)
    assert (log.log_start_offset, log.end_offset) == (0, 0)
    assert disk.read_bytes("/data/log-start-offset-checkpoint") == b"0\n0\n"


def test_a_segment_that_retention_removed_may_return_and_does_no_harm() -> None:
    disk = FaultDisk()
    directory, log = new_log(disk, config=CONFIG)
    log.synced(log.sync())
    for _ in range(8):
        append(log)
    log.delete_records_before(6)
    log.synced(log.sync())
    directory.checkpoint_recovery_points()
    directory.checkpoint_log_start_offsets()
    log = lose_power(disk)
    assert (log.log_start_offset, log.end_offset) == (6, 8)


def test_a_deleted_topic_stays_away_from_its_namesake() -> None:
    disk = FaultDisk()
    directory, log = new_log(disk, config=CONFIG)
    append(log)
    log.synced(log.sync())
    directory.delete_log(CLICKS)
    log = directory.create_log(CLICKS, TOPIC_ID, CONFIG)
    append(log, batch(size=99))
    before = read_all(log)
    log.synced(log.sync())
    other = directory.create_log(TopicPartition("other", 0), TOPIC_ID, CONFIG)
    other.synced(other.sync())
    assert read_all(lose_power(disk)) == before
