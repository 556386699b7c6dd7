"""The transaction index, `.txnindex`: which transactions were aborted by a marker in the segment.

A reader of committed records gets it with what it reads, and leaves out the records of those transactions. An entry is
written with each abort, so that a segment without one has no file. Entries rise in their last offset.

A damaged index is recognised when it is first used, but a missing one looks like one without entries. Hence recovery
writes the index of every segment that it checks anew, and no segment is left unchecked before its index is synced.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from typing import TYPE_CHECKING, NamedTuple

from ottla.log.index import DamagedIndex
from ottla.log.storage import sync_file
from ottla.model import NO_OFFSET

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ottla.env.disk import Disk, File

ABORTED_ENTRY = struct.Struct(">hqqqq")
"""Version, then the fields of `AbortedTransaction`."""

_VERSION = 0
_BLOCK = 128
"""Entries that are read at once."""

_UNKNOWN = -1


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    """That of the marker."""
    last_stable_offset: int
    """What it was once the marker was written: no transaction that ends later begins before it."""


class TransactionIndex:
    __slots__ = ("_base_offset", "_count", "_disk", "_last_offset", "_path")

    def __init__(self, disk: Disk, path: str, base_offset: int, *, new: bool) -> None:
        self._disk = disk
        self._path = path
        self._base_offset = base_offset
        self._count = 0 if new else _UNKNOWN
        self._last_offset = NO_OFFSET

    @property
    def loaded(self) -> bool:
        """Whether the file was looked at: everything below needs that."""
        return self._count != _UNKNOWN

    def load(self) -> None:
        """Check the file, once. Raises DamagedIndex."""
        count, last = 0, NO_OFFSET
        for entry in entries(self._disk.read_bytes(self._path)):
            if not max(last + 1, self._base_offset) <= entry.last_offset or entry.first_offset > entry.last_offset:
                raise DamagedIndex(f"{self._path} has the transaction {entry} after offset {last}")
            count, last = count + 1, entry.last_offset
        self._count, self._last_offset = count, last

    @property
    def size(self) -> int:
        """Bytes of the file that count."""
        return self._count * ABORTED_ENTRY.size

    def prepare(self, aborted: AbortedTransaction) -> None:
        """Write an entry that does not count yet. On OSError the index is as it was."""
        file = self._disk.open(self._path, create=True)
        file.write(ABORTED_ENTRY.pack(_VERSION, *aborted), self._count * ABORTED_ENTRY.size)
        file.close()

    def commit(self, aborted: AbortedTransaction) -> None:
        """The marker is in the log, so the entry that was prepared counts. One that never does is overwritten."""
        self._count += 1
        self._last_offset = aborted.last_offset

    def rewrite(self, aborted: Iterable[AbortedTransaction]) -> None:
        """Replace a damaged file, and sync it: another crash must not leave an empty one."""
        self._disk.replace_bytes(self._path, encode_entries(aborted))
        self.load()

    def truncate(self, end_offset: int) -> None:
        """Keep the transactions that ended before an offset."""
        if self._last_offset >= end_offset:
            file = self._disk.open(self._path)
            self._count = self._count_before(file, end_offset)
            self._last_offset = self._read(file, self._count - 1).last_offset if self._count else NO_OFFSET
            file.close()
        self.seal()

    def seal(self) -> None:
        """Have the file hold all entries and nothing else."""
        size = self.size
        if not self.loaded or not self._disk.exists(self._path) or self._disk.size(self._path) == size:
            return
        if size == 0:
            self._disk.remove(self._path)
            return
        file = self._disk.open(self._path)
        file.truncate(size)
        file.close()

    def sync(self) -> None:
        """Blocking: may run in a thread, once the segment is sealed."""
        sync_file(self._disk, self._path)

    def collect(self, fetch_offset: int, upper_bound_offset: int) -> tuple[list[AbortedTransaction], bool]:
        """The aborted transactions with records in a range of offsets, the upper bound not included.

        The second value tells whether that is all: otherwise, markers in later segments may have more. Raises
        DamagedIndex.
        """
        found: list[AbortedTransaction] = []
        if self._last_offset < fetch_offset:
            return found, False
        file = self._disk.open(self._path)
        slot = self._count_before(file, fetch_offset)
        while slot < self._count:
            block = file.read(min(_BLOCK, self._count - slot) * ABORTED_ENTRY.size, slot * ABORTED_ENTRY.size)
            for entry in entries(block):
                if entry.first_offset < upper_bound_offset:
                    found.append(entry)
                if entry.last_stable_offset >= upper_bound_offset:
                    return found, True
            slot += _BLOCK
        return found, False

    def _count_before(self, file: File, offset: int) -> int:
        """How many transactions ended before an offset."""
        return bisect_left(range(self._count), offset, key=lambda slot: self._read(file, slot).last_offset)

    def _read(self, file: File, slot: int) -> AbortedTransaction:
        for entry in entries(file.read(ABORTED_ENTRY.size, slot * ABORTED_ENTRY.size)):
            return entry
        raise DamagedIndex(f"{self._path} is shorter than it was")


def encode_entries(aborted: Iterable[AbortedTransaction]) -> bytes:
    return b"".join(ABORTED_ENTRY.pack(_VERSION, *entry) for entry in aborted)


def entries(data: bytes) -> Iterable[AbortedTransaction]:
    """The entries in a file's bytes; what is too short to be one at the end is left out. Raises DamagedIndex."""
    for version, *fields in ABORTED_ENTRY.iter_unpack(data[: len(data) // ABORTED_ENTRY.size * ABORTED_ENTRY.size]):
        if version != _VERSION:
            raise DamagedIndex(f"version {version} of an aborted transaction is unknown")
        yield AbortedTransaction(*fields)
