"""Replays a partition of an internal topic into a core, in slices, so that the event loop serves other work."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from ottla.records.header import iter_headers

if TYPE_CHECKING:
    from ottla.env.background import Background
    from ottla.env.clock import Clock
    from ottla.log.reading import LogRead
    from ottla.records.header import BatchHeader
    from ottla.replication.partition import Partition

_READ_SIZE = 1 << 20

SLICE_SECONDS = 0.01
"""The length of a slice. Between slices the event loop runs other work."""

ReadBatch: TypeAlias = "Callable[[BatchHeader, memoryview], Iterable[Callable[[], None]]]"
"""Decodes a stored batch into calls that replay it into the core. It runs in a thread, the calls on the event loop."""


class Replayer:
    def __init__(self, partition: Partition, clock: Clock, background: Background, read_batch: ReadBatch) -> None:
        self._partition = partition
        self._clock = clock
        self._background = background
        self._read_batch = read_batch
        self._stopped = False

    def stop(self) -> None:
        """Make no further calls to the core."""
        self._stopped = True

    async def replay_log(self, offset: int) -> int:
        """Replay the log from an offset to its end, and wait until all of it is committed. Returns the end offset."""
        partition = self._partition
        while not self._stopped and (offset < partition.log.end_offset or offset > partition.in_sync_end):
            if offset < partition.log.end_offset:
                offset = await self._replay_from(offset)
            else:
                await partition.committed(offset)
        return offset

    async def replay(self, calls: Iterable[Callable[[], None]]) -> None:
        """Make the calls, and yield to the event loop after each slice."""
        await asyncio.sleep(0)
        end = self._clock.monotonic() + SLICE_SECONDS
        for call in calls:
            if self._stopped:
                return
            call()
            if self._clock.monotonic() >= end:
                await asyncio.sleep(0)
                end = self._clock.monotonic() + SLICE_SECONDS

    async def _replay_from(self, offset: int) -> int:
        """Replay some batches. Returns the offset after them."""
        end_offset = self._partition.log.end_offset
        found = self._partition.read_everything(offset, _READ_SIZE)
        await self.replay(await self._background.run(partial(self._read, found)))
        return end_offset if found.file is None else found.next_offset

    def _read(self, found: LogRead) -> list[Callable[[], None]]:
        """Runs in a thread. The bytes can change meanwhile only if this broker is not the leader any more."""
        if found.file is None:
            return []
        data = memoryview(found.file.read(found.size, found.position))
        return [
            call
            for position, header in iter_headers(data)
            for call in self._read_batch(header, data[position : position + header.size])
        ]
