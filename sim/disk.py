"""A machine's disk: it forgets what was not synced when the power goes, it fills up, it gets slow."""

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
    """Raised in what is left of a process that touches the disk after its end: not an error that it could handle."""


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
    """The disk as one process sees it. The next process on the machine gets another one with the same content."""

    def __init__(self, content: Directory | None = None) -> None:
        super().__init__()
        if content is not None:
            self._root = content
        self.is_gone = False
        self.steps_left: int | None = None
        """Changes until the process dies in the middle of what it does; None for no end in sight."""
        self.on_last_step: Callable[[], None] = lambda: None
        self.sync_seconds = 0.001
        """How long work in the background takes at most."""

    def next(self) -> SimDisk:
        """For the process that is started next."""
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
    """Threads without threads: the work is done at some moment of virtual time. Implements `Background`."""

    def __init__(self, scheduler: Scheduler, loop: ProcessLoop, disk: SimDisk, chance: random.Random) -> None:
        self._scheduler = scheduler
        self._loop = loop
        self._disk = disk
        self._chance = chance

    def run(self, function: Callable[[], T]) -> asyncio.Future[T]:
        """The work happens some time before its end is heard of: all at once, but others run before and after."""
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
    """In place of the threads in which a log directory closes its logs: one after the other."""

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
