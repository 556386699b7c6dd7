"""A log may be prepared for its close while it is still in use. Appends in between are not lost."""

from collections.abc import Callable

import pytest

from ottla.log.config import LogConfig
from ottla.log.log import Log
from tests.log.fault_disk import FaultDisk
from tests.log.test_power_loss import Worst
from tests.log.world import CLICKS, append, batch, new_log, open_directory, read_all

BATCH = len(batch().view)
CONFIG = LogConfig(segment_bytes=3 * BATCH, index_interval_bytes=BATCH // 2)


def grow(log: Log) -> None:
    append(log)


def roll(log: Log) -> None:
    for _ in range(4):
        append(log)


def shrink_and_grow(log: Log) -> None:
    log.truncate_to(log.end_offset - 1)
    append(log, batch(size=9))


def nothing(log: Log) -> None:
    pass


MEANWHILE: list[Callable[[Log], None]] = [nothing, grow, roll, shrink_and_grow]


@pytest.mark.parametrize("before_sync", MEANWHILE)
@pytest.mark.parametrize("after_sync", MEANWHILE)
def test_what_happens_meanwhile_is_not_lost(
    before_sync: Callable[[Log], None], after_sync: Callable[[Log], None]
) -> None:
    disk = FaultDisk()
    directory, log = new_log(disk, config=CONFIG)
    for number in range(5):
        append(log, batch(producer_id=7, producer_epoch=0, base_sequence=number))
    preparation = log.prepare_to_close()
    assert preparation is not None
    before_sync(log)
    preparation.sync()
    after_sync(log)
    log.finish_preparation(preparation)
    expected, end = read_all(log), log.end_offset
    directory.close()
    disk.lose_power(Worst())
    again = open_directory(disk, config=CONFIG).logs[CLICKS]
    assert (again.end_offset, read_all(again)) == (end, expected)
    assert len(again.producers) == 1


def test_a_prepared_log_is_closed_without_a_sync() -> None:
    disk = FaultDisk()
    _, log = new_log(disk, config=CONFIG)
    append(log)
    preparation = log.prepare_to_close()
    assert preparation is not None
    preparation.sync()
    log.finish_preparation(preparation)
    assert log.prepare_to_close() is None
    disk.sync_fails = True
    log.close(clean=True)
    assert not log.fsync_failed


def test_a_log_whose_preparation_failed_is_not_closed_cleanly() -> None:
    disk = FaultDisk()
    directory, log = new_log(disk, config=CONFIG)
    append(log)
    preparation = log.prepare_to_close()
    assert preparation is not None
    disk.sync_fails = True
    with pytest.raises(OSError, match="Input/output error"):
        preparation.sync()
    disk.sync_fails = False
    directory.close()
    assert log.fsync_failed
    assert not disk.exists(f"{directory.path}/.kafka_cleanshutdown")
