"""Lookups by timestamp: their time limit, and the error for a damaged file."""

import time
from pathlib import Path

from ottla.errors import ErrorCode
from ottla.records.builder import NewRecord, build_batch
from ottla.records.format import MAGIC_AT
from ottla.replication.timestamp_lookup import find_timestamp, lookup_deadline
from tests.manual_clock import NOW_MS
from tests.replication.world import PartitionWorld, batch, expect, on_loop


@on_loop
async def test_a_lookup_ends_at_its_deadline(tmp_path: Path) -> None:
    world = PartitionWorld(tmp_path)
    records = [NewRecord(None, b"v", (), NOW_MS + number) for number in range(1000)]
    world.partition.append(memoryview(build_batch(records)))
    found = await find_timestamp(world.partition, NOW_MS + 999, lookup_deadline())
    assert found == (999, NOW_MS + 999, 0)
    with expect(ErrorCode.REQUEST_TIMED_OUT):
        await find_timestamp(world.partition, NOW_MS + 999, time.monotonic() - 1)


@on_loop
async def test_a_damaged_batch_is_reported(tmp_path: Path) -> None:
    world = PartitionWorld(tmp_path)
    world.partition.append(batch(b"a"))
    world.partition.append(batch(b"b", timestamp=NOW_MS + 5))
    world.disk.open(f"{world.log.path}/00000000000000000000.log").write(b"\x07", MAGIC_AT)
    with expect(ErrorCode.CORRUPT_MESSAGE):
        await find_timestamp(world.partition, NOW_MS, lookup_deadline())
