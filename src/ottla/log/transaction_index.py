"""The transaction index, `.txnindex`: the transactions that a marker in the segment aborted.

A Fetch reply to a `read_committed` consumer lists the aborted transactions, and the consumer skips their records. Each
abort adds an entry, so a segment without aborts has no file. The last offsets of the entries rise.

A damaged index is detected at its first use, but a missing index looks like an empty one. So recovery rewrites the
index of every segment that it checks, and it skips only segments whose index was synced.
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
"""Number of entries that are read at once."""

_UNKNOWN = -1


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    """The offset of the marker."""
    last_stable_offset: int
    """The last stable offset after the marker. Every transaction that ends later begins at or after it."""


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
        """Whether the file was read. All methods below need that."""
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
        """Bytes of the valid entries in the file."""
        return self._count * ABORTED_ENTRY.size

    def prepare(self, aborted: AbortedTransaction) -> None:
        """Write an entry that becomes valid with `commit`. On OSError the index is unchanged."""
        file = self._disk.open(self._path, create=True)
        file.write(ABORTED_ENTRY.pack(_VERSION, *aborted), self._count * ABORTED_ENTRY.size)
        file.close()

    def commit(self, aborted: AbortedTransaction) -> None:
        """Make the prepared entry valid, after the marker was appended. The next `prepare` overwrites an entry that was
        never committed."""
        self._count += 1
        self._last_offset = aborted.last_offset

    def rewrite(self, aborted: Iterable[AbortedTransaction]) -> None:
        """Replace a damaged file and sync it, because a crash must not leave an empty file."""
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
        """Cut off everything after the valid entries. Delete the file if there are none."""
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
        """The aborted transactions with records in a range of offsets. The upper bound is exclusive.

        The second value is True if these are all. Otherwise markers in later segments may have aborted more. Raises
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
        """Number of transactions that ended before an offset."""
        return bisect_left(range(self._count), offset, key=lambda slot: self._read(file, slot).last_offset)

    def _read(self, file: File, slot: int) -> AbortedTransaction:
        for entry in entries(file.read(ABORTED_ENTRY.size, slot * ABORTED_ENTRY.size)):
            return entry
        raise DamagedIndex(f"{self._path} is shorter than it was")


def encode_entries(aborted: Iterable[AbortedTransaction]) -> bytes:
    return b"".join(ABORTED_ENTRY.pack(_VERSION, *entry) for entry in aborted)


def entries(data: bytes) -> Iterable[AbortedTransaction]:
    """The entries in the bytes of a file. An incomplete entry at the end is skipped. Raises DamagedIndex."""
    for version, *fields in ABORTED_ENTRY.iter_unpack(data[: len(data) // ABORTED_ENTRY.size * ABORTED_ENTRY.size]):
        if version != _VERSION:
            raise DamagedIndex(f"version {version} of an aborted transaction is unknown")
        yield AbortedTransaction(*fields)
