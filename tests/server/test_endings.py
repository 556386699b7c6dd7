"""A clean stop, a killed process and a machine without power are told apart."""

from ottla.log.layout import CLEAN_SHUTDOWN
from ottla.server.endings import Ending, last_ending, note_beginning
from tests.log.fault_disk import FaultDisk

PATHS = ("/one", "/two")


def new_disk() -> FaultDisk:
    disk = FaultDisk()
    for path in PATHS:
        disk.make_directory(path)
    return disk


def test_a_killed_broker_finds_its_machine_as_it_was() -> None:
    disk = new_disk()
    note_beginning(disk, PATHS, "boot 1")
    assert last_ending(disk, PATHS, "boot 1") is Ending.KILLED
    assert last_ending(disk, PATHS, "boot 2") is Ending.LOST


def test_an_empty_disk_has_lost_everything() -> None:
    disk = new_disk()
    assert last_ending(disk, PATHS, "boot 1") is Ending.LOST
    note_beginning(disk, PATHS[:1], "boot 1")
    assert last_ending(disk, PATHS, "boot 1") is Ending.LOST


def test_where_the_system_does_not_tell_the_worst_is_assumed() -> None:
    disk = new_disk()
    note_beginning(disk, PATHS, "")
    assert last_ending(disk, PATHS, "") is Ending.LOST


def test_a_clean_stop_leaves_nothing_to_ask() -> None:
    disk = new_disk()
    for path in PATHS:
        disk.replace_bytes(f"{path}/{CLEAN_SHUTDOWN}", b"")
    assert last_ending(disk, PATHS, "boot 2") is Ending.CLEAN
