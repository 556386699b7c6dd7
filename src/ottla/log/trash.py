"""Files and directories that were given up, until they are removed.

A deleted segment or partition is renamed at once, which is cheap, and removed after `file.delete.delay.ms`, which may
be slow and so runs in a thread. What a stopped process left is found by its name at the next start.
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
        """Remove the file, or the directory when `tree`, once the delay is over."""
        self._waiting.append((self._clock.monotonic() + delay_ms / 1000, path, tree))

    def sweep(self) -> int:
        """Remove what is due and return how much that was. Blocking: may run in a thread, also in several at once.

        A path that cannot be removed is given up with a warning; the next start tries again.
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
                logger.warning("%s cannot be removed (%s) and stays until the next start", path, error)
        return removed

    def __len__(self) -> int:
        return len(self._waiting)
