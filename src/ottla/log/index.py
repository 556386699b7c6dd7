"""Sparse indexes: for every few kilobytes of a segment, one entry of fixed size with the position of a batch.

An index file has exactly the entries that were written. Kafka preallocates index files with zeros while a segment is
active; such padding is detected and cut off. New entries are buffered in memory and written in blocks. A crash may lose
them, but recovery rebuilds the index of every segment past the recovery point, and older segments were flushed when
they were sealed. No file stays open between calls. The block read last stays in memory, because the next read of a
segment mostly continues the last one.
"""

import struct
from collections.abc import Iterator

from ottla.env.disk import Disk, File
from ottla.log.storage import sync_file

OFFSET_ENTRY = struct.Struct(">ii")
"""Relative offset of a batch's last record, byte position of the batch."""

TIME_ENTRY = struct.Struct(">qi")
"""Largest timestamp so far, relative offset of the last record of the batch that has it."""

MAX_RELATIVE_OFFSET = 2**31 - 1

_BLOCK_BYTES = 4096
_UNKNOWN = -1


class DamagedIndex(Exception):  # noqa: N818 - it names the thing that is wrong
    """The file does not match its segment. The index can be rebuilt from the segment."""


class SparseIndex:
    """An append-only table of sorted entries: part in the file, the newest part in memory."""

    __slots__ = ("_block", "_block_slot", "_disk", "_entry", "_path", "_stored", "_tail")

    def __init__(self, disk: Disk, path: str, entry: struct.Struct, *, new: bool) -> None:
        self._disk = disk
        self._path = path
        self._entry = entry
        self._stored = 0 if new else _UNKNOWN
        self._tail = bytearray()
        self._block = b""
        self._block_slot = 0

    def __len__(self) -> int:
        return self._stored_count() + len(self._tail) // self._entry.size

    def append(self, first: int, second: int) -> None:
        self._tail += self._entry.pack(first, second)

    @property
    def wants_flush(self) -> bool:
        return len(self._tail) >= _BLOCK_BYTES

    def last(self) -> tuple[int, int] | None:
        if self._tail:
            return self._unpack(self._tail, len(self._tail) // self._entry.size - 1)
        count = self._stored_count()
        return self._read(count - 1) if count else None

    def flush(self) -> None:
        """Write the entries in memory to the file, and create it if needed. On OSError they stay in memory."""
        stored = self._stored_count()
        if self._tail or not self._disk.exists(self._path):
            file = self._disk.open(self._path, create=True)
            file.write(self._tail, stored * self._entry.size)
            file.close()
            self._stored = stored + len(self._tail) // self._entry.size
            self._tail = bytearray()

    def seal(self) -> None:
        """Write all entries to the file and cut off everything after them."""
        self.flush()
        size = self._stored * self._entry.size
        if self._disk.size(self._path) != size:
            file = self._disk.open(self._path)
            file.truncate(size)
            file.close()

    def sync(self) -> None:
        """Blocking: may run in a thread, once the segment is sealed."""
        sync_file(self._disk, self._path)

    def truncate(self, count: int) -> None:
        """Keep the first `count` entries."""
        stored = self._stored_count()
        self.forget_block()
        if count >= stored:
            del self._tail[(count - stored) * self._entry.size :]
            return
        self._tail = bytearray()
        file = self._disk.open(self._path, create=True)
        file.truncate(count * self._entry.size)
        file.close()
        self._stored = count

    def reset(self) -> None:
        """Drop all entries without reading the file. New entries overwrite it, and `seal` cuts off the rest."""
        self._tail = bytearray()
        self._stored = 0
        self.forget_block()

    def forget_block(self) -> None:
        """Free the block that was read last."""
        self._block = b""

    def contents(self) -> bytes:
        """The bytes of the file, unchecked, for recovery. Empty when there is no file."""
        return self._disk.read_bytes(self._path) if self._disk.exists(self._path) else b""

    def floor(self, column: int, target: int) -> tuple[int, int] | None:
        """The last entry whose value in a column is at most `target`."""
        slot = self.count_up_to(column, target) - 1
        return None if slot < 0 else self._at(slot)

    def count_up_to(self, column: int, target: int) -> int:
        """Number of entries whose value in a column is at most `target`. The values never fall."""
        stored = self._stored_count()
        if self._tail and self._unpack(self._tail, 0)[column] <= target:
            return stored + self._search(self._tail, column, target)
        if not stored:
            return 0
        if not self._block_holds(stored, column, target):
            self._read_block(stored, column, target)
        return self._block_slot + self._search(self._block, column, target)

    def _block_holds(self, stored: int, column: int, target: int) -> bool:
        """Whether the block that was read last contains the position searched for."""
        block, slot = self._block, self._block_slot
        count = len(block) // self._entry.size
        if not count:
            return False
        begins_before = slot == 0 or self._unpack(block, 0)[column] <= target
        return begins_before and (slot + count == stored or target < self._unpack(block, count - 1)[column])

    def _read_block(self, stored: int, column: int, target: int) -> None:
        size = self._entry.size
        file = self._disk.open(self._path)
        low, high = 0, stored
        while (high - low) * size > _BLOCK_BYTES:
            middle = (low + high) // 2
            if self._read_from(file, middle)[column] <= target:
                low = middle
            else:
                high = middle
        # Read a whole block, not only up to `high`, because readers continue forwards.
        self._block, self._block_slot = file.read(min((stored - low) * size, _BLOCK_BYTES), low * size), low
        file.close()

    def _search(self, block: bytes | bytearray, column: int, target: int) -> int:
        low, high = 0, len(block) // self._entry.size
        while low < high:
            middle = (low + high) // 2
            if self._unpack(block, middle)[column] <= target:
                low = middle + 1
            else:
                high = middle
        return low

    def _at(self, slot: int) -> tuple[int, int]:
        stored = self._stored_count()
        if slot >= stored:
            return self._unpack(self._tail, slot - stored)
        inside = slot - self._block_slot
        if 0 <= inside < len(self._block) // self._entry.size:
            return self._unpack(self._block, inside)
        return self._read(slot)

    def _read(self, slot: int) -> tuple[int, int]:
        file = self._disk.open(self._path)
        entry = self._read_from(file, slot)
        file.close()
        return entry

    def _read_from(self, file: File, slot: int) -> tuple[int, int]:
        size = self._entry.size
        data = file.read(size, slot * size)
        if len(data) < size:
            raise DamagedIndex(f"{self._path} is shorter than it was")
        return self._unpack(data, 0)

    def _unpack(self, block: bytes | bytearray, slot: int) -> tuple[int, int]:
        first, second = self._entry.unpack_from(block, slot * self._entry.size)
        return first, second

    def _stored_count(self) -> int:
        if self._stored == _UNKNOWN:
            self._stored = self._load()
        return self._stored

    def _load(self) -> int:
        """Count the entries of an existing file. Raises DamagedIndex."""
        try:
            file = self._disk.open(self._path)
        except FileNotFoundError:
            raise DamagedIndex(f"{self._path} is missing") from None
        bytes_stored = file.size()
        count, rest = divmod(bytes_stored, self._entry.size)
        if rest:
            raise DamagedIndex(f"{self._path} has {bytes_stored} bytes, which is not a number of whole entries")
        if count > 1 and self._read_from(file, count - 1) == (0, 0):
            count = self._without_padding(file, count)
            file.truncate(count * self._entry.size)
        file.close()
        return count

    def _without_padding(self, file: File, count: int) -> int:
        """Number of entries before the padding. Entries rise, so after the first entry a zero entry is padding."""
        low, high = 0, count - 1
        while low < high:
            middle = (low + high) // 2
            if self._read_from(file, middle) == (0, 0):
                high = middle
            else:
                low = middle + 1
        return low


def whole_entries(entry: struct.Struct, data: bytes) -> Iterator[tuple[int, int]]:
    """The entries in the bytes of a file. An incomplete entry at the end is skipped."""
    yield from entry.iter_unpack(data[: len(data) // entry.size * entry.size])
