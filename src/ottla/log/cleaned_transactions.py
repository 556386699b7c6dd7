"""Tells compaction which batches belong to aborted transactions, and which markers it may remove.

It must see the batches of a log in their order, from the start of the log. A marker may be removed if no batch of its
transaction precedes it in the log. Batches that the same pass removes still count, so their marker stays for this pass.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ottla.log.transaction_index import AbortedTransaction
    from ottla.records.control import EndTransactionMarker
    from ottla.records.header import BatchHeader


class CleanedTransactions:
    __slots__ = ("_aborted", "_committed", "_seen", "_waiting", "kept")

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self.kept: list[AbortedTransaction] = []
        """The aborted transactions that still have batches, in the order of their markers, since the list was last
        cleared: the transaction index of the segment being written."""
        self._waiting = deque(sorted(aborted, key=lambda transaction: transaction.first_offset))
        self._aborted: dict[int, AbortedTransaction] = {}
        """The aborted transactions whose marker has not come yet, by producer id."""
        self._seen: set[int] = set()
        """The producers in `_aborted` of which at least one batch has come."""
        self._committed: set[int] = set()
        """The producers of which a batch of a transaction that will be committed has come."""

    def is_aborted(self, header: BatchHeader) -> bool:
        """Whether a batch of records belongs to a transaction that a later marker aborts."""
        if not header.is_transactional:
            return False
        self._begin_up_to(header.last_offset)
        producer_id = header.producer_id
        if producer_id in self._aborted:
            self._seen.add(producer_id)
            return True
        self._committed.add(producer_id)
        return False

    def marks_nothing(self, header: BatchHeader, marker: EndTransactionMarker | None) -> bool:
        """Whether a control batch may be removed: its transaction has no batches left, or an earlier pass has removed
        its record."""
        self._begin_up_to(header.last_offset)
        if marker is None:
            return header.record_count == 0
        producer_id = header.producer_id
        if marker.committed:
            seen = producer_id in self._committed
            self._committed.discard(producer_id)
            return not seen
        aborted = self._aborted.pop(producer_id, None)
        if aborted is None or producer_id not in self._seen:
            return True
        self._seen.remove(producer_id)
        self.kept.append(aborted)
        return False

    def _begin_up_to(self, offset: int) -> None:
        waiting = self._waiting
        while waiting and waiting[0].first_offset <= offset:
            transaction = waiting.popleft()
            self._aborted[transaction.producer_id] = transaction
