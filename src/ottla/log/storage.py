"""What all logs of one directory share."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ottla.env.clock import Clock
    from ottla.env.disk import Disk
    from ottla.log.trash import Trash


class Closeable(Protocol):
    def release_file(self) -> None: ...


class OpenFiles:
    """A bound on open segment files: the one opened first is let go when there are too many.

    Letting go means dropping a reference. A file closes itself when nobody refers to it any more, so a slice that is
    being sent stays readable however long that takes, also when its segment was deleted meanwhile. A busy segment that
    is let go opens its file again at its next use, which costs a few microseconds once per round.
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
    """Write a small file whose loss or tearing in a crash does no harm, which saves the price of `replace_bytes`."""
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
