"""The disk, the clock and the limits that all logs of one directory share."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ottla.env.clock import Clock
    from ottla.env.disk import Disk
    from ottla.log.trash import Trash


class NoRoomError(OSError):
    """The disk is too full for the small file beside the segments, which are synced. It can be tried again."""


class Closeable(Protocol):
    def release_file(self) -> None: ...


class OpenFiles:
    """Limits the number of open segment files. Above the limit, the segment that opened its file first releases it.

    To release a file is to drop the reference to it. The file closes itself with the last reference, so a slice stays
    readable until it is sent, even if its segment was deleted meanwhile. A segment that released its file opens it
    again at the next use, which takes a few microseconds.
    """

    __slots__ = ("_limit", "_open")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._open: OrderedDict[int, Closeable] = OrderedDict()

    def opened(self, owner: Closeable) -> None:
        self._open[id(owner)] = owner
        if len(self._open) > self._limit:
            _, oldest = self._open.popitem(last=False)
            oldest.release_file()

    def forget(self, owner: Closeable) -> None:
        self._open.pop(id(owner), None)

    def __len__(self) -> int:
        return len(self._open)


@dataclass(frozen=True, slots=True)
class Storage:
    disk: Disk
    clock: Clock
    files: OpenFiles
    trash: Trash
    producer_id_expiration_ms: int


def write_file(disk: Disk, path: str, data: bytes) -> None:
    """Write a small file that a crash may lose or tear without harm. Cheaper than `replace_bytes`, which syncs."""
    file = disk.open(path, create=True)
    if file.size():
        file.truncate(0)
    file.write(data, 0)
    file.close()


def sync_file(disk: Disk, path: str) -> None:
    """Sync a file by name, if it exists. Blocking: may run in a thread."""
    with contextlib.suppress(FileNotFoundError):
        file = disk.open(path)
        file.sync()
        file.close()
