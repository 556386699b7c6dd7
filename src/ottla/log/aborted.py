"""Finds the aborted transactions that a `read_committed` consumer must skip."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ottla.log.index import DamagedIndex

if TYPE_CHECKING:
    from ottla.log.replay import Replay
    from ottla.log.segment import Segment
    from ottla.log.segments import Segments
    from ottla.log.transaction_index import AbortedTransaction, TransactionIndex

logger = logging.getLogger("ottla.log")


class AbortedTransactions:
    """The transaction indexes of one log. A damaged index is detected at its first use and rebuilt."""

    __slots__ = ("_replay", "_segments")

    def __init__(self, segments: Segments, replay: Replay) -> None:
        self._segments = segments
        self._replay = replay

    def collect(self, fetch_offset: int, upper_bound_offset: int, log_start_offset: int) -> list[AbortedTransaction]:
        """See `Log.aborted_transactions`. The index of a segment lists the transactions whose marker is in it."""
        found: list[AbortedTransaction] = []
        for segment in self._segments.holding(fetch_offset):
            if segment.transaction_index is None:
                continue
            index = self.index_of(segment, log_start_offset)
            if index is not None:
                more, complete = index.collect(fetch_offset, upper_bound_offset)
                found += more
                if complete:
                    break
        return found

    def index_of(self, segment: Segment, log_start_offset: int) -> TransactionIndex | None:
        """The loaded index of a segment; None if the segment has no index."""
        index = segment.transaction_index
        if index is not None and not index.loaded:
            try:
                index.load()
            except DamagedIndex as error:
                logger.warning("%s; rebuilding the index from the log", error)
                index.rewrite(self._replay.aborted_in(segment, log_start_offset))
        return index
