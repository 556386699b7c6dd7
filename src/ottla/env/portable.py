"""Forms of system calls that every POSIX system has. They are slower than those of `linux`, not less safe."""

import contextlib
import errno
import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache
from typing import Final

from ottla.env.usage import Usage

MSG_MORE: Final[int] = 0
"""Without a hint that more follows, the kernel may send a short packet before a file slice."""

RECENT_BYTES = 8 << 20
RECENT_SECONDS = 30.0
_SEND_BYTES = 256 << 10
"""About what a socket's buffer takes. A larger read would mostly be repeated."""
_PARENT_CHECK_SECONDS = 0.25
_SYSTEM_PATH = "/usr/sbin:/sbin:/usr/bin:/bin"
_BOOT_ID_NAME = "kern.bootsessionuuid" if sys.platform == "darwin" else "kernel.random.boot_id"


def sendfile(out_fd: int, in_fd: int, offset: int, count: int) -> int:
    """Send bytes of a file to a non-blocking socket, through memory. May send fewer; 0 at the end of the file."""
    data = os.pread(in_fd, min(count, _SEND_BYTES), offset)
    return os.write(out_fd, data) if data else 0


def read_recent(fd: int, size: int, position: int) -> bytearray | None:
    """Read exactly `size` bytes if they are in the tail of a file that was written a moment ago; None otherwise.

    No portable call tells whether a read would wait for the disk. The system keeps written pages in memory at least
    until they are on disk, which takes some seconds, and rarely drops them soon after.
    """
    state = os.fstat(fd)
    if position < state.st_size - RECENT_BYTES or time.time() - state.st_mtime > RECENT_SECONDS:
        return None
    data = os.pread(fd, size, position)
    return bytearray(data) if len(data) == size else None


def sync_with(full_sync: int | None) -> Callable[[int], None]:
    """The sync that survives a power loss. `full_sync` is the number of F_FULLFSYNC, or None where it does not exist.

    On macOS, fsync leaves the data in the cache of the drive. Only F_FULLFSYNC has it written. File systems without
    this command, for example network file systems, get an fsync.
    """
    if full_sync is None:
        return os.fsync

    def sync(fd: int) -> None:
        try:
            fcntl.fcntl(fd, full_sync)
        except OSError as error:
            if error.errno not in (errno.ENOTSUP, errno.EINVAL, errno.ENOTTY):
                raise
            os.fsync(fd)

    return sync


fsync = sync_with(getattr(fcntl, "F_FULLFSYNC", None))
fdatasync = fsync


@cache
def boot_id() -> str:
    """The id of the current boot of the machine. Empty if the system has none."""
    return _output("sysctl", "-n", _BOOT_ID_NAME).strip()


def resident_memory(pid: int) -> int | None:
    """Bytes of memory that a process has; None if the process has ended."""
    kilobytes = _output("ps", "-o", "rss=", "-p", str(pid)).strip()
    return int(kilobytes) * 1024 if kilobytes.isdecimal() else None


def _output(*command: str) -> str:
    """What a command of the system prints. Empty if the command fails or does not exist."""
    try:
        done = subprocess.run(command, env={"PATH": _SYSTEM_PATH}, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout if done.returncode == 0 else ""


def end_with_parent(parent: int) -> None:
    """Have SIGTERM sent to this process when its parent ends. This survives `exec`.

    A second process watches both. A thread of this process would not survive `exec`. A parent that has ended counts as
    running until its own parent has waited for it.
    """
    watched = os.getpid()
    if os.fork():
        return
    os.closerange(0, 3)  # Readers of the output must see its end when the watched process ends.
    while os.getppid() == watched:
        if not _is_running(parent):
            with contextlib.suppress(ProcessLookupError):
                os.kill(watched, signal.SIGTERM)
            break
        time.sleep(_PARENT_CHECK_SECONDS)
    os._exit(0)


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, PermissionError):  # Nobody has the number, or by now a process of another user has it.
        return False
    return True


class _ProcessUsage:
    """The CPU time of the whole process. Only the thread itself can read its own CPU time on every system."""

    cpu_time = staticmethod(time.process_time)
    own_cpu_time = staticmethod(time.process_time)

    def sleeps(self) -> bool:
        return True


def thread_usage(thread: int, native_thread: int) -> Usage:
    """What a thread of this process uses at most, by its ids of Python and of the system."""
    return _ProcessUsage()
