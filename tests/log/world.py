"""Helpers for the tests of this package: a manual clock, directories on a disk, batches."""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from ottla.env.clock import Timer
from ottla.env.disk import Disk
from ottla.log.config import LogConfig
from ottla.log.directory import LogDirectory
from ottla.log.log import Log, LogRead
from ottla.model import TopicId, TopicPartition
from ottla.records.builder import NewRecord, build_batch
from ottla.records.control import EndTransactionMarker
from ottla.records.header import BatchHeader, read_header

CLICKS = TopicPartition("clicks", 0)
TOPIC_ID = TopicId(bytes(range(16)))
NOW_MS = 1_700_000_000_000


class StillClock:
    """A clock that the test advances."""

    def __init__(self, now_ms: int = NOW_MS) -> None:
        self.now_ms = now_ms

    def time_ms(self) -> int:
        return self.now_ms

    def monotonic(self) -> float:
        return self.now_ms / 1000

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any) -> Timer:
        raise AssertionError("the log sets no timers")


class Batch(NamedTuple):
    view: memoryview
    header: BatchHeader


def batch(
    records: int | Sequence[int] = 1,
    *,
    size: int = 10,
    timestamp: int = NOW_MS,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    base_offset: int = 0,
    leader_epoch: int = -1,
    transactional: bool = False,
) -> Batch:
    """A batch with a number of records at one timestamp, or with one record for each timestamp."""
    timestamps = [timestamp] * records if isinstance(records, int) else records
    data = build_batch(
        [NewRecord(None, b"v" * size, (), at) for at in timestamps],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        transactional=transactional,
    )
    return Batch(memoryview(data), read_header(data))


class Appended(NamedTuple):
    base_offset: int
    last_offset: int
    duplicate: bool


def append(log: Log, item: Batch | None = None, leader_epoch: int = 0) -> Appended:
    item = item or batch()
    base_offset = log.end_offset
    if item.header.is_transactional:
        original = log.append_in_transaction(item.view, item.header, leader_epoch, None)
    else:
        original = log.append(item.view, item.header, leader_epoch)
    if original is not None:
        return Appended(original.first_offset, original.last_offset, duplicate=True)
    return Appended(base_offset, log.end_offset - 1, duplicate=False)


def append_in_transaction(log: Log, producer_id: int, sequence: int, records: int = 1, *, epoch: int = 0) -> Appended:
    """Append a transactional batch after its verification."""
    item = batch(records, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, transactional=True)
    guard = log.begin_verification(producer_id, sequence, epoch, supports_epoch_bump=False)
    base_offset = log.end_offset
    original = log.append_in_transaction(item.view, item.header, 0, guard)
    if original is not None:
        return Appended(original.first_offset, original.last_offset, duplicate=True)
    return Appended(base_offset, log.end_offset - 1, duplicate=False)


def end_transaction(
    log: Log,
    producer_id: int,
    *,
    committed: bool,
    epoch: int = 0,
    coordinator_epoch: int = 0,
    version: int = 1,
    timestamp: int = NOW_MS,
    high_watermark: int = 0,
) -> int:
    """Append a marker and return its offset."""
    marker = EndTransactionMarker(producer_id, epoch, coordinator_epoch, committed)
    return log.append_marker(marker, 0, timestamp, transaction_version=version, high_watermark=high_watermark)


def open_directory(
    disk: Disk,
    clock: StillClock | None = None,
    path: str = "/data",
    *,
    config: LogConfig | None = None,
    max_open_files: int = 512,
) -> LogDirectory:
    settings = config or LogConfig()
    return LogDirectory.open(
        disk,
        clock or StillClock(),
        path,
        cluster_id="a-cluster",
        node_id=1,
        config_of=lambda _: settings,
        max_open_files=max_open_files,
    )


def new_log(
    disk: Disk, clock: StillClock | None = None, path: str = "/data", config: LogConfig | None = None
) -> tuple[LogDirectory, Log]:
    directory = open_directory(disk, clock, path, config=config)
    return directory, directory.create_log(CLICKS, TOPIC_ID, config or LogConfig())


def content(read: LogRead) -> bytes:
    return b"" if read.file is None else read.file.read(read.size, read.position)


def read_all(log: Log, offset: int | None = None) -> bytes:
    """All records from an offset to the end, as a consumer reads them."""
    offset = log.log_start_offset if offset is None else offset
    parts: list[bytes] = []
    while True:
        read = log.read(offset, 1 << 20, log.end_offset)
        if not read.size:
            return b"".join(parts)
        parts.append(content(read))
        offset = read.next_offset


def open_files(directory: Path) -> list[str]:
    """The files that this process has open below a directory. Other tests may have other files open."""
    targets = []
    for descriptor in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):
            targets.append(os.readlink(f"/proc/self/fd/{descriptor}"))
    return [target for target in targets if target.startswith(f"{directory}/")]
