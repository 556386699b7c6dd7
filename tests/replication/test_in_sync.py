"""The in-sync replicas while requests to the store are pending or lost."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.config.broker import BrokerConfig
from ottla.errors import ErrorCode, KafkaError
from ottla.model import LeaderEpoch
from ottla.records.header import iter_headers
from ottla.replication import in_sync as module
from ottla.replication.followers import Followers
from ottla.replication.in_sync import InSyncReplicas
from ottla.replication.partition import Partition
from tests.replication.world import PartitionWorld, batch, on_loop, settle


def leading(world: PartitionWorld, in_sync: list[int]) -> Followers:
    """Lead two followers, some of them in sync."""
    followers = Followers([2, 3], in_sync, world.clock.monotonic())
    world.partition.lead(LeaderEpoch(1), followers)
    return followers


class Asking:
    """The store's side of the leader's ISR changes."""

    def __init__(self, world: PartitionWorld, answer: Callable[[], None] = lambda: None) -> None:
        self.asked: list[frozenset[int]] = []
        self._answer = answer
        self.in_sync = InSyncReplicas(world.clock, BrokerConfig, self._alter)

    async def _alter(self, partition: Partition, followers: frozenset[int]) -> None:
        self.asked.append(followers)
        self._answer()


@on_loop
async def test_a_proposal_counts_until_the_store_has_another_state(tmp_path: Path) -> None:
    world = PartitionWorld(tmp_path)
    followers = leading(world, [2])
    followers.propose(frozenset({2, 3}))
    world.partition.update_replicas([2, 3], [2], answered=False)
    world.partition.append(batch(b"a"), None, None)
    world.partition.read_as_follower(2, 1, 100, -1)
    assert world.partition.high_watermark == 0, "broker 3 may be in sync by now"
    world.partition.update_replicas([2, 3], [2])
    assert world.partition.high_watermark == 1


@on_loop
async def test_a_refusal_alone_does_not_end_a_proposal(tmp_path: Path) -> None:
    """An earlier change may have been applied although its reply was lost."""

    def refuse() -> None:
        raise KafkaError(ErrorCode.INVALID_UPDATE_VERSION)

    world = PartitionWorld(tmp_path)
    followers = leading(world, [2])
    world.partition.read_as_follower(3, 0, 100, -1)
    asking = Asking(world, refuse)
    asking.in_sync.review(world.partition)
    await settle()
    assert asking.asked == [frozenset({2, 3})]
    assert followers.proposed == frozenset({2, 3})


@on_loop
async def test_a_question_of_an_earlier_epoch_is_not_asked(tmp_path: Path) -> None:
    world = PartitionWorld(tmp_path)
    leading(world, [2])
    world.partition.read_as_follower(3, 0, 100, -1)
    asking = Asking(world)
    asking.in_sync.review(world.partition)
    world.partition.follow(LeaderEpoch(2))
    await settle()
    assert asking.asked == []
    followers = Followers([2, 3], [2], world.clock.monotonic())
    world.partition.lead(LeaderEpoch(3), followers)
    world.partition.read_as_follower(3, 0, 100, -1)
    asking.in_sync.review(world.partition)
    await settle()
    assert asking.asked == [frozenset({2, 3})], "the next one is"


def follower_that_caught_up(path: Path) -> PartitionWorld:
    path.mkdir()
    world = PartitionWorld(path)
    leading(world, [2])
    world.partition.read_as_follower(3, 0, 100, -1)
    return world


@on_loop
async def test_many_changes_take_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_REQUESTS_AT_ONCE", 2)
    monkeypatch.setattr(module, "_REVIEWS_AT_ONCE", 3)
    worlds = [follower_that_caught_up(tmp_path / str(number)) for number in range(7)]
    asking = Asking(worlds[0])
    asking.in_sync.start([world.partition for world in worlds])
    worlds[0].clock.advance(15.0)
    deleted = worlds[-1].partition
    for world in worlds:
        asking.in_sync.review(world.partition)
    deleted.close()
    for asked in (2, 4, 6, 6):
        await settle()
        assert len(asking.asked) == asked
        worlds[0].clock.advance(0.0)
    assert all(world.partition.followers.proposed for world in worlds[:-1] if world.partition.followers)
    asking.in_sync.stop()


@on_loop
async def test_reviews_without_changes_take_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_REVIEWS_AT_ONCE", 3)
    worlds = [follower_that_caught_up(tmp_path / str(number)) for number in range(4)]
    for world in worlds[:3]:
        world.partition.follow(LeaderEpoch(2))
    asking = Asking(worlds[0])
    asking.in_sync._review_all([world.partition for world in worlds])
    await settle()
    assert asking.asked == []
    worlds[0].clock.advance(0.0)
    await settle()
    assert asking.asked == [frozenset({2, 3})]
    asking.in_sync.stop()


@on_loop
async def test_a_follower_says_that_it_has_a_record_when_it_is_synced(tmp_path: Path) -> None:
    world = PartitionWorld(tmp_path, {"flush.messages": "1"}, held=True)
    world.partition.follow(LeaderEpoch(1))
    data = batch(b"a")
    stored = world.partition.append_from_leader(data, [header for _, header in iter_headers(data)], 0)
    await settle()
    assert stored is not None
    assert not stored.done()
    await world.background.finish_all()
    await settle()
    assert stored.done()


@on_loop
async def test_what_a_crash_left_unsynced_shows_without_another_append(tmp_path: Path) -> None:
    world = PartitionWorld(tmp_path)
    world.partition.follow(LeaderEpoch(0))
    data = batch(b"a")
    world.partition.append_from_leader(data, [header for _, header in iter_headers(data)], 0)
    world.configure(flush_messages="1")
    leading(world, [])
    await settle()
    assert world.partition.high_watermark == 1
