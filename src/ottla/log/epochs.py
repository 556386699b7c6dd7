"""Which leader epoch began at which offset: the log's memory of its leaders.

A follower whose log went another way than the leader's asks where an epoch ended, and truncates to that (KIP-101,
KIP-279). Every batch carries its epoch, so the list can always be had from the log; the file `leader-epoch-checkpoint`
saves reading it all.
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

    Changes are only kept in memory until `save`. That is safe because a log saves before its recovery point passes the
    batches of a new epoch, and because recovery reads the epochs of all batches past the recovery point.
    """

    __slots__ = ("_entries", "_saved")

    def __init__(self) -> None:
        self._entries: list[EpochStart] = []
        self._saved: list[EpochStart] = []

    @classmethod
    def load(cls, disk: Disk, path: str) -> "LeaderEpochs":
        """What the checkpoint says; nothing, with a warning, when it is damaged."""
        if not disk.exists(path):
            return cls()
        try:
            rows = parse_checkpoint(disk.read_bytes(path), 2)
            entries = [(int(epoch), int(offset)) for epoch, offset in rows]
        except (DamagedCheckpoint, ValueError) as error:
            logger.warning("%s is ignored because it is damaged: %s", path, error)
            return cls()
        epochs = cls()
        for epoch, start_offset in entries:
            epochs.assign(epoch, start_offset)
        epochs._saved = list(epochs._entries)
        return epochs

    def save(self, disk: Disk, path: str, end_offset: int) -> None:
        """Write the checkpoint if it has to change. Blocking: may run in a thread, one call at a time.

        An epoch without records is left out: whoever leads next begins a new one, and where it ended is the same.
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
        return self._entries[-1].epoch if self._entries else NO_LEADER_EPOCH

    def assign(self, epoch: int, start_offset: int) -> None:
        """A leader of this epoch begins to write at the offset. An epoch that is known already keeps its start.

        Entries that contradict the new one, because they begin later or have a higher epoch, were never committed and
        are dropped.
        """
        entries = self._entries
        if epoch < 0 or (entries and entries[-1].epoch == epoch and entries[-1].start_offset <= start_offset):
            return
        self._entries = [entry for entry in entries if entry.epoch < epoch and entry.start_offset < start_offset]
        self._entries.append(EpochStart(epoch, start_offset))

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochStart:
        """The largest known epoch that is not above the one asked for, and the offset where it ended.

        Both are -1 when the question cannot be answered: no epoch was named, or one this log has not heard of.
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
        """The epoch in which the record at an offset was written; -1 when it is older than all that is known."""
        for entry in reversed(self._entries):
            if entry.start_offset <= offset:
                return entry.epoch
        return NO_LEADER_EPOCH

    def truncate_end(self, end_offset: int) -> None:
        """Forget epochs that began at or past the new end."""
        self._entries = [entry for entry in self._entries if entry.start_offset < end_offset]

    def truncate_start(self, start_offset: int) -> None:
        """Forget epochs that ended before the new start; the one in force there now begins there."""
        before = [entry for entry in self._entries if entry.start_offset <= start_offset]
        if before:
            self._entries = [EpochStart(before[-1].epoch, start_offset), *self._entries[len(before) :]]

    def clear(self) -> None:
        self._entries = []
