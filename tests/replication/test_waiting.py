"""A long poll ends once: with enough bytes, at its timeout, after a change, or when its client disconnects."""

import asyncio
from functools import partial
from pathlib import Path

from ottla.replication.waiting import CALLS_AT_ONCE, DataWaiter, Wakeups
from tests.replication.world import PartitionWorld, batch, on_loop, settle


class Poll:
    """A waiter on some partitions that counts its callbacks."""

    def __init__(self, *worlds: PartitionWorld, missing: int = 1, timeout: float = 0.5) -> None:
        self.calls = 0
        self.partitions = [world.partition for world in worlds]
        self.waiter = DataWaiter(
            worlds[0].clock, Wakeups(), [it.waiters for it in self.partitions], missing, timeout, self._called
        )

    def _called(self) -> None:
        self.calls += 1

    @property
    def watched(self) -> int:
        return sum(self.waiter in partition.waiters for partition in self.partitions)


@on_loop
async def test_called_once_when_enough_bytes_arrived(tmp_path: Path) -> None:
    world = PartitionWorld(tmp_path)
    size = len(batch())
    poll = Poll(world, missing=3 * size)
    for _ in range(2):
        world.partition.append(batch())
        await settle()
        assert poll.calls == 0
    world.partition.append(batch())
    assert poll.calls == 0, "the callback comes a turn later, so that one reply carries what arrives together"
    await settle()
    assert poll.calls == 1
    assert poll.watched == 0
    world.partition.append(batch())
    world.clock.advance(1)
    await settle()
    assert poll.calls == 1


@on_loop
async def test_called_when_the_time_is_over(tmp_path: Path) -> None:
    world = PartitionWorld(tmp_path)
    poll = Poll(world, timeout=0.5)
    world.clock.advance(0.4)
    await settle()
    assert poll.calls == 0
    world.clock.advance(0.1)
    await settle()
    assert poll.calls == 1
    assert poll.watched == 0


@on_loop
async def test_bytes_of_all_its_partitions_count(tmp_path: Path) -> None:
    first, second = PartitionWorld(tmp_path / "1"), PartitionWorld(tmp_path / "2")
    poll = Poll(first, second, missing=2 * len(batch()))
    first.partition.append(batch())
    await settle()
    assert poll.calls == 0
    second.partition.append(batch())
    await settle()
    assert poll.calls == 1
    assert poll.watched == 0


@on_loop
async def test_bytes_that_are_not_committed_do_not_count(tmp_path: Path) -> None:
    world = PartitionWorld(tmp_path, {"flush.messages": "1"}, held=True)
    poll = Poll(world)
    world.partition.append(batch())
    await settle()
    assert poll.calls == 0
    await world.background.finish_all()
    assert poll.calls == 1


@on_loop
async def test_called_when_a_partition_goes_away(tmp_path: Path) -> None:
    first, second = PartitionWorld(tmp_path / "1"), PartitionWorld(tmp_path / "2")
    poll = Poll(first, second)
    second.partition.close()
    await settle()
    assert poll.calls == 1
    assert poll.watched == 0


@on_loop
async def test_not_called_after_the_client_hung_up(tmp_path: Path) -> None:
    world = PartitionWorld(tmp_path)
    poll = Poll(world)
    poll.waiter.cancel()
    poll.waiter.cancel()
    assert world.clock.pending == 0
    world.partition.append(batch())
    world.clock.advance(1)
    await settle()
    assert poll.calls == 0
    assert poll.watched == 0


@on_loop
async def test_many_waiters_of_one_partition(tmp_path: Path) -> None:
    world = PartitionWorld(tmp_path)
    size = len(batch())
    polls = [Poll(world, missing=size * count) for count in (1, 1, 2)]
    world.partition.append(batch())
    await settle()
    assert [poll.calls for poll in polls] == [1, 1, 0]
    world.partition.append(batch())
    await settle()
    assert [poll.calls for poll in polls] == [1, 1, 1]
    assert not world.partition.waiters


@on_loop
async def test_a_callback_that_fails_does_not_stop_the_others() -> None:
    wakeups = Wakeups()
    called: list[int] = []

    def fail() -> None:
        raise ValueError("broken")

    wakeups.add(fail)
    wakeups.add(lambda: called.append(1))
    await settle()
    wakeups.add(lambda: called.append(2))
    await settle()
    assert called == [1, 2]


@on_loop
async def test_other_work_runs_between_many_callbacks() -> None:
    wakeups = Wakeups()
    called: list[int] = []
    seen: list[int] = []
    for number in range(2 * CALLS_AT_ONCE + 1):
        wakeups.add(partial(called.append, number))
    for _ in range(3):
        await asyncio.sleep(0)
        seen.append(len(called))
    assert seen == [CALLS_AT_ONCE, 2 * CALLS_AT_ONCE, 2 * CALLS_AT_ONCE + 1]
    assert called == sorted(called)
