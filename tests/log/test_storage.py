import os
from pathlib import Path

from ottla.env.disk import OsDisk
from ottla.log.config import LogConfig
from ottla.log.storage import OpenFiles, sync_file, write_file
from ottla.log.trash import Trash
from ottla.model import TopicPartition
from tests.log.fault_disk import FaultDisk
from tests.log.world import TOPIC_ID, StillClock, append, batch, content, open_directory, open_files, read_all


class Owner:
    released = False

    def release_file(self) -> None:
        self.released = True


def test_the_file_opened_first_is_let_go() -> None:
    files = OpenFiles(2)
    owners = [Owner() for _ in range(4)]
    for owner in owners:
        files.opened(owner)
    assert [owner.released for owner in owners] == [True, True, False, False]
    files.forget(owners[2])
    files.forget(owners[0])
    assert len(files) == 1


def test_open_files_are_bounded_and_every_log_still_works(tmp_path: Path) -> None:
    directory = open_directory(OsDisk(), path=str(tmp_path), max_open_files=5)
    before = len(open_files(tmp_path))
    logs = [directory.create_log(TopicPartition("t", number), TOPIC_ID, LogConfig()) for number in range(30)]
    assert len(open_files(tmp_path)) == before
    for _ in range(3):
        for log in logs:
            append(log)
    assert len(open_files(tmp_path)) == before + 5
    for log in logs:
        assert len(read_all(log)) == 3 * len(batch().view)
    assert len(open_files(tmp_path)) <= before + 5
    directory.close()
    assert len(open_files(tmp_path)) == before - 1  # The lock is released too.


def test_a_slice_stays_readable_when_its_segment_is_let_go_and_deleted(tmp_path: Path) -> None:
    disk = OsDisk()
    directory = open_directory(disk, path=str(tmp_path), max_open_files=1)
    log = directory.create_log(TopicPartition("t", 0), TOPIC_ID, LogConfig(file_delete_delay_ms=0))
    first = batch(size=50)
    append(log, first)
    read = log.read(0, 1000, log.end_offset)
    append(directory.create_log(TopicPartition("t", 1), TOPIC_ID, LogConfig()))
    log.roll()
    append(log)
    log.delete_records_before(1)
    assert directory.trash.sweep() == 3
    assert [name for name in os.listdir(log.path) if name.startswith("0" * 20)] == []
    assert content(read) == bytes(first.view)
    before = len(open_files(tmp_path))
    del read
    assert len(open_files(tmp_path)) == before - 1
    directory.close()


def test_a_small_file_is_replaced() -> None:
    disk = FaultDisk()
    write_file(disk, "/file", b"something long")
    write_file(disk, "/file", b"short")
    assert disk.read_bytes("/file") == b"short"
    sync_file(disk, "/file")
    assert disk._node("/file").durable == b"short"
    sync_file(disk, "/missing")


def test_trash_is_removed_when_its_delay_is_over() -> None:
    disk, clock = FaultDisk(), StillClock()
    trash = Trash(disk, clock)
    write_file(disk, "/a", b"")
    disk.make_directory("/d/e")
    trash.add("/a", 1000)
    trash.add("/d", 2000, tree=True)
    assert (trash.sweep(), len(trash)) == (0, 2)
    clock.now_ms += 1000
    assert (trash.sweep(), disk.list("/")) == (1, ["d"])
    clock.now_ms += 1000
    assert (trash.sweep(), disk.list("/")) == (1, [])


def test_what_cannot_be_removed_is_given_up() -> None:
    disk, clock = FaultDisk(), StillClock()
    trash = Trash(disk, clock)
    trash.add("/d/e/f", 0)
    assert (trash.sweep(), len(trash)) == (0, 0)
