"""The disk: explicit positions, complete writes or an error, and atomic replacement of small files."""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ottla.env.disk import OsDisk, OsFile
from ottla.env.platform import PORTABLE


@pytest.fixture
def disk() -> OsDisk:
    return OsDisk()


@contextmanager
def no_file_larger_than(size: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_reads_and_writes_are_at_positions(disk: OsDisk, tmp_path: Path) -> None:
    file = disk.open(str(tmp_path / "file"), create=True)
    file.write(b"hello world", 0)
    file.write(memoryview(b"W"), 6)
    file.write(bytearray(b"!"), 11)
    assert file.read(100, 0) == b"hello World!"
    assert file.read(5, 6) == b"World"
    assert file.read(5, 100) == b""
    file.truncate(5)
    assert file.size() == disk.size(str(tmp_path / "file")) == 5


def test_a_write_that_finds_no_room_is_an_error(disk: OsDisk, tmp_path: Path) -> None:
    """The kernel writes the part that fits and returns its size. The rest must not be lost silently."""
    file = disk.open(str(tmp_path / "file"), create=True)
    with no_file_larger_than(100_000), pytest.raises(OSError, match="too large"):
        file.write(bytes(150_000), 0)
    assert file.size() <= 100_000


def test_opening_does_not_create(disk: OsDisk, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        disk.open(str(tmp_path / "missing"))
    assert not disk.exists(str(tmp_path / "missing"))


def test_a_file_closes_itself_when_nobody_holds_it(disk: OsDisk, tmp_path: Path) -> None:
    file = disk.open(str(tmp_path / "file"), create=True)
    descriptor = file.fileno()
    del file
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_a_closed_file_never_touches_another(disk: OsDisk, tmp_path: Path) -> None:
    """The operating system may have reused the descriptor by then."""
    file = disk.open(str(tmp_path / "file"), create=True)
    file.close()
    file.close()
    other = disk.open(str(tmp_path / "other"), create=True)
    with pytest.raises(OSError, match="Bad file descriptor"):
        file.write(b"stray", 0)
    assert other.size() == 0
    assert file.fileno() == -1


def test_small_files_are_replaced_whole(disk: OsDisk, tmp_path: Path) -> None:
    path = str(tmp_path / "checkpoint")
    disk.replace_bytes(path, b"old")
    disk.replace_bytes(path, b"new and longer")
    assert disk.read_bytes(path) == b"new and longer"
    assert disk.list(str(tmp_path)) == ["checkpoint"]


def test_a_replacement_that_fails_leaves_the_old_file(disk: OsDisk, tmp_path: Path) -> None:
    path = str(tmp_path / "checkpoint")
    disk.replace_bytes(path, b"old")
    with no_file_larger_than(10), pytest.raises(OSError, match="too large"):
        disk.replace_bytes(path, bytes(100))
    assert disk.read_bytes(path) == b"old"


def test_a_lock_is_for_one(disk: OsDisk, tmp_path: Path) -> None:
    path = str(tmp_path / ".lock")
    with disk.lock(path):
        with pytest.raises(BlockingIOError), OsDisk().lock(path):
            pass
        with pytest.raises(BlockingIOError), OsDisk().lock(path):
            pass
    with disk.lock(path):
        pass


def test_directories(disk: OsDisk, tmp_path: Path) -> None:
    path = str(tmp_path / "a" / "b")
    disk.make_directory(path)
    disk.make_directory(path)
    disk.open(path + "/2", create=True)
    disk.open(path + "/1", create=True)
    assert disk.list(path) == ["1", "2"]
    disk.sync_directory(path)
    disk.rename(path, str(tmp_path / "c"))
    disk.remove(str(tmp_path / "c" / "1"))
    disk.remove(str(tmp_path / "c" / "1"))
    assert disk.list(str(tmp_path / "c")) == ["2"]
    disk.remove_tree(str(tmp_path / "c"))
    assert not disk.exists(str(tmp_path / "c"))


def test_usage(disk: OsDisk, tmp_path: Path) -> None:
    total, free = disk.usage(str(tmp_path))
    assert 0 < free <= total


def test_files_do_not_reach_child_processes(disk: OsDisk, tmp_path: Path) -> None:
    file = disk.open(str(tmp_path / "file"), create=True)
    assert isinstance(file, OsFile)
    assert not os.get_inheritable(file.fileno())


def test_what_was_just_written_is_in_memory(disk: OsDisk, tmp_path: Path) -> None:
    file = disk.open(f"{tmp_path}/file", create=True)
    file.write(bytes(1 << 20), 0)
    assert file.read_cached(1 << 20, 0) == bytearray(1 << 20)
    assert file.read_cached(2, (1 << 20) - 1) is None  # there is only one byte more


@pytest.mark.skipif(PORTABLE, reason="only Linux tells what is in memory; test_portable.py tests the other form")
def test_a_file_tells_what_is_in_memory(disk: OsDisk, tmp_path: Path) -> None:
    file = disk.open(f"{tmp_path}/file", create=True)
    file.write(bytes(1 << 20), 0)
    file.sync()
    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    if file.read_cached(1, 0) is not None:
        pytest.skip("this file system keeps its pages, or cannot tell")
    assert file.read_cached(1, 1 << 19) is None
    file.read(1 << 20, 0)
    assert file.read_cached(1, 0) == bytearray(1)
    assert file.read_cached(1, (1 << 20) - 1) == bytearray(1)
