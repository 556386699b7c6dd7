"""What a coordinator knows when it begins: everything that the partition's new leader has, once that is committed."""

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ottla.coordinator.journal import decode_batch
from ottla.coordinator.replayer import Replayer
from ottla.coordinator.shard import Shard
from ottla.coordinator_core.effects import Now
from ottla.errors import ErrorCode
from ottla.model import LeaderEpoch
from ottla.records.format import Codec
from ottla.records.header import BatchHeader
from ottla.replication.followers import Followers
from tests.manual_clock import ManualClock
from tests.records.samples import three_records, with_payload
from tests.replication.world import PartitionWorld, batch, on_loop, settle


class Nothing:
    """An outcome without consequences."""

    records = messages = timers = replies = ()


class Remembering:
    """A core that only remembers what is replayed."""

    def __init__(self) -> None:
        self.replayed: list[bytes] = []
        self.loaded_with: list[bytes] | None = None

    def replay(self, record: bytes) -> None:
        self.replayed.append(record)

    def on_loaded(self, now: Now) -> Any:
        self.loaded_with = list(self.replayed)
        return Nothing()

    def unload(self, now: Now) -> Any:
        return Nothing()

    def written(self, outcome: Any) -> None:
        raise AssertionError("nothing is decided here")

    def append_failed(self, outcome: Any, error: ErrorCode, now: Now) -> Any:
        raise AssertionError("nothing is decided here")

    def timer_fired(self, key: Any, now: Now) -> Any:
        raise AssertionError("no timer was set")

    def fail(self) -> None:
        raise AssertionError("nothing fails here")


class NoJournal:
    def encode(self, outcome: object, admission: object) -> Any:
        raise AssertionError("nothing is decided here")


def new_shard(world: PartitionWorld, core: Remembering | None = None) -> "Shard[Remembering, Any]":
    core = core or Remembering()

    def read_batch(header: BatchHeader, data: memoryview) -> Iterator[Callable[[], None]]:
        return (partial(core.replay, value) for value in decode_batch(data, lambda _, value: value, world.partition))

    def on_failed(shard: object) -> None:
        raise AssertionError("nothing fails here")

    replayer = Replayer(world.partition, world.clock, world.background, read_batch)
    return Shard(world.partition, core, NoJournal(), world.clock, replayer, on_failed=on_failed)


def lead_with_followers(world: PartitionWorld, epoch: int) -> None:
    world.partition.lead(LeaderEpoch(epoch), Followers((2,), (2,), world.clock.monotonic()))


@on_loop
async def test_nobody_is_answered_before_all_that_may_be_committed_is_known_to_be(tmp_path: Path) -> None:
    world = PartitionWorld(tmp_path)
    world.partition.append(batch(b"committed", key=b"k"))
    lead_with_followers(world, 1)
    world.partition.append(batch(b"perhaps", key=b"k"), replication_timeout=None)
    lead_with_followers(world, 2)
    shard = new_shard(world)
    loading = asyncio.ensure_future(shard.load())
    await settle()
    assert (shard.loaded, shard.core.replayed) == (False, [b"committed", b"perhaps"])
    world.partition.append(batch(b"meanwhile", key=b"k"), replication_timeout=None)
    world.partition.read_as_follower(2, 2, 1 << 20, 1)
    await settle()
    assert not shard.loaded
    world.partition.read_as_follower(2, 3, 1 << 20, 2)
    await loading
    assert shard.loaded
    assert shard.core.loaded_with == [b"committed", b"perhaps", b"meanwhile"]


@on_loop
async def test_below_min_isr_a_coordinator_loads_what_the_in_sync_replicas_have(tmp_path: Path) -> None:
    """The high watermark stands still then, but no other replica can become the leader, so nothing is lost."""
    world = PartitionWorld(tmp_path, {"min.insync.replicas": "2"})
    lead_with_followers(world, 1)
    world.partition.append(batch(b"a", key=b"k"), replication_timeout=None)
    shard = new_shard(world)
    loading = asyncio.ensure_future(shard.load())
    await settle()
    assert not shard.loaded
    world.partition.update_replicas((2,), ())
    await loading
    assert (shard.loaded, shard.core.loaded_with, world.partition.high_watermark) == (True, [b"a"], 0)


@on_loop
async def test_a_shard_that_is_unloaded_meanwhile_never_begins(tmp_path: Path) -> None:
    world = PartitionWorld(tmp_path)
    world.partition.append(batch(b"a", key=b"k"))
    shard = new_shard(world)
    loading = asyncio.ensure_future(shard.load())
    await asyncio.sleep(0)
    shard.unload()
    await loading
    assert (shard.loaded, shard.core.loaded_with) == (False, None)


class Slow(Remembering):
    """A core that takes a millisecond for each record."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__()
        self._clock = clock

    def replay(self, record: bytes) -> None:
        super().replay(record)
        self._clock.advance(0.001)


@on_loop
async def test_a_load_lets_others_run_every_ten_milliseconds(tmp_path: Path) -> None:
    world = PartitionWorld(tmp_path)
    for _ in range(3):
        world.partition.append(batch(*[b"value"] * 100, key=b"k"))
    shard = new_shard(world, Slow(world.clock))
    loading = asyncio.ensure_future(shard.load())
    pauses = []
    while not loading.done():
        before = world.clock.monotonic()
        await asyncio.sleep(0)
        pauses.append(world.clock.monotonic() - before)
    assert len(shard.core.replayed) == 300
    assert max(pauses) <= 0.0111


@on_loop
async def test_a_load_reads_in_a_thread(tmp_path: Path) -> None:
    world = PartitionWorld(tmp_path)
    world.partition.append(batch(b"a", key=b"k"))
    world.background.held = True
    shard = new_shard(world)
    loading = asyncio.ensure_future(shard.load())
    await settle()
    assert (world.background.waiting, shard.core.replayed, loading.done()) == (1, [], False)
    await world.background.finish_all()
    assert (shard.core.replayed, shard.loaded) == ([b"a"], True)


@on_loop
async def test_a_batch_that_cannot_be_read_does_not_cost_the_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    world = PartitionWorld(tmp_path)
    world.partition.append(batch(b"a", key=b"k"))
    world.partition.append(memoryview(with_payload(three_records(Codec.GZIP), b"not gzip")))
    world.partition.append(batch(b"b", key=b"k"))
    shard = new_shard(world)
    await shard.load()
    assert shard.core.replayed == [b"a", b"b"]
    assert "skipping the unreadable batch at offset 1" in caplog.text


@on_loop
async def test_what_is_appended_while_a_load_replays_what_is_kept_elsewhere_is_replayed_too(tmp_path: Path) -> None:
    world = PartitionWorld(tmp_path)
    shard = new_shard(world, Slow(world.clock))
    loading = asyncio.ensure_future(shard.load([b"elsewhere"] * 30))
    for _ in range(3):
        await asyncio.sleep(0)
    assert 10 <= len(shard.core.replayed) < 30
    world.partition.append(batch(b"appended", key=b"k"))
    await loading
    assert shard.core.loaded_with == [*[b"elsewhere"] * 30, b"appended"]
