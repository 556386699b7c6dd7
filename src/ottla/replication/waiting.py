"""Long-polls: a fetch that found fewer bytes than it wants waits for more, or for its timeout."""

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
        """`waiting` are the partitions' lists of waiters, in which this one is entered."""
        self._callback: Callable[[], None] | None = callback
        """None when it was called or cancelled. The callback's owner usually refers to this waiter: the reference must
        go, so that no cycle is left to the garbage collector."""
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
        """The partition can no longer be read as before (deleted, another leader): let the fetch try again."""
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
            # Not at once: requests that arrived together may append more, and one reply can carry all of it.
            asyncio.get_running_loop().call_soon(callback)


class StableDataWaiter(DataWaiter):
    """For readers of committed transactions: bytes become readable for them only when the transaction ends.

    So the bytes are not counted. When the last stable offset of a partition has moved, `has_enough` is called.
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
