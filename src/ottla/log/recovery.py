"""Opens a log: at once after a clean stop, with a check of its end after a crash.

After a crash, recovery reads every segment that has bytes past the recovery point. Past the recovery point, it
truncates the log at the first incomplete or damaged batch and removes later segments. Before the recovery point,
records were synced, so recovery keeps them: it logs a damaged batch there and leaves it in place, and a read of the
batch fails.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from typing import TYPE_CHECKING

from ottla.log.epochs import LeaderEpochs
from ottla.log.index import OFFSET_ENTRY, whole_entries
from ottla.log.layout import (
    DELETED_SUFFIX,
    INDEX_SUFFIXES,
    LEADER_EPOCHS,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    parse_offset,
    segment_path,
)
from ottla.log.log import Log
from ottla.log.producers import Producers
from ottla.log.replay import Replay, replay_batch
from ottla.log.scan import DamagedBatch, checked_batches
from ottla.log.segment import Segment
from ottla.log.segments import Segments
from ottla.log.snapshot import Snapshots
from ottla.log.swap import settle_swaps

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ottla.log.config import LogConfig
    from ottla.log.storage import Storage
    from ottla.model import TopicPartition
    from ottla.records.header import BatchHeader

logger = logging.getLogger("ottla.log")

_END_OF_ALL = 2**63 - 1
_LARGE_SEGMENT = 64 << 20
"""The check of a segment of this size takes long, so it is logged before it starts."""


def create_log(storage: Storage, topic_partition: TopicPartition, path: str, config: LogConfig) -> Log:
    """Create an empty log in an existing directory."""
    return Log(
        storage,
        topic_partition,
        path,
        config,
        [Segment.create(storage, path, 0)],
        end_offset=0,
        log_start_offset=0,
        recovery_point=0,
        epochs=LeaderEpochs(),
        producers=Producers(storage.producer_id_expiration_ms),
        snapshots=Snapshots(storage.disk, path),
        untouched=True,
        new=True,
    )


def open_log(
    storage: Storage,
    topic_partition: TopicPartition,
    path: str,
    config: LogConfig,
    *,
    recovery_point: int,
    log_start_offset: int,
    clean: bool,
) -> Log:
    """Open the log in a directory. Blocking."""
    names = settle_swaps(storage.disk, path, storage.disk.list(path))
    segments = _find_segments(storage, path, names)
    if not segments:
        segments, clean = [Segment.create(storage, path, log_start_offset)], False
    start_of_files = segments[0].base_offset
    producers = Producers(storage.producer_id_expiration_ms)
    snapshots = Snapshots(storage.disk, path, _offsets(names, SNAPSHOT_SUFFIX))
    recovery = _Recovery(storage, topic_partition, config, segments, names, producers, snapshots)
    epochs = LeaderEpochs()
    if LEADER_EPOCHS in names:
        epochs = LeaderEpochs.load(storage.disk, f"{path}/{LEADER_EPOCHS}")
    end_offset = recovery.known_end() if clean else None
    if end_offset is None:
        clean = False
        end_offset = recovery.run(recovery_point, log_start_offset, epochs)
    if end_offset < log_start_offset:
        recovery.drop(0, f"the log starts at {log_start_offset}")
        segments.append(Segment.create(storage, path, log_start_offset))
        end_offset = log_start_offset
        producers.replace([], storage.clock.time_ms())
    log_start_offset = max(log_start_offset, segments[0].base_offset)
    epochs.truncate_end(end_offset)
    if epochs.entries and log_start_offset > start_of_files:
        epochs.truncate_start(log_start_offset)
    snapshots.keep_only(log_start_offset, end_offset)
    log = Log(
        storage,
        topic_partition,
        path,
        config,
        segments,
        end_offset=end_offset,
        log_start_offset=log_start_offset,
        recovery_point=end_offset if clean else max(segments[0].base_offset, min(recovery_point, end_offset)),
        epochs=epochs,
        producers=producers,
        snapshots=snapshots,
        unsynced=recovery.checked,
        untouched=clean,
        new=not clean,
    )
    if clean and snapshots:
        log.replay_producers()
    for segment in segments:
        segment.close()
    return log


def _offsets(names: list[str], suffix: str) -> Iterator[int]:
    for name in names:
        offset = parse_offset(name, suffix)
        if offset is not None:
            yield offset


def _find_segments(storage: Storage, path: str, names: list[str]) -> list[Segment]:
    """The segments in order. Also removes deleted files and indexes without a segment, left by a stopped process."""
    bases = set(_offsets(names, LOG_SUFFIX))
    for name in names:
        if name.endswith(DELETED_SUFFIX):
            storage.disk.remove(f"{path}/{name}")
    for suffix in INDEX_SUFFIXES:
        for base in _offsets(names, suffix):
            if base not in bases:
                storage.disk.remove(segment_path(path, base, suffix))
    return [_find_segment(storage, path, base, names) for base in sorted(bases)]


def _find_segment(storage: Storage, path: str, base_offset: int, names: list[str]) -> Segment:
    size = storage.disk.size(segment_path(path, base_offset, LOG_SUFFIX))
    segment = Segment(storage, path, base_offset, size, new=size == 0)
    if size == 0:
        # The segment is empty, so index files that a crash left are stale.
        for suffix in INDEX_SUFFIXES:
            if f"{base_offset:020d}{suffix}" in names:
                storage.disk.remove(segment.path(suffix))
    elif f"{base_offset:020d}{TRANSACTION_INDEX_SUFFIX}" in names:
        segment.add_transaction_index(new=False)
    return segment


class _Recovery:
    """Finds the end of one log, and the state of its producers there. Segments after the end are removed from
    `segments`."""

    def __init__(
        self,
        storage: Storage,
        log: TopicPartition,
        config: LogConfig,
        segments: list[Segment],
        names: list[str],
        producers: Producers,
        snapshots: Snapshots,
    ) -> None:
        self._storage = storage
        self._log = log
        self._config = config
        self._segments = segments
        self._names = set(names)
        self._producers = producers
        self._snapshots = snapshots
        self.checked: list[Segment] = []
        """The segments that were read in full. They may not be synced."""

    def known_end(self) -> int | None:
        """The end offset after a clean stop; None if the last segment is damaged."""
        self._complete_indexes(self._segments)
        last = self._segments[-1]
        try:
            return last.end_before(_END_OF_ALL)[1]
        except DamagedBatch as error:
            logger.error("%s: %s is damaged %s, although the log was closed cleanly", self._log, last.path(), error)
            return None

    def run(self, recovery_point: int, log_start_offset: int, epochs: LeaderEpochs) -> int:
        """Check the end of the log and truncate it before the first torn batch. Returns the end offset."""
        bases = [segment.base_offset for segment in self._segments]
        # A segment that ends just at the recovery point is checked too: its indexes may never have been synced.
        first = max(0, bisect_right(bases, recovery_point - 1) - 1)
        self._complete_indexes(self._segments[:first])
        # Below the recovery point the checkpoint of epochs is right. The batches there may give a later start, because
        # compaction may have removed the first batch of an epoch.
        epochs.truncate_end(max(bases[first], recovery_point))
        self._start_producers(max(log_start_offset, bases[0]), bases[first])
        next_offset = bases[first]
        for number, segment in enumerate(self._segments[first:], first):
            if segment.base_offset < next_offset:
                self.drop(number, "it overlaps the segment before it")
                break
            if segment.base_offset > next_offset >= recovery_point:
                self.drop(number, f"the records before it, from offset {next_offset} on, were lost")
                break
            if number > first:
                self._snapshots.take(segment.base_offset, self._producers.active())
            next_offset, whole = self._check(segment, recovery_point, epochs)
            self.checked.append(segment)
            if not whole and number + 1 < len(self._segments):
                self.drop(number + 1, "the segment before it is torn")
                break
        return next_offset

    def _start_producers(self, log_start_offset: int, offset: int) -> None:
        """Load the state of the producers at the offset where the check begins.

        Later snapshots are dropped: they may cover records that a crash has lost and other records have replaced.
        """
        self._snapshots.keep_only(log_start_offset, offset)
        Replay(self._storage, Segments(self._segments), self._snapshots).bring(
            self._producers, log_start_offset, offset
        )

    def _check(self, segment: Segment, recovery_point: int, epochs: LeaderEpochs) -> tuple[int, bool]:
        """Read one segment and rebuild its indexes. Returns its end offset, and whether it was not truncated."""
        if segment.size >= _LARGE_SEGMENT:
            logger.info("%s: checking %s, %d MiB", self._log, segment.path(), segment.size >> 20)
        salvage = segment.offset_index.contents()
        segment.restart()
        segment.remove_transaction_index()
        position, next_offset, whole = 0, segment.base_offset, True
        while position < segment.size:
            try:
                for start, header, _ in self._batches(segment, position, next_offset):
                    segment.note(header, header.base_offset, start, self._config)
                    if header.partition_leader_epoch > epochs.latest:
                        epochs.assign(header.partition_leader_epoch, header.base_offset)
                    if header.producer_id >= 0:
                        self._replay(segment, start, header)
                    position, next_offset = start + header.size, header.next_offset
            except DamagedBatch as damage:
                resume = self._resume(segment, damage, next_offset, salvage) if next_offset < recovery_point else None
                if resume is None:
                    whole = False
                    self._cut(segment, position, next_offset, recovery_point, damage)
                else:
                    self._report_damage(segment, next_offset, damage)
                    position = resume
        segment.seal()
        return next_offset, whole

    def _replay(self, segment: Segment, position: int, header: BatchHeader) -> None:
        aborted = replay_batch(self._producers, segment, position, header)
        if aborted is not None:
            index = segment.transaction_index or segment.add_transaction_index(new=True)
            index.prepare(aborted)
            index.commit(aborted)

    def _resume(self, segment: Segment, damage: DamagedBatch, next_offset: int, salvage: bytes) -> int | None:
        """The position of the next valid batch after a damaged one: right after it, or at an entry of the old index."""
        for position in self._candidates(segment, damage.position, salvage):
            try:
                next(self._batches(segment, position, next_offset))
            except (DamagedBatch, StopIteration):
                continue
            return position
        return None

    @staticmethod
    def _batches(segment: Segment, position: int, next_offset: int) -> Iterator[tuple[int, BatchHeader, memoryview]]:
        return checked_batches(segment.file(), position, segment.size, segment.base_offset, next_offset)

    @staticmethod
    def _candidates(segment: Segment, damaged: int, salvage: bytes) -> Iterator[int]:
        try:
            _, header = next(segment.headers(damaged))
            yield damaged + header.size
        except DamagedBatch:
            pass
        for _, position in whole_entries(OFFSET_ENTRY, salvage):
            if position > damaged:
                yield position

    def _cut(
        self, segment: Segment, position: int, next_offset: int, recovery_point: int, damage: DamagedBatch
    ) -> None:
        lost = segment.size - position
        if next_offset < recovery_point:
            logger.error(
                "%s: %s is damaged %s; nothing after it can be read: the synced offsets %d to %d are lost",
                self._log,
                segment.path(),
                damage,
                next_offset,
                recovery_point - 1,
            )
        else:
            logger.warning(
                "%s: the last %d bytes of %s are torn; truncating the log at offset %d (%s)",
                self._log,
                lost,
                segment.path(),
                next_offset,
                damage,
            )
        segment.size = position
        segment.cut_back()

    def _report_damage(self, segment: Segment, next_offset: int, damage: DamagedBatch) -> None:
        logger.error(
            "%s: the batch at offset %d in %s is damaged %s; it stays in place, and reads of it fail",
            self._log,
            next_offset,
            segment.path(),
            damage,
        )

    def drop(self, number: int, reason: str) -> None:
        for segment in reversed(self._segments[number:]):
            logger.warning("%s: removing %s because %s", self._log, segment.path(), reason)
            segment.discard(self._config.file_delete_delay_ms)
            if segment in self.checked:
                self.checked.remove(segment)
        del self._segments[number:]

    def _complete_indexes(self, segments: list[Segment]) -> None:
        """Rebuild missing indexes. A damaged index is detected at its first use."""
        for segment in segments:
            if segment.size and not segment.has_indexes(self._names):
                logger.warning("%s: rebuilding the missing indexes of %s", self._log, segment.path())
                segment.rebuild_indexes(self._config)
