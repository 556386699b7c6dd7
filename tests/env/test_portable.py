"""The portable forms of system calls, on real files, sockets and processes. They are tested on Linux too."""

import contextlib
import errno
import fcntl
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ottla.env import linux, portable
from ottla.env.usage import Usage

PROGRAMS = f"{os.defpath}:/usr/sbin:/sbin"


@pytest.fixture
def sockets() -> Iterator[tuple[socket.socket, socket.socket]]:
    left, right = socket.socketpair()
    left.setblocking(False)
    with left, right:
        yield left, right


def received(sock: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        data += sock.recv(size - len(data))
    return bytes(data)


def test_a_part_of_a_file_is_sent(sockets: tuple[socket.socket, socket.socket], tmp_path: Path) -> None:
    left, right = sockets
    (tmp_path / "file").write_bytes(b"before" + b"records" + b"after")
    with (tmp_path / "file").open("rb") as file:
        assert portable.sendfile(left.fileno(), file.fileno(), 6, 7) == 7
        assert received(right, 7) == b"records"
        assert portable.sendfile(left.fileno(), file.fileno(), 13, 1000) == 5
        assert received(right, 5) == b"after"
        assert portable.sendfile(left.fileno(), file.fileno(), 18, 1000) == 0


def test_a_full_socket_takes_a_part_and_then_nothing(
    sockets: tuple[socket.socket, socket.socket], tmp_path: Path
) -> None:
    left, right = sockets
    content = os.urandom(4 << 20)
    (tmp_path / "file").write_bytes(content)
    sent = 0
    with (tmp_path / "file").open("rb") as file:
        with contextlib.suppress(BlockingIOError):
            while sent < len(content):
                sent += portable.sendfile(left.fileno(), file.fileno(), sent, len(content) - sent)
        with pytest.raises(BlockingIOError):
            portable.sendfile(left.fileno(), file.fileno(), 0, 1)
        assert 0 < sent < len(content)
        assert received(right, sent) == content[:sent]
        right.close()
        with pytest.raises(BrokenPipeError):
            portable.sendfile(left.fileno(), file.fileno(), 0, 1)


def test_only_the_tail_of_a_file_that_was_just_written_counts_as_in_memory(tmp_path: Path) -> None:
    path, size = tmp_path / "file", 2 * portable.RECENT_BYTES
    path.write_bytes(b"begin")
    os.truncate(path, size)
    with path.open("rb") as file:
        fd = file.fileno()
        assert portable.read_recent(fd, 5, 0) is None
        assert portable.read_recent(fd, 1, size - portable.RECENT_BYTES - 1) is None
        assert portable.read_recent(fd, 1, size - portable.RECENT_BYTES) == bytearray(1)
        assert portable.read_recent(fd, 10, size - 10) == bytearray(10)
        assert portable.read_recent(fd, 10, size - 9) is None
        long_ago = time.time() - portable.RECENT_SECONDS - 60
        os.utime(path, (long_ago, long_ago))
        assert portable.read_recent(fd, 10, size - 10) is None


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The descriptors that fsync was called with."""
    calls: list[int] = []
    fsync = os.fsync

    def record(fd: int) -> None:
        calls.append(fd)
        fsync(fd)

    monkeypatch.setattr(os, "fsync", record)
    return calls


def failing(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def fail(fd: int, command: int) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "fcntl", fail)


def test_without_a_full_sync_there_is_fsync(synced: list[int], tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb") as file:
        portable.sync_with(None)(file.fileno())
        assert synced == [file.fileno()]


def test_a_full_sync_replaces_fsync(synced: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[tuple[int, int]] = []
    monkeypatch.setattr(fcntl, "fcntl", lambda fd, command: commands.append((fd, command)))
    with (tmp_path / "file").open("wb") as file:
        portable.sync_with(51)(file.fileno())
        assert (commands, synced) == ([(file.fileno(), 51)], [])


@pytest.mark.parametrize("number", [errno.ENOTSUP, errno.EINVAL, errno.ENOTTY])
def test_a_file_system_without_full_sync_gets_fsync(
    synced: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    failing(monkeypatch, number)
    with (tmp_path / "file").open("wb") as file:
        portable.sync_with(51)(file.fileno())
        assert synced == [file.fileno()]


def test_a_failed_full_sync_is_an_error(synced: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An fsync that succeeds afterwards would hide that data is lost."""
    failing(monkeypatch, errno.EIO)
    with (tmp_path / "file").open("wb") as file, pytest.raises(OSError, match="Input/output error"):
        portable.sync_with(51)(file.fileno())
    assert synced == []


def test_this_system_has_the_sync_that_it_needs() -> None:
    assert (portable.fsync is os.fsync) == (sys.platform != "darwin")


@pytest.mark.skipif(shutil.which("sysctl", path=PROGRAMS) is None, reason="there is no sysctl")
def test_the_boot_id_is_that_of_the_system() -> None:
    assert portable.boot_id() == linux.boot_id() != ""


@pytest.mark.skipif(shutil.which("ps", path=PROGRAMS) is None, reason="there is no ps")
def test_the_memory_of_a_process() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        memory = portable.resident_memory(process.pid)
        process.communicate(b"\n")
    assert memory is not None
    assert 1 << 20 < memory < 1 << 30
    assert portable.resident_memory(process.pid) is None


@pytest.mark.parametrize("usage_of", [linux.thread_usage, portable.thread_usage], ids=["linux", "portable"])
def test_cpu_time_is_measured_by_one_clock(usage_of: Callable[[int, int], Usage]) -> None:
    """The watchdog subtracts what it reads from what the watched thread reads."""
    usage = usage_of(threading.get_ident(), threading.get_native_id())
    before, own = usage.cpu_time(), usage.own_cpu_time()
    end = time.thread_time() + 0.05
    while time.thread_time() < end:
        pass
    after = usage.cpu_time()
    assert before <= own
    assert own + 0.04 < after <= usage.own_cpu_time()
