"""Maps each key to the offset of its last record, for the part of a log that was not compacted before."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.log.keyed_records import KeyedRecords

_BYTES_PER_KEY = 176
"""Memory per key in addition to its bytes: the bytes object, the int object, and the dictionary entry, including the
spare room of a growing dictionary."""


class OffsetMap:
    """Collects the records of a log in their order, until it has used its memory limit."""

    __slots__ = ("_limit", "_offsets", "end_offset", "size")

    def __init__(self, start_offset: int, limit: int) -> None:
        self.end_offset = start_offset
        """All records from the start offset up to this offset are in the map."""
        self.size = 0
        """Estimated memory in bytes."""
        self._limit = limit
        self._offsets: dict[bytes | None, int] = {}

    def __len__(self) -> int:
        return len(self._offsets)

    def add(self, base_offset: int, records: KeyedRecords) -> bool:
        """Add the records of a batch. If there is no room for them, add nothing and return False.

        The first batch is always added. Otherwise a log with a large batch would never be compacted.
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
        """The last offset of each key; None for a key that is not in the map."""
        return list(map(self._offsets.get, keys))
