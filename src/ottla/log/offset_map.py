"""Where the last record of each key is: what compaction knows of the part of a log that it has not seen before."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.log.keyed_records import KeyedRecords

_BYTES_PER_KEY = 176
"""Beside the bytes of the key: two objects, the bytes and the number, and a dictionary's entry, with the room that a
dictionary takes when it grows."""


class OffsetMap:
    """Takes the records of a log in their order, until the memory that it may have is used up."""

    __slots__ = ("_limit", "_offsets", "end_offset", "size")

    def __init__(self, start_offset: int, limit: int) -> None:
        self.end_offset = start_offset
        """All records from the start up to here are known."""
        self.size = 0
        """Bytes of memory, as an estimate."""
        self._limit = limit
        self._offsets: dict[bytes | None, int] = {}

    def __len__(self) -> int:
        return len(self._offsets)

    def add(self, base_offset: int, records: KeyedRecords) -> bool:
        """Take the records of a batch; False, with nothing taken, when there is no room for them.

        The first batch is always taken: otherwise a log with a large batch would never be compacted.
        """
        keys, deltas, offsets = records.keys, records.deltas, self._offsets
        key_bytes = len(records.payload) if None in keys else sum(map(len, keys))  # type: ignore[arg-type]
        if offsets and self.size + key_bytes + len(keys) * _BYTES_PER_KEY > self._limit:
            return False
        before = len(offsets)
        if deltas[-1] == len(deltas) - 1:
            offsets.update(zip(keys, range(base_offset, base_offset + len(keys)), strict=True))
        else:
            offsets.update(zip(keys, [base_offset + delta for delta in deltas], strict=True))
        offsets.pop(None, None)
        added = len(offsets) - before
        self.size += added * (_BYTES_PER_KEY + key_bytes // len(keys))
        return True

    def knows_none_of(self, keys: list[bytes | None]) -> bool:
        return self._offsets.keys().isdisjoint(keys)

    def latest(self, keys: list[bytes | None]) -> list[int | None]:
        """The last offset of each key, as far as it is known."""
        return list(map(self._offsets.get, keys))
