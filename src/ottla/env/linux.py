"""System calls and files that only Linux has. `platform` chooses between these forms and those of `portable`."""

import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from ottla.env.usage import Usage

assert sys.platform == "linux"

MSG_MORE: Final[int] = socket.MSG_MORE
sendfile: Callable[[int, int, int, int], int] = os.sendfile
fdatasync: Callable[[int], None] = os.fdatasync
fsync: Callable[[int], None] = os.fsync

_PR_SET_PDEATHSIG = 1


def boot_id() -> str:
    """The id of the current boot of the machine. Empty if the system has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def resident_memory(pid: int) -> int | None:
    """Bytes of memory that a process has; None if the process has ended."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")


def end_with_parent(parent: int) -> None:
    """Have SIGTERM sent to this process when its parent ends. This survives `exec`."""
    import ctypes  # Only the children of a command need it, and its import takes some milliseconds.

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


class _ThreadUsage:
    """The CPU time of one thread, from its clock, and its state, from /proc."""

    def __init__(self, thread: int, native_thread: int) -> None:
        self._clock = time.pthread_getcpuclockid(thread)
        self._state_file = f"/proc/self/task/{native_thread}/stat"

    def cpu_time(self) -> float:
        return time.clock_gettime(self._clock)

    own_cpu_time = staticmethod(time.thread_time)

    def sleeps(self) -> bool:
        try:
            with open(self._state_file) as file:
                return file.read().rpartition(")")[2].split()[0] != "R"
        except OSError:
            return True  # /proc is not mounted: every check counts as asleep.


def thread_usage(thread: int, native_thread: int) -> Usage:
    """What a thread of this process uses, by its ids of Python and of the system."""
    return _ThreadUsage(thread, native_thread)
