"""Distinguishes a clean stop, a killed process and a power loss."""

from ottla.log.layout import CLEAN_SHUTDOWN
from ottla.server.previous_shutdown import Shutdown, read_previous_shutdown, record_start
from tests.log.fault_disk import FaultDisk

PATHS = ("/one", "/two")


def new_disk() -> FaultDisk:
    disk = FaultDisk()
    for path in PATHS:
        disk.make_directory(path)
    return disk


def test_a_killed_broker_finds_its_machine_as_it_was() -> None:
    disk = new_disk()
    record_start(disk, PATHS, "boot 1")
    assert read_previous_shutdown(disk, PATHS, "boot 1") is Shutdown.KILLED
    assert read_previous_shutdown(disk, PATHS, "boot 2") is Shutdown.POWER_LOST


def test_an_empty_disk_has_lost_everything() -> None:
    disk = new_disk()
    assert read_previous_shutdown(disk, PATHS, "boot 1") is Shutdown.POWER_LOST
    record_start(disk, PATHS[:1], "boot 1")
    assert read_previous_shutdown(disk, PATHS, "boot 1") is Shutdown.POWER_LOST


def test_where_the_system_does_not_tell_the_worst_is_assumed() -> None:
    disk = new_disk()
    record_start(disk, PATHS, "")
    assert read_previous_shutdown(disk, PATHS, "") is Shutdown.POWER_LOST


def test_a_clean_stop_leaves_nothing_to_ask() -> None:
    disk = new_disk()
    for path in PATHS:
        disk.replace_bytes(f"{path}/{CLEAN_SHUTDOWN}", b"")
    assert read_previous_shutdown(disk, PATHS, "boot 2") is Shutdown.CLEAN
