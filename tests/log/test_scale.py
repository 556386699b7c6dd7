"""Thousands of partitions: counts the cost of an idle partition instead of timing it."""

import gc
import tracemalloc
from pathlib import Path

import pytest

from ottla.env.disk import OsDisk
from ottla.log.config import LogConfig
from ottla.log.directory import LogDirectory
from ottla.model import TopicPartition
from tests.log.fault_disk import FaultDisk, FaultFile
from tests.log.world import CLICKS, TOPIC_ID, append, batch, new_log, open_directory, open_files

PARTITIONS = 150


def filled(path: str) -> None:
    directory = open_directory(OsDisk(), path=path)
    for number in range(PARTITIONS):
        log = directory.create_log(TopicPartition("t", number), TOPIC_ID, LogConfig())
        for sequence in range(4):
            append(log, batch(size=500, producer_id=1, producer_epoch=0, base_sequence=sequence))
    directory.close()


def test_an_idle_partition_costs_little_memory_and_no_file(tmp_path: Path) -> None:
    filled(str(tmp_path))
    open_directory(OsDisk(), path=str(tmp_path)).close()  # Create everything now that is created only once.
    gc.collect()
    tracemalloc.start()
    try:
        directory: LogDirectory = open_directory(OsDisk(), path=str(tmp_path))
        gc.collect()
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(directory.logs) == PARTITIONS
    assert size / PARTITIONS < 5_000
    assert len(open_files(tmp_path)) == 1  # The lock.
    directory.close()


def test_opening_after_a_clean_stop_reads_only_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = FaultDisk()
    config = LogConfig(index_interval_bytes=200)
    directory, log = new_log(disk, config=config)
    for _ in range(4000):
        append(log, batch(size=100))
    directory.close()
    read = FaultFile.read
    sizes: list[int] = []

    def counted(file: FaultFile, size: int, position: int) -> bytes:
        data = read(file, size, position)
        sizes.append(len(data))
        return data

    monkeypatch.setattr(FaultFile, "read", counted)
    directory = open_directory(disk, config=config)
    assert directory.logs[CLICKS].end_offset == 4000
    assert disk.size(f"{log.path}/{0:020d}.log") > 600_000
    assert sum(sizes) < 12_000
    assert len(sizes) < 12


def test_a_partition_that_was_not_written_to_is_not_touched_when_it_is_closed(tmp_path: Path) -> None:
    filled(str(tmp_path))
    times = {path: path.stat().st_mtime_ns for path in tmp_path.glob("t-*/*")}
    open_directory(OsDisk(), path=str(tmp_path)).close()
    assert {path: path.stat().st_mtime_ns for path in tmp_path.glob("t-*/*")} == times
