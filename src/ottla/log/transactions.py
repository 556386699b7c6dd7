"""Which transactions keep readers of committed records back.

An offset is unstable while a transaction that has a record there is open, and also after that until the transaction's
marker is below the high watermark: until then, the marker may still be lost with its leader.
"""

from __future__ import annotations

from collections import deque


class OpenTransactions:
    __slots__ = ("_completed", "_ongoing")

    def __init__(self) -> None:
        self._ongoing: dict[int, int] = {}
        """From first offsets, which rise because a transaction begins at the end of the log, to producer ids."""
        self._completed: deque[tuple[int, int]] = deque()
        """First and last offsets of transactions whose markers may be above the high watermark. Both rise: one that
        begins after another and ends before it has no say."""

    def __bool__(self) -> bool:
        return bool(self._ongoing or self._completed)

    def begin(self, first_offset: int, producer_id: int) -> None:
        self._ongoing[first_offset] = producer_id

    def end(self, first_offset: int, last_offset: int) -> None:
        del self._ongoing[first_offset]
        while self._completed and self._completed[-1][0] >= first_offset:
            self._completed.pop()
        self._completed.append((first_offset, last_offset))

    def replicated(self, high_watermark: int) -> None:
        """Forget the transactions that are complete below the high watermark: their markers cannot be lost any more."""
        while self._completed and self._completed[0][1] < high_watermark:
            self._completed.popleft()

    def first_unstable(self, high_watermark: int = 0) -> int | None:
        """The first unstable offset at a high watermark. Changes nothing: `replicated` forgets."""
        first = next(iter(self._ongoing), None)
        for completed, marker in self._completed:
            if marker >= high_watermark:
                return completed if first is None else min(first, completed)
        return first

    def stable_after(self, producer_id: int, marker_offset: int) -> int:
        """What the last stable offset will be, but for the high watermark, when a marker has ended a transaction."""
        return next(
            (first_offset for first_offset, other in self._ongoing.items() if other != producer_id), marker_offset + 1
        )
