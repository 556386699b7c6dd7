"""What a coordinator knows when it begins: everything that the partition's new leader has, once that is committed."""

import asyncio
from pathlib import Path
from typing import Any

from ottla.coordinator.journal import decode_batch
from ottla.coordinator.shard import Shard
from ottla.coordinator_core.effects import Now
from ottla.errors import ErrorCode
from ottla.records.header import BatchHeader
from ottla.replication.followers import Followers
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


class NoJournal:
    def write(self, outcome: object, admission: object) -> None:
        raise AssertionError("nothing is decided here")


def new_shard(world: PartitionWorld) -> "Shard[Remembering]":
    core = Remembering()

    def replay(header: BatchHeader, data: memoryview) -> None:
        for value in decode_batch(data, lambda key, value: value, world.partition):
            core.replay(value)

    return Shard(world.partition, core, NoJournal(), world.clock, replay)


def lead_with_followers(world: PartitionWorld, epoch: int) -> None:
    world.partition.lead(epoch, Followers((2,), (2,), world.clock.monotonic()))


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
