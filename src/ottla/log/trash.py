"""Deleted files and directories that still have to be removed from the disk.

A deleted segment or partition is renamed at once, which is cheap. It is removed after `file.delete.delay.ms`, in a
thread, because a removal may be slow. The next start finds by name what a stopped process has not removed.
"""

import logging
from collections import deque

from ottla.env.clock import Clock
from ottla.env.disk import Disk

logger = logging.getLogger("ottla.log")


class Trash:
    __slots__ = ("_clock", "_disk", "_waiting")

    def __init__(self, disk: Disk, clock: Clock) -> None:
        self._disk = disk
        self._clock = clock
        self._waiting: deque[tuple[float, str, bool]] = deque()

    def add(self, path: str, delay_ms: int, *, tree: bool = False) -> None:
        """Remove the file, or the directory if `tree`, after the delay."""
        self._waiting.append((self._clock.monotonic() + delay_ms / 1000, path, tree))

    def sweep(self) -> int:
        """Remove the paths whose delay is over and return their number. Blocking: may run in several threads at once.

        A path that cannot be removed is logged and skipped until the next start.
        """
        now = self._clock.monotonic()
        removed = 0
        for _ in range(len(self._waiting)):
            try:
                due, path, tree = self._waiting.popleft()
            except IndexError:
                break
            if due > now:
                self._waiting.append((due, path, tree))
                continue
            try:
                if tree:
                    self._disk.remove_tree(path)
                else:
                    self._disk.remove(path)
                removed += 1
            except OSError as error:
                logger.warning("cannot remove %s, which stays until the next start: %s", path, error)
        return removed

    def __len__(self) -> int:
        return len(self._waiting)
