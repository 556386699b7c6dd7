"""The disk operations that the log needs. Tests pass a disk that loses unsynced data, fills up or fails."""

import contextlib
import errno
import fcntl
import os
import shutil
import sys
from collections.abc import Iterator
from typing import Protocol, TypeAlias

from ottla.env.platform import PORTABLE, fdatasync, fsync
from ottla.env.portable import read_recent

Buffer: TypeAlias = bytes | bytearray | memoryview


class File(Protocol):
    """An open file. All positions are explicit. There is no cursor, so readers and the writer share one file.

    A file closes itself when its last reference is dropped. So a slice that is being sent keeps its file open even if
    the segment is deleted meanwhile.
    """

    def read(self, size: int, position: int) -> bytes:
        """Read up to `size` bytes; fewer only at the end of the file."""

    def write(self, data: Buffer, position: int) -> None:
        """Write all of the data. After an OSError, a part of it may be in the file, for example if the disk is full."""

    def read_cached(self, size: int, position: int) -> bytearray | None:
        """Read exactly `size` bytes if all of them are in memory; None if the read may wait for the disk."""

    def truncate(self, size: int) -> None: ...

    def size(self) -> int: ...

    def sync(self) -> None:
        """Return when the data is on disk. Slow: call it from a thread."""

    def fileno(self) -> int:
        """For zero-copy sends."""

    def close(self) -> None: ...


class Disk(Protocol):
    def open(self, path: str, *, create: bool = False) -> File: ...

    def exists(self, path: str) -> bool: ...

    def size(self, path: str) -> int: ...

    def modified_ms(self, path: str) -> int: ...

    def list(self, path: str) -> list[str]:
        """Names in a directory, sorted."""

    def make_directory(self, path: str) -> None: ...

    def read_bytes(self, path: str) -> bytes: ...

    def replace_bytes(self, path: str, data: bytes) -> None:
        """Replace a small file and sync it. A crash leaves either the old or the new content."""

    def rename(self, old: str, new: str) -> None: ...

    def remove(self, path: str) -> None:
        """Remove a file if it exists."""

    def remove_tree(self, path: str) -> None: ...

    def sync_directory(self, path: str) -> None: ...

    def usage(self, path: str) -> tuple[int, int]:
        """Total and free bytes of the volume that has the path."""

    def lock(self, path: str) -> contextlib.AbstractContextManager[None]:
        """Hold an exclusive lock on a file until the context ends; BlockingIOError if another process has it."""


class OsFile:
    __slots__ = ("_fd",)

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def __del__(self) -> None:
        self.close()

    def read(self, size: int, position: int) -> bytes:
        data = os.pread(self._fd, size, position)
        while 0 < len(data) < size:
            more = os.pread(self._fd, size - len(data), position + len(data))
            if not more:
                break
            data += more
        return data

    if sys.platform != "linux" or PORTABLE:

        def read_cached(self, size: int, position: int) -> bytearray | None:
            return read_recent(self._fd, size, position)

    else:

        def read_cached(self, size: int, position: int) -> bytearray | None:
            data = bytearray(size)
            try:
                count = os.preadv(self._fd, [data], position, os.RWF_NOWAIT)
            except BlockingIOError:
                return None
            except OSError:  # The file system does not support RWF_NOWAIT.
                count = os.preadv(self._fd, [data], position)
            return data if count == size else None

    def write(self, data: Buffer, position: int) -> None:
        written = os.pwrite(self._fd, data, position)
        total = len(data)
        if written != total:
            self._write_rest(memoryview(data), position, written)

    def _write_rest(self, view: memoryview, position: int, written: int) -> None:
        while written < len(view):
            count = os.pwrite(self._fd, view[written:], position + written)
            if count == 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            written += count

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def sync(self) -> None:
        fdatasync(self._fd)

    def fileno(self) -> int:
        return self._fd

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class OsDisk:
    def open(self, path: str, *, create: bool = False) -> OsFile:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return OsFile(os.open(path, flags, 0o644))

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def size(self, path: str) -> int:
        return os.stat(path).st_size

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def list(self, path: str) -> list[str]:
        return sorted(os.listdir(path))

    def make_directory(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def read_bytes(self, path: str) -> bytes:
        with open(path, "rb") as file:
            return file.read()

    def replace_bytes(self, path: str, data: bytes) -> None:
        temporary = path + ".tmp"
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            fsync(file.fileno())
        os.replace(temporary, path)
        self.sync_directory(os.path.dirname(path))

    def rename(self, old: str, new: str) -> None:
        os.rename(old, new)

    def remove(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.remove(path)

    def remove_tree(self, path: str) -> None:
        shutil.rmtree(path)

    def sync_directory(self, path: str) -> None:
        fd = os.open(path or ".", os.O_RDONLY | os.O_CLOEXEC)
        try:
            fsync(fd)
        finally:
            os.close(fd)

    def usage(self, path: str) -> tuple[int, int]:
        stat = os.statvfs(path)
        return stat.f_blocks * stat.f_frsize, stat.f_bavail * stat.f_frsize

    @contextlib.contextmanager
    def lock(self, path: str) -> Iterator[None]:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
        finally:
            os.close(fd)
