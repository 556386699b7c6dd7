"""The transactions that hold back the last stable offset.

A transaction is unstable while it is open, and then until its marker is below the high watermark. Before that, the
marker may still be lost with the leader.
"""

from __future__ import annotations

from collections import deque


class OpenTransactions:
    __slots__ = ("_completed", "_ongoing", "all_stable")

    def __init__(self) -> None:
        self._ongoing: dict[int, int] = {}
        """Maps first offsets to producer ids. The first offsets rise, because a transaction begins at the log end."""
        self._completed: deque[tuple[int, int]] = deque()
        """First and last offsets of ended transactions whose markers may be above the high watermark. Both rise: a
        transaction that began after another and ended before it is left out, because it holds nothing back."""

        self.all_stable = True
        """Whether there are no such transactions, as in most partitions. An attribute, because every fetch asks."""

    def begin(self, first_offset: int, producer_id: int) -> None:
        self._ongoing[first_offset] = producer_id
        self.all_stable = False

    def end(self, first_offset: int, last_offset: int) -> None:
        del self._ongoing[first_offset]
        while self._completed and self._completed[-1][0] >= first_offset:
            self._completed.pop()
        self._completed.append((first_offset, last_offset))

    def replicated(self, high_watermark: int) -> None:
        """Drop the transactions whose markers are below the high watermark: the markers can no longer be lost."""
        while self._completed and self._completed[0][1] < high_watermark:
            self._completed.popleft()
        self.all_stable = not self._ongoing and not self._completed

    def first_unstable(self, high_watermark: int = 0) -> int | None:
        """The first unstable offset at a high watermark. Unlike `replicated`, this drops no transactions."""
        first = next(iter(self._ongoing), None)
        for completed, marker in self._completed:
            if marker >= high_watermark:
                return completed if first is None else min(first, completed)
        return first

    def stable_after(self, producer_id: int, marker_offset: int) -> int:
        """The last stable offset after a marker has ended the producer's transaction, ignoring the high watermark."""
        return next(
            (first_offset for first_offset, other in self._ongoing.items() if other != producer_id), marker_offset + 1
        )
