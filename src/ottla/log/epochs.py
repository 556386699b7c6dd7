"""The start offset of each leader epoch of a log.

A follower whose log differs from the leader's asks where an epoch ended, and truncates its log to that offset (KIP-101,
KIP-279). Every batch has its leader epoch, so the list can be rebuilt from the log. The file `leader-epoch-checkpoint`
saves reading the whole log.
"""

import logging
from typing import NamedTuple

from ottla.env.disk import Disk
from ottla.log.checkpoint import DamagedCheckpoint, format_checkpoint, parse_checkpoint
from ottla.model import NO_LEADER_EPOCH, NO_OFFSET

logger = logging.getLogger("ottla.log")


class EpochStart(NamedTuple):
    epoch: int
    start_offset: int


class LeaderEpochs:
    """Entries rise strictly in epoch and in start offset.

    Changes stay in memory until `save`. That is safe: a log saves before its recovery point passes the batches of a new
    epoch, and recovery reads the epochs of all batches past the recovery point.
    """

    __slots__ = ("_entries", "_saved")

    def __init__(self) -> None:
        self._entries: list[EpochStart] = []
        self._saved: list[EpochStart] = []

    @classmethod
    def load(cls, disk: Disk, path: str) -> "LeaderEpochs":
        """Read the checkpoint. If it is missing or damaged, the result has no entries."""
        if not disk.exists(path):
            return cls()
        try:
            rows = parse_checkpoint(disk.read_bytes(path), 2)
            entries = [(int(epoch), int(offset)) for epoch, offset in rows]
        except (DamagedCheckpoint, ValueError) as error:
            logger.warning("ignoring %s, which is damaged: %s", path, error)
            return cls()
        epochs = cls()
        for epoch, start_offset in entries:
            epochs.assign(epoch, start_offset)
        epochs._saved = list(epochs._entries)
        return epochs

    def save(self, disk: Disk, path: str, end_offset: int) -> None:
        """Write the checkpoint if it has to change. Blocking: may run in a thread, one call at a time.

        An epoch without records is not written: the next leader begins a new epoch at the same offset.
        """
        entries = [entry for entry in self._entries if entry.start_offset < end_offset]
        if entries != self._saved:
            disk.replace_bytes(path, format_checkpoint(entries))
            self._saved = entries

    @property
    def entries(self) -> tuple[EpochStart, ...]:
        return tuple(self._entries)

    @property
    def latest(self) -> int:
        return self._entries[-1][0] if self._entries else NO_LEADER_EPOCH

    def assign(self, epoch: int, start_offset: int) -> None:
        """Note that the leader of an epoch begins to write at an offset. A known epoch keeps its start.

        Entries that begin later or have a higher epoch contradict the new entry. Their records were never committed, so
        the entries are dropped.
        """
        entries = self._entries
        if epoch < 0 or (entries and entries[-1].epoch == epoch and entries[-1].start_offset <= start_offset):
            return
        self._entries = [entry for entry in entries if entry.epoch < epoch and entry.start_offset < start_offset]
        self._entries.append(EpochStart(epoch, start_offset))

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochStart:
        """The largest known epoch that is not above the one asked for, and the offset where it ended.

        Both are -1 if `epoch` is -1 or higher than every epoch of this log.
        """
        if epoch == NO_LEADER_EPOCH or epoch > self.latest:
            return EpochStart(NO_LEADER_EPOCH, NO_OFFSET)
        if epoch == self.latest:
            return EpochStart(epoch, log_end_offset)
        found = epoch
        for entry in self._entries:
            if entry.epoch > epoch:
                return EpochStart(found, entry.start_offset)
            found = entry.epoch
        raise AssertionError("an epoch below the latest has a later entry")

    def epoch_at(self, offset: int) -> int:
        """The epoch in which the record at an offset was written; -1 if the offset is before all known epochs."""
        for entry in reversed(self._entries):
            if entry.start_offset <= offset:
                return entry.epoch
        return NO_LEADER_EPOCH

    def truncate_end(self, end_offset: int) -> None:
        """Drop epochs that began at or past the new end."""
        self._entries = [entry for entry in self._entries if entry.start_offset < end_offset]

    def truncate_start(self, start_offset: int) -> None:
        """Drop epochs that ended before the new start. The epoch of the record at the new start now begins there."""
        before = [entry for entry in self._entries if entry.start_offset <= start_offset]
        if before:
            self._entries = [EpochStart(before[-1].epoch, start_offset), *self._entries[len(before) :]]

    def clear(self) -> None:
        self._entries = []
