"""Rebuilds the state of producers from stored batches.

The state of a producer depends only on its batches. So the state in memory, the snapshots and the transaction indexes
can always be rebuilt from the log. Snapshots save reading the log from its start.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ottla.log.producers import Producers
from ottla.log.scan import DamagedBatch
from ottla.records.control import read_marker
from ottla.records.format import CONTROL_FLAG
from ottla.records.invalid import InvalidBatch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ottla.log.segment import Segment
    from ottla.log.segments import Segments
    from ottla.log.snapshot import Snapshots
    from ottla.log.storage import Storage
    from ottla.log.transaction_index import AbortedTransaction
    from ottla.records.header import BatchHeader

logger = logging.getLogger("ottla.log")

_RECALLED_BYTES = 16 << 20
"""After a restart, a producer's last five batches are searched for in this many bytes at the end of the log."""


def replay_batch(
    producers: Producers, segment: Segment, position: int, header: BatchHeader
) -> AbortedTransaction | None:
    """Apply a stored batch that has a producer id. Returns the transaction that it aborts, if any."""
    if not header.attributes & CONTROL_FLAG:
        producers.update(header, header.base_offset)
        return None
    try:
        marker = read_marker(segment.file().read(header.size, position), header)
    except InvalidBatch as error:
        logger.error("%s: the control batch at offset %d is ignored: %s", segment.path(), header.base_offset, error)
        return None
    if marker is None:
        return None
    aborted = producers.aborted_by(marker, header.base_offset)
    producers.end_transaction(marker, header.base_offset, header.max_timestamp)
    return aborted


class Replay:
    """Reads the segments and snapshots of one log."""

    __slots__ = ("_segments", "_snapshots", "_storage")

    def __init__(self, storage: Storage, segments: Segments, snapshots: Snapshots) -> None:
        self._storage = storage
        self._segments = segments
        self._snapshots = snapshots

    def bring(self, producers: Producers, start_offset: int, end_offset: int) -> None:
        """Set the producers to their state at `end_offset`. Starts from the latest snapshot before it, or with no
        producers at the start of the log, and applies every batch from there."""
        snapshot = self._snapshots.latest(end_offset)
        offset, known = snapshot if snapshot is not None else (start_offset, [])
        producers.replace(known, self._storage.clock.time_ms())
        if offset >= end_offset:
            return
        for segment in self._segments.holding(offset):
            if segment.base_offset >= end_offset:
                break
            for position, header in self._batches(segment, offset):
                if header.base_offset >= end_offset:
                    break
                replay_batch(producers, segment, position, header)

    def aborted_in(self, segment: Segment, start_offset: int) -> Iterator[AbortedTransaction]:
        """The transactions that markers in a segment aborted: the entries of its transaction index."""
        producers = Producers(self._storage.producer_id_expiration_ms)
        self.bring(producers, start_offset, segment.base_offset)
        for position, header in self._batches(segment, segment.base_offset):
            aborted = replay_batch(producers, segment, position, header)
            if aborted is not None:
                yield aborted

    def recall(self, producers: Producers) -> None:
        """Read the batches that a snapshot lacks: all but the last batch of each producer.

        A producer that got no reply to its last batches, because the broker stopped, sends them again. The leader must
        recognise them as duplicates, so it searches the end of the log before it rejects a batch, once after each
        start.
        """
        recalled: list[BatchHeader] = []
        wanted = _RECALLED_BYTES
        for segment in reversed(self._segments.all):
            try:
                after = segment.headers_after(max(0, segment.size - wanted))
                recalled[:0] = [header for _, header in after if header.producer_id >= 0]
            except DamagedBatch as error:
                logger.error("%s is damaged %s", segment.path(), error)
            wanted -= segment.size
            if wanted <= 0:
                break
        producers.recall(recalled)

    def _batches(self, segment: Segment, offset: int) -> Iterator[tuple[int, BatchHeader]]:
        """The batches with a producer id, from the batch that contains `offset` on.

        A batch that begins before the start of the log is included, because its later records are still in the log.
        """
        try:
            found = segment.find(offset) if segment.size else None
            if found is not None:
                for position, header in segment.headers(found[0]):
                    if header.producer_id >= 0:
                        yield position, header
        except DamagedBatch as error:
            logger.error("%s is damaged %s; producers of later batches are ignored", segment.path(), error)
