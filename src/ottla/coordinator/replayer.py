"""Replays a partition of an internal topic into a core, without keeping others from running."""

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
"""How long records are replayed before others run."""

ReadBatch: TypeAlias = "Callable[[BatchHeader, memoryview], Iterable[Callable[[], None]]]"
"""Decodes a stored batch into calls of the core that replay it. It runs in a thread, the calls on the event loop."""


class Replayer:
    def __init__(self, partition: Partition, clock: Clock, background: Background, read_batch: ReadBatch) -> None:
        self._partition = partition
        self._clock = clock
        self._background = background
        self._read_batch = read_batch
        self._stopped = False

    def stop(self) -> None:
        """Make no further call of the core."""
        self._stopped = True

    async def replay_log(self, offset: int) -> int:
        """Replay the log from an offset on, up to an end that is committed. Returns the end."""
        partition = self._partition
        while not self._stopped and (offset < partition.log.end_offset or offset > partition.in_sync_end):
            if offset < partition.log.end_offset:
                offset = await self._replay_from(offset)
            else:
                await partition.committed(offset)
        return offset

    async def replay(self, calls: Iterable[Callable[[], None]]) -> None:
        """Make the calls in slices of time, between which others run."""
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
        """Replay some batches. Returns the offset of the next ones."""
        end_offset = self._partition.log.end_offset
        found = self._partition.read_everything(offset, _READ_SIZE)
        await self.replay(await self._background.run(partial(self._read, found)))
        return end_offset if found.file is None else found.next_offset

    def _read(self, found: LogRead) -> list[Callable[[], None]]:
        """Runs in a thread. The bytes change meanwhile only if this broker has stopped to lead."""
        if found.file is None:
            return []
        data = memoryview(found.file.read(found.size, found.position))
        return [
            call
            for position, header in iter_headers(data)
            for call in self._read_batch(header, data[position : position + header.size])
        ]
