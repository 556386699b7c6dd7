"""A controlled environment: time, threads and fsync that run and fail when the test says so."""

import asyncio
import errno
import functools
import os
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, ParamSpec, TypeVar

import pytest

from ottla.config.broker import BrokerConfig
from ottla.config.topic import TopicConfig, topic_config
from ottla.env.disk import Buffer, OsDisk, OsFile
from ottla.errors import ErrorCode, KafkaError
from ottla.log.directory import LogDirectory
from ottla.log.layout import CLEAN_SHUTDOWN
from ottla.model import LeaderEpoch, TopicId, TopicPartition
from ottla.records.builder import NewRecord, build_batch
from ottla.records.format import Codec
from ottla.records.header import iter_headers
from ottla.records.reader import Record, read_records
from ottla.replication.log_settings import log_config
from ottla.replication.partition import Partition
from tests.manual_clock import NOW_MS, ManualClock

P = ParamSpec("P")
T = TypeVar("T")

CLICKS = TopicPartition("clicks", 0)
TOPIC_ID = TopicId(bytes(range(16)))
CLUSTER_ID = "a-cluster"


def on_loop(test: Callable[P, Awaitable[None]]) -> Callable[P, None]:
    """Run a test of an async function. An exception that only the event loop has caught fails the test too."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        unhandled: list[dict[str, Any]] = []

        async def watched() -> None:
            asyncio.get_running_loop().set_exception_handler(lambda _, context: unhandled.append(context))
            await test(*args, **kwargs)
            await settle()

        asyncio.run(watched())
        assert not unhandled, unhandled

    return run


async def settle() -> None:
    """Run everything that is ready. A callback that schedules another one needs one more iteration."""
    for _ in range(20):
        await asyncio.sleep(0)


class ManualBackground:
    """Implements `ottla.env.background.Background`: runs work at once, or keeps it while `held`."""

    def __init__(self, *, held: bool = False) -> None:
        self.held = held
        self.started = 0
        self._waiting: deque[Callable[[], None]] = deque()

    def run(self, function: Callable[[], T]) -> asyncio.Future[T]:
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def work() -> None:
            try:
                result = function()
            except Exception as error:
                future.set_exception(error)
            else:
                future.set_result(result)

        self.started += 1
        if self.held:
            self._waiting.append(work)
        else:
            work()
        return future

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    async def finish_one(self) -> None:
        """Run the oldest piece of work, and let the event loop react."""
        self._waiting.popleft()()
        await settle()

    async def finish_all(self) -> None:
        while self._waiting:
            await self.finish_one()


class WatchedFile(OsFile):
    __slots__ = ("_disk", "_path")

    def __init__(self, fd: int, path: str, disk: "WatchedDisk") -> None:
        super().__init__(fd)
        self._path = path
        self._disk = disk

    def write(self, data: Buffer, position: int) -> None:
        self._disk.check("write", self._path)
        super().write(data, position)

    def sync(self) -> None:
        self._disk.note_sync(self._path)


class WatchedDisk(OsDisk):
    """Real files, but syncs are only counted, which is faster. Any operation can be made to fail, by path."""

    def __init__(self) -> None:
        self.syncs: Counter[str] = Counter()
        """Number of syncs by the suffix of the file name, such as `.log`."""
        self.during_sync: Callable[[], object] | None = None
        """Called once during the next sync, to simulate events that overlap with a real sync in a thread."""
        self._broken: list[tuple[str, str, Exception]] = []

    def break_(self, operation: str, path_part: str = "", error: Exception | None = None) -> None:
        """Make an operation fail for every path that contains a text."""
        self._broken.append((operation, path_part, error or OSError(errno.EIO, "Input/output error")))

    def repair(self) -> None:
        self._broken.clear()

    def check(self, operation: str, path: str) -> None:
        for broken, path_part, error in self._broken:
            if broken == operation and path_part in path:
                raise error

    def note_sync(self, path: str) -> None:
        self.check("sync", path)
        self.syncs[os.path.splitext(path)[1]] += 1
        during_sync, self.during_sync = self.during_sync, None
        if during_sync is not None:
            during_sync()

    def open(self, path: str, *, create: bool = False) -> OsFile:
        self.check("open", path)
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return WatchedFile(os.open(path, flags, 0o644), path, self)

    def make_directory(self, path: str) -> None:
        self.check("make_directory", path)
        super().make_directory(path)

    def read_bytes(self, path: str) -> bytes:
        self.check("read_bytes", path)
        return super().read_bytes(path)

    def replace_bytes(self, path: str, data: bytes) -> None:
        self.check("replace_bytes", path)
        temporary = path + ".tmp"
        with open(temporary, "wb") as file:
            file.write(data)
        os.replace(temporary, path)

    def rename(self, old: str, new: str) -> None:
        self.check("rename", old)
        super().rename(old, new)

    def remove_tree(self, path: str) -> None:
        self.check("remove_tree", path)
        super().remove_tree(path)

    def sync_directory(self, path: str) -> None:
        os.stat(path or ".")


def expect(code: ErrorCode) -> AbstractContextManager[object]:
    return pytest.raises(KafkaError, check=lambda error: error.code is code)


def settings(overrides: Mapping[str, str] | None = None, broker: Mapping[str, str] | None = None) -> TopicConfig:
    """The effective settings of a topic with these settings, named with `.` as in Kafka."""
    return topic_config(BrokerConfig(broker or {}), overrides or {})


def open_directory(
    path: object, disk: WatchedDisk, clock: ManualClock, overrides: Mapping[str, str] | None = None
) -> LogDirectory:
    config = log_config(settings(overrides))
    return LogDirectory.open(
        disk, clock, str(path), cluster_id=CLUSTER_ID, node_id=1, config_of=lambda _: config, random_bytes=os.urandom
    )


def kill(directory: LogDirectory) -> None:
    """Leave a directory like a killed process: its files stay, and the lock is released."""
    directory._lock.close()
    assert not os.path.exists(f"{directory.path}/{CLEAN_SHUTDOWN}")


class PartitionWorld:
    """One partition on a disk, in a controlled environment."""

    def __init__(self, path: object, overrides: Mapping[str, str] | None = None, *, held: bool = False) -> None:
        self.clock = ManualClock()
        self.disk = WatchedDisk()
        self.background = ManualBackground(held=held)
        self.directory = open_directory(path, self.disk, self.clock, overrides)
        config = settings(overrides)
        self.log = self.directory.create_log(CLICKS, TOPIC_ID, log_config(config))
        self.partition = Partition(TOPIC_ID, self.log, config, self.clock, self.background)
        self.partition.lead(LeaderEpoch(0))

    def configure(self, **overrides: str) -> None:
        """Keys with `_` for `.`."""
        self.partition.configure(settings({key.replace("_", "."): value for key, value in overrides.items()}))


def batch(
    *values: bytes,
    key: bytes | None = None,
    timestamp: int = NOW_MS,
    codec: Codec = Codec.NONE,
    producer_id: int = -1,
    sequence: int = -1,
) -> memoryview:
    """A batch as a producer sends it, with one record for each value."""
    records = [NewRecord(key, value, (), timestamp) for value in values or (b"value",)]
    epoch = -1 if producer_id < 0 else 0
    return memoryview(
        build_batch(records, codec=codec, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
    )


def records_in(data: bytes | memoryview) -> list[Record]:
    view = memoryview(data)
    return [
        record
        for position, header in iter_headers(view)
        for record in read_records(view[position : position + header.size])
    ]


def visible(partition: Partition, offset: int | None = None) -> list[Record]:
    """The records that a consumer can read now, from an offset (default: the log start)."""
    offset = partition.log.log_start_offset if offset is None else offset
    found: list[Record] = []
    while True:
        read = partition.read(offset, 1 << 20)
        if read.file is None:
            return found
        found += records_in(read.file.read(read.size, read.position))
        offset = read.next_offset


def values(records: Sequence[Record]) -> list[bytes | None]:
    return [record.value for record in records]
