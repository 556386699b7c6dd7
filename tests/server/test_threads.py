"""Slow work of one kind must not occupy the threads of other work or of the store session."""

import os
import threading
from pathlib import Path

from ottla.env.disk import OsDisk, OsFile
from ottla.errors import ErrorCode
from ottla.wire.api.produce import ProduceResponse
from tests.server.test_connection import create_topic, produce
from tests.server.worlds import asynchronous, running, until

SLOW_TOPICS = [f"slow-{number}" for number in range(8)]
"""More than the number of sync threads."""


class StuckDisk(OsDisk):
    """A disk whose fsync does not return while it is stuck."""

    def __init__(self) -> None:
        self.works = threading.Event()
        self.works.set()
        self.waiting = 0

    def open(self, path: str, *, create: bool = False) -> OsFile:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return _StuckFile(os.open(path, flags, 0o644), self)


class _StuckFile(OsFile):
    __slots__ = ("_disk",)

    def __init__(self, fd: int, disk: StuckDisk) -> None:
        super().__init__(fd)
        self._disk = disk

    def sync(self) -> None:
        self._disk.waiting += 1
        assert self._disk.works.wait(60)
        super().sync()


@asynchronous
async def test_slow_syncs_cost_neither_the_session_nor_the_leadership(tmp_path: Path) -> None:
    disk = StuckDisk()
    async with running(tmp_path, {"zookeeper.session.timeout.ms": "3000"}, disk=disk) as world:
        for topic in SLOW_TOPICS:
            await create_topic(world, topic, flush_messages="1")
        await create_topic(world, "clicks")
        disk.works.clear()
        try:
            slow = world.connect()
            for topic in SLOW_TOPICS:
                slow.request(*produce(topic))
            await until(lambda: disk.waiting >= 4)
            for second in range(10):
                await world.clock.advance(1.0)
                # The store works sequentially, so the session was renewed before this topic is created.
                await create_topic(world, f"created-in-second-{second}")
            assert slow.frames() == []
            for topic in [*SLOW_TOPICS, "clicks"]:
                assert world.broker.replicas.leader_of(topic, 0).leader_epoch == 0
            request, version = produce("clicks")
            answer = await world.call(request, version, ProduceResponse)
            assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE
        finally:
            disk.works.set()
        await until(lambda: len(slow.frames()) == len(SLOW_TOPICS))
