"""A full disk: the append fails, no part of it stays, and stored records stay readable."""

import errno
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ottla.env.disk import OsDisk
from ottla.errors import KafkaError
from ottla.log.config import LogConfig
from ottla.model import TopicPartition
from tests.log.fault_disk import FaultDisk
from tests.log.world import CLICKS, TOPIC_ID, append, batch, new_log, open_directory, read_all

BATCH = len(batch().view)


@pytest.mark.parametrize("room", range(0, BATCH, 7))
@pytest.mark.parametrize("crash", [False, True])
def test_a_refused_append_leaves_no_trace(room: int, crash: bool) -> None:
    disk = FaultDisk()
    log = new_log(disk)[1]
    for number in range(3):
        append(log, batch(producer_id=1, producer_epoch=0, base_sequence=number))
    before = read_all(log)
    disk.room = room
    with pytest.raises(OSError, match="No space left") as error:
        append(log, batch(producer_id=1, producer_epoch=0, base_sequence=3))
    assert error.value.errno == errno.ENOSPC
    assert (log.end_offset, read_all(log)) == (3, before)
    assert disk.size(f"{log.path}/{0:020d}.log") == 3 * BATCH
    disk.room = None
    if crash:
        disk.kill()
        log = open_directory(disk).logs[CLICKS]
    assert append(log, batch(producer_id=1, producer_epoch=0, base_sequence=3)).base_offset == 3


def test_bytes_that_cannot_even_be_cut_off_are_overwritten(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = FaultDisk()
    directory, log = new_log(disk)
    append(log)
    disk.room = 50
    with monkeypatch.context() as patch:

        def failing(*_: object) -> None:
            raise OSError(errno.EIO, "Input/output error")

        patch.setattr("tests.log.fault_disk.FaultFile.truncate", failing)
        with pytest.raises(OSError, match="No space left"):
            append(log)
    disk.room = None
    assert len(read_all(log)) == BATCH
    directory.close()
    assert disk.size(f"{log.path}/{0:020d}.log") == BATCH
    log = open_directory(disk).logs[CLICKS]
    assert append(log).base_offset == 1


@pytest.mark.parametrize("room", [0, 4, 30, 60])
def test_a_roll_that_fails_changes_nothing(room: int) -> None:
    disk = FaultDisk()
    directory, log = new_log(disk, config=LogConfig(segment_bytes=3 * BATCH, index_interval_bytes=0))
    for number in range(3):
        append(log, batch(producer_id=1, producer_epoch=0, base_sequence=number))
    disk.room = room
    with pytest.raises(OSError, match="No space left"):
        append(log, batch(producer_id=1, producer_epoch=0, base_sequence=3))
    assert ([segment.base_offset for segment in log.segments()], log.end_offset) == ([0], 3)
    assert len(read_all(log)) == 3 * BATCH
    disk.room = None
    assert append(log, batch(producer_id=1, producer_epoch=0, base_sequence=3)).base_offset == 3
    directory.close()
    log = open_directory(disk).logs[CLICKS]
    assert (log.end_offset, len(read_all(log))) == (4, 4 * BATCH)


def test_index_entries_without_room_wait_in_memory(caplog: pytest.LogCaptureFixture) -> None:
    """512 entries are a block. The block does not fit on the disk, but the append that completed it does."""
    disk = FaultDisk()
    directory, log = new_log(disk, config=LogConfig(index_interval_bytes=0))
    for _ in range(512):
        append(log)
    disk.room = BATCH
    assert append(log).base_offset == 512
    assert "stay in memory" in caplog.text
    disk.room = None
    assert len(read_all(log)) == 513 * BATCH
    directory.close()
    assert disk.size(f"{log.path}/{0:020d}.index") == 512 * 8


def test_a_partition_that_cannot_be_created_is_not_there() -> None:
    disk = FaultDisk()
    directory, _ = new_log(disk)
    disk.room = 10
    with pytest.raises(OSError, match="No space left"):
        directory.create_log(TopicPartition("more", 0), TOPIC_ID, LogConfig())
    assert list(directory.logs) == [CLICKS]
    assert not disk.exists("/data/more-0")
    disk.room = None
    directory.create_log(TopicPartition("more", 0), TOPIC_ID, LogConfig())


def test_a_stop_on_a_full_disk_is_no_clean_stop() -> None:
    disk = FaultDisk()
    directory, log = new_log(disk)
    append(log)
    disk.room = 0
    with pytest.raises(OSError, match="No space left"):
        directory.close()
    disk.room = None
    assert not disk.exists("/data/.kafka_cleanshutdown")
    disk.kill()
    assert open_directory(disk).logs[CLICKS].end_offset == 1


@contextmanager
def files_limited_to(size: int) -> Iterator[None]:
    """The operating system writes the part that fits and rejects the rest."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_real_write_that_is_cut_short(tmp_path: Path) -> None:
    directory, log = new_log(OsDisk(), path=str(tmp_path))
    for _ in range(10):
        append(log)
    before = read_all(log)
    with files_limited_to(10 * BATCH + 30):
        with pytest.raises(OSError, match="File too large"):
            append(log)
        assert (log.end_offset, read_all(log)) == (10, before)
        assert (tmp_path / "clicks-0" / f"{0:020d}.log").stat().st_size == 10 * BATCH
    assert append(log).base_offset == 10
    directory.close()
    directory = open_directory(OsDisk(), path=str(tmp_path))
    assert directory.logs[CLICKS].end_offset == 11
    with pytest.raises(KafkaError):
        directory.logs[CLICKS].read(12, 1, 12)
    directory.close()
