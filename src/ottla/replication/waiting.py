"""Long polls: a fetch that found fewer bytes than `min_bytes` waits for more, or for its timeout."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.env.clock import Clock
    from ottla.replication.partition import Partition


logger = logging.getLogger("ottla.replicas")

CALLS_AT_ONCE = 500
"""Fetches that are called back before the event loop does other work. They take some milliseconds."""


class Wakeups:
    """Calls back fetches that are complete, in the next iteration of the event loop: other requests of this iteration
    may append more to the same replies. One callback of the loop serves many of them."""

    __slots__ = ("_callbacks",)

    def __init__(self) -> None:
        self._callbacks: list[Callable[[], None]] = []

    def add(self, callback: Callable[[], None]) -> None:
        if not self._callbacks:
            asyncio.get_running_loop().call_soon(self._call_some)
        self._callbacks.append(callback)

    def _call_some(self) -> None:
        callbacks, self._callbacks = self._callbacks[:CALLS_AT_ONCE], self._callbacks[CALLS_AT_ONCE:]
        if self._callbacks:
            asyncio.get_running_loop().call_soon(self._call_some)
        for callback in callbacks:
            try:
                callback()
            except Exception:
                # The other fetches must not wait for this one.
                logger.exception("a long poll failed")


class DataWaiter:
    """Calls back once: when `missing` more bytes have become readable in the partitions, or after `timeout` seconds."""

    __slots__ = ("_callback", "_missing", "_timer", "_waiting", "_wakeups")

    def __init__(
        self,
        clock: Clock,
        wakeups: Wakeups,
        waiting: Sequence[dict[DataWaiter, None]],
        missing: int,
        timeout: float,
        callback: Callable[[], None],
    ) -> None:
        """`waiting` are the lists of waiters of the partitions. This waiter adds itself to them."""
        self._callback: Callable[[], None] | None = callback
        """None after the call or after `cancel`. The owner of the callback usually refers to this waiter, so dropping
        the callback breaks a reference cycle."""
        self._missing = missing
        self._wakeups = wakeups
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
            self._wakeups.add(callback)


class StableDataWaiter(DataWaiter):
    """For `read_committed` consumers: records of a transaction become readable only when the transaction ends.

    So this waiter does not count bytes. When the last stable offset of a partition has advanced, it calls `has_enough`.
    """

    __slots__ = ("_has_enough", "_partitions", "_stable_offsets")

    def __init__(
        self,
        clock: Clock,
        wakeups: Wakeups,
        partitions: Sequence[Partition],
        timeout: float,
        callback: Callable[[], None],
        has_enough: Callable[[], bool],
    ) -> None:
        super().__init__(clock, wakeups, [partition.waiters for partition in partitions], 1, timeout, callback)
        self._partitions = partitions
        self._has_enough = has_enough
        self._stable_offsets = self._read_stable_offsets()

    def _read_stable_offsets(self) -> list[int]:
        return [partition.last_stable_offset for partition in self._partitions]

    def grew(self, size: int) -> None:
        stable_offsets = self._read_stable_offsets()
        if stable_offsets != self._stable_offsets:
            self._stable_offsets = stable_offsets
            if self._has_enough():
                self._finish()
