"""A machine's disk: it loses unsynced data when the power fails, and it can be full or slow."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Self, TypeVar

from tests.log.fault_disk import Directory, FaultDisk, FaultFile

if TYPE_CHECKING:
    from ottla.env.disk import Buffer
    from sim.loop import ProcessLoop, Scheduler

T = TypeVar("T")
R = TypeVar("R")


class ProcessGone(BaseException):
    """Raised when code of a dead process uses the disk. Not an Exception, so that the code cannot handle it."""


class SimFile(FaultFile):
    _disk: SimDisk

    def _check(self) -> None:
        self._disk.touch()

    def write(self, data: Buffer, position: int) -> None:
        self._disk.step()
        super().write(data, position)

    def truncate(self, size: int) -> None:
        self._disk.step()
        super().truncate(size)

    def sync(self) -> None:
        self._disk.step()
        super().sync()


class SimDisk(FaultDisk):
    """The disk of one process. The next process on the machine gets a new SimDisk with the same content."""

    def __init__(self, content: Directory | None = None) -> None:
        super().__init__()
        if content is not None:
            self._root = content
        self.is_gone = False
        self.steps_left: int | None = None
        """Number of disk changes until the process crashes in the middle of its work; None for no crash."""
        self.on_last_step: Callable[[], None] = lambda: None
        self.sync_seconds = 0.001
        """Maximum duration of background work."""

    def next(self) -> SimDisk:
        """The disk of the next process."""
        self.is_gone = True
        following = SimDisk(self._root)
        following.sync_seconds = self.sync_seconds
        following.room = self.room
        return following

    def power_fails(self, chance: random.Random) -> None:
        self._root.lose_power(chance)

    def touch(self) -> None:
        if self.is_gone:
            raise ProcessGone

    def step(self) -> None:
        self.touch()
        if self.steps_left is not None:
            self.steps_left -= 1
            if self.steps_left < 0:
                self.is_gone = True
                self.on_last_step()
                raise ProcessGone

    def open(self, path: str, *, create: bool = False) -> SimFile:
        self.touch()
        if create and not self.exists(path):
            self.step()
        super().open(path, create=create)
        return SimFile(self, self._node(path))

    def replace_bytes(self, path: str, data: bytes) -> None:
        self.step()
        super().replace_bytes(path, data)

    def rename(self, old: str, new: str) -> None:
        self.step()
        super().rename(old, new)

    def remove(self, path: str) -> None:
        self.step()
        super().remove(path)

    def remove_tree(self, path: str) -> None:
        self.step()
        super().remove_tree(path)

    def make_directory(self, path: str) -> None:
        self.touch()
        super().make_directory(path)

    def sync_directory(self, path: str) -> None:
        self.step()
        super().sync_directory(path)

    @contextlib.contextmanager
    def lock(self, path: str) -> Iterator[None]:
        self.touch()
        with super().lock(path):
            yield


class SimBackground:
    """Runs background work without threads, at a random moment of virtual time. Implements `Background`."""

    def __init__(self, scheduler: Scheduler, loop: ProcessLoop, disk: SimDisk, chance: random.Random) -> None:
        self._scheduler = scheduler
        self._loop = loop
        self._disk = disk
        self._chance = chance

    def run(self, function: Callable[[], T]) -> asyncio.Future[T]:
        """Run the work at a random moment and report its result later. Other callbacks run before and after it."""
        future: asyncio.Future[T] = self._loop.create_future()
        whole = self._chance.random() * self._disk.sync_seconds
        begin = self._chance.random() * whole
        self._scheduler.after(begin, self._work, function, future, whole - begin)
        return future

    def _work(self, function: Callable[[], T], future: asyncio.Future[T], rest: float) -> None:
        if self._loop.dead:
            return
        try:
            result = function()
        except ProcessGone:
            return
        except Exception as error:
            self._scheduler.after(rest, self._loop.call_soon, _fail, future, error)
        else:
            self._scheduler.after(rest, self._loop.call_soon, _finish, future, result)

    def close(self) -> None:
        pass


class InlineThreads:
    """Replaces the thread pool in which a log directory closes its logs: closes one log after the other."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def map(self, function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        return map(function, items)


def _finish(future: asyncio.Future[T], result: T) -> None:
    if not future.cancelled():
        future.set_result(result)


def _fail(future: asyncio.Future[T], error: Exception) -> None:
    if not future.cancelled():
        future.set_exception(error)
