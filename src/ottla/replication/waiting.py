"""Long-polls: a fetch that found too little waits for more bytes or for its time to run out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.env.clock import Clock
    from ottla.replication.partition import Partition


class DataWaiter:
    """Calls back once: when `missing` more bytes became readable in the partitions, or after `timeout` seconds."""

    __slots__ = ("_callback", "_missing", "_timer", "_waiting")

    def __init__(
        self,
        clock: Clock,
        waiting: Sequence[dict[DataWaiter, None]],
        missing: int,
        timeout: float,
        callback: Callable[[], None],
    ) -> None:
        """`waiting` are the lists in which partitions look for whom to tell."""
        self._callback: Callable[[], None] | None = callback
        """None when it is over. Who waits mostly refers to this too: neither shall be left to the garbage collector."""
        self._missing = missing
        self._waiting = waiting
        for others in waiting:
            others[self] = None
        self._timer = clock.call_later(timeout, self._finish)

    def grew(self, size: int) -> None:
        self._missing -= size
        if self._missing <= 0:
            self._finish()

    def changed(self) -> None:
        """The partition can no longer be read as before (deleted, another leader): let the fetch look again."""
        self._finish()

    def cancel(self) -> None:
        if self._callback is not None:
            self._callback = None
            self._timer.cancel()
            for others in self._waiting:
                others.pop(self, None)

    def _finish(self) -> None:
        callback = self._callback
        if callback is not None:
            self.cancel()
            # Not at once: more of the requests that arrived together may be appends, and one reply can carry them all.
            asyncio.get_running_loop().call_soon(callback)


class StableDataWaiter(DataWaiter):
    """For readers of committed transactions, to whom bytes become readable only with the end of their transaction.

    Hence nothing is counted: when the last stable offset of a partition has moved, `has_enough` is asked.
    """

    __slots__ = ("_has_enough", "_partitions", "_stable_offsets")

    def __init__(
        self,
        clock: Clock,
        partitions: Sequence[Partition],
        timeout: float,
        callback: Callable[[], None],
        has_enough: Callable[[], bool],
    ) -> None:
        super().__init__(clock, [partition.waiters for partition in partitions], 1, timeout, callback)
        self._partitions = partitions
        self._has_enough = has_enough
        self._stable_offsets = self._look()

    def _look(self) -> list[int]:
        return [partition.last_stable_offset for partition in self._partitions]

    def grew(self, size: int) -> None:
        stable_offsets = self._look()
        if stable_offsets != self._stable_offsets:
            self._stable_offsets = stable_offsets
            if self._has_enough():
                self._finish()
