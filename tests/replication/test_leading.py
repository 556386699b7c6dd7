"""A leader with followers: the high watermark, the in-sync replicas, and the start of a new leader."""

import asyncio
import tracemalloc
from pathlib import Path

from ottla.errors import ErrorCode
from ottla.log.epochs import EpochStart
from ottla.log.log import LogRead
from ottla.model import LeaderEpoch
from ottla.records.control import EndTransactionMarker
from ottla.replication.followers import Followers
from ottla.replication.waiting import DataWaiter, Wakeups
from tests.replication.world import PartitionWorld, batch, expect, on_loop, settle, values, visible

MAX_LAG = 30.0


class LeaderWorld(PartitionWorld):
    """A partition whose leader has two followers, numbered 2 and 3, both in sync."""

    def __init__(self, path: Path, overrides: dict[str, str] | None = None) -> None:
        super().__init__(path, overrides)
        self.lead(1)

    def lead(self, epoch: int, in_sync: tuple[int, ...] = (2, 3)) -> Followers:
        self.followers = Followers((2, 3), in_sync, self.clock.monotonic())
        self.partition.lead(LeaderEpoch(epoch), self.followers)
        return self.followers

    def fetch(self, follower: int, offset: int, last_epoch: int = -1) -> LogRead | EpochStart:
        return self.partition.read_as_follower(follower, offset, 1 << 20, last_epoch)

    @property
    def told(self) -> tuple[int, int]:
        return self.partition.high_watermark, self.log.log_start_offset

    def has_nothing_for(self, follower: int, offset: int, told: tuple[int, int] | None = None) -> bool:
        return self.partition.has_nothing_for(follower, offset, told or self.told, self.clock.monotonic())

    def wanted(self) -> frozenset[int]:
        end, needed = self.log.end_offset, self.partition.needed_end
        return self.followers.wanted(end, needed, self.clock.monotonic(), MAX_LAG)


def done(wait: asyncio.Future[None] | None) -> bool:
    return wait is None or wait.done()


@on_loop
async def test_what_all_in_sync_have_is_committed(tmp_path: Path) -> None:
    world = LeaderWorld(tmp_path)
    appended = world.partition.append(batch(b"a", b"b"))
    assert (done(appended.wait), values(visible(world.partition))) == (False, [])
    world.fetch(2, 2)
    assert (done(appended.wait), values(visible(world.partition))) == (False, [])
    world.fetch(3, 1)
    assert not done(appended.wait)
    world.fetch(3, 2)
    assert (done(appended.wait), values(visible(world.partition))) == (True, [b"a", b"b"])


@on_loop
async def test_who_is_not_in_sync_is_not_waited_for(tmp_path: Path) -> None:
    world = LeaderWorld(tmp_path)
    world.lead(2, in_sync=(2,))
    appended = world.partition.append(batch(b"a"))
    world.fetch(2, 1)
    assert done(appended.wait)


@on_loop
async def test_who_is_about_to_be_in_sync_is_waited_for(tmp_path: Path) -> None:
    """The store may already list it, and the controller may elect it, before this leader learns of the change."""
    world = LeaderWorld(tmp_path)
    followers = world.lead(2, in_sync=(2,))
    world.fetch(3, 0)
    followers.propose(frozenset({2, 3}))
    appended = world.partition.append(batch(b"a"))
    world.fetch(2, 1)
    assert not done(appended.wait)
    world.fetch(3, 1)
    assert done(appended.wait)


@on_loop
async def test_who_may_have_been_let_go_is_waited_for_until_the_store_says_so(tmp_path: Path) -> None:
    world = LeaderWorld(tmp_path)
    world.fetch(2, 0)
    world.fetch(3, 0)
    world.followers.propose(frozenset({2}))
    appended = world.partition.append(batch(b"a"))
    world.fetch(2, 1)
    assert not done(appended.wait)
    world.partition.update_replicas((2, 3), (2,))
    assert done(appended.wait)


@on_loop
async def test_to_join_a_follower_needs_all_that_was_there_when_its_leader_began(tmp_path: Path) -> None:
    """The previous leader may have committed records above this leader's high watermark."""
    world = LeaderWorld(tmp_path)
    world.partition.append(batch(b"a"))
    world.partition.append(batch(b"b"))
    world.fetch(2, 1)
    world.fetch(3, 1)
    assert world.partition.high_watermark == 1
    world.lead(2, in_sync=(2,))
    world.fetch(3, 1)
    assert world.wanted() == {2}
    world.fetch(3, 2)
    assert world.wanted() == {2, 3}


@on_loop
async def test_a_follower_is_in_sync_as_long_as_it_was_at_the_end_of_late(tmp_path: Path) -> None:
    world = LeaderWorld(tmp_path)
    for step in range(10):
        world.fetch(2, step)
        world.partition.append(batch(b"a"), replication_timeout=None)
        world.clock.advance(MAX_LAG / 2)
    assert world.wanted() == {2}, "2 always had what was there at its last fetch; 3 never fetched"
    world.fetch(2, 9)
    world.clock.advance(MAX_LAG + 1)
    assert world.wanted() == frozenset()


@on_loop
async def test_a_new_leader_learns_what_is_committed(tmp_path: Path) -> None:
    """Before that, the leader returns no end offset: it could be lower than an offset that consumers already know
    (KIP-207)."""
    world = LeaderWorld(tmp_path)
    world.partition.append(batch(b"a"))
    world.partition.append(batch(b"b"))
    world.fetch(2, 1)
    world.fetch(3, 1)
    assert world.partition.knows_committed
    world.lead(2)
    assert not world.partition.knows_committed
    read = world.partition.read_everything(0, 1 << 20)
    assert (read.next_offset, values(visible(world.partition))) == (2, [b"a"])
    waiting = asyncio.ensure_future(world.partition.committed(2))
    await asyncio.sleep(0)
    assert not waiting.done()
    world.fetch(2, 2, last_epoch=1)
    world.fetch(3, 2, last_epoch=1)
    await waiting
    assert world.partition.knows_committed


@on_loop
async def test_too_few_in_sync_refuse_the_append(tmp_path: Path) -> None:
    world = LeaderWorld(tmp_path, {"min.insync.replicas": "2"})
    world.partition.update_replicas((2, 3), ())
    with expect(ErrorCode.NOT_ENOUGH_REPLICAS):
        world.partition.append(batch(b"a"))
    assert world.log.end_offset == 0
    acks_1 = world.partition.append(batch(b"b"), replication_timeout=None)
    assert acks_1.wait is None, "acks=1 asks for no more than the leader"


@on_loop
async def test_the_high_watermark_stands_still_below_min_isr(tmp_path: Path) -> None:
    """As in Apache Kafka 4 (KIP-966, `Partition.maybeIncrementLeaderHW`)."""
    world = LeaderWorld(tmp_path, {"min.insync.replicas": "2"})
    appended = world.partition.append(batch(b"a"))
    world.partition.update_replicas((2, 3), ())
    world.partition.append(batch(b"b"), replication_timeout=None)
    world.fetch(2, 2)
    assert not done(appended.wait)
    assert (world.partition.high_watermark, visible(world.partition)) == (0, [])
    assert world.partition.in_sync_end == 2
    await world.partition.committed(2)  # A coordinator can load: no other replica can become the leader.
    world.partition.update_replicas((2, 3), (2,))
    assert done(appended.wait)
    assert values(visible(world.partition)) == [b"a", b"b"]


@on_loop
async def test_below_min_isr_an_append_waits_until_its_time_is_over(tmp_path: Path) -> None:
    world = LeaderWorld(tmp_path, {"min.insync.replicas": "2"})
    appended = world.partition.append(batch(b"a"), replication_timeout=1.0)
    world.partition.update_replicas((2, 3), ())
    world.clock.advance(1.5)
    assert appended.wait is not None
    with expect(ErrorCode.REQUEST_TIMED_OUT):
        await appended.wait


@on_loop
async def test_a_lower_min_isr_moves_the_high_watermark(tmp_path: Path) -> None:
    world = LeaderWorld(tmp_path, {"min.insync.replicas": "2"})
    world.partition.update_replicas((2, 3), ())
    world.partition.append(batch(b"a"), replication_timeout=None)
    assert world.partition.high_watermark == 0
    world.configure(min_insync_replicas="1")
    assert world.partition.high_watermark == 1


@on_loop
async def test_min_isr_never_asks_for_more_replicas_than_there_are(tmp_path: Path) -> None:
    """Apache Kafka: `Partition.effectiveMinIsr`."""
    world = LeaderWorld(tmp_path, {"min.insync.replicas": "5"})
    appended = world.partition.append(batch(b"a"))
    for follower in (2, 3):
        world.fetch(follower, 1)
    assert done(appended.wait)
    assert values(visible(world.partition)) == [b"a"]
    world.partition.update_replicas((2, 3), (2,))
    with expect(ErrorCode.NOT_ENOUGH_REPLICAS):
        world.partition.append(batch(b"b"))


@on_loop
async def test_appends_that_nobody_waits_for_take_no_memory_while_a_follower_stalls(tmp_path: Path) -> None:
    world = LeaderWorld(tmp_path)
    tracemalloc.start()
    try:
        for _ in range(100):
            world.partition.append(batch(b"a"), replication_timeout=None)
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(5000):
            world.partition.append(batch(b"a"), replication_timeout=None)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert world.partition.high_watermark == 0
    assert after - before < 100_000


@on_loop
async def test_a_fetch_is_woken_by_the_bytes_that_become_readable(tmp_path: Path) -> None:
    world = LeaderWorld(tmp_path)
    for _ in range(4):
        world.partition.append(batch(bytes(100)), replication_timeout=None)
    size = world.partition.read_everything(0, 1).size
    woken = asyncio.Event()
    DataWaiter(world.clock, Wakeups(), [world.partition.waiters], 3 * size, 60, woken.set)
    for end in (1, 2, 3):
        await settle()
        assert not woken.is_set()
        for follower in (2, 3):
            world.fetch(follower, end)
    await settle()
    assert woken.is_set()


# Transaction markers


def end_of_transaction(world: LeaderWorld, *, committed: bool = True) -> asyncio.Future[None] | None:
    return world.partition.append_marker(EndTransactionMarker(7, 1, 0, committed), 2)


@on_loop
async def test_too_few_in_sync_refuse_a_marker(tmp_path: Path) -> None:
    world = LeaderWorld(tmp_path, {"min.insync.replicas": "2"})
    world.partition.update_replicas((2, 3), ())
    for _ in range(3):
        with expect(ErrorCode.NOT_ENOUGH_REPLICAS):
            end_of_transaction(world)
    assert world.log.end_offset == 0
    world.partition.update_replicas((2, 3), (2,))
    wait = end_of_transaction(world)
    assert not done(wait)
    world.fetch(2, 1)
    assert done(wait)


@on_loop
async def test_a_marker_that_comes_again_waits_for_the_first(tmp_path: Path) -> None:
    """The coordinator did not learn in time whether the first marker was written."""
    world = LeaderWorld(tmp_path)
    first = end_of_transaction(world)
    assert first is not None
    world.clock.advance(60.0)
    with expect(ErrorCode.REQUEST_TIMED_OUT):
        await first
    again = end_of_transaction(world)
    assert (world.log.end_offset, done(again)) == (1, False)
    for follower in (2, 3):
        world.fetch(follower, 1)
    assert done(again)
    # After the first marker is committed, Kafka appends a repeated marker, which ends no transaction.
    end_of_transaction(world)
    assert world.log.end_offset == 2


@on_loop
async def test_appends_that_wait_too_long_time_out(tmp_path: Path) -> None:
    world = LeaderWorld(tmp_path)
    short = world.partition.append(batch(b"a"), replication_timeout=1.0)
    long = world.partition.append(batch(b"b"), replication_timeout=3.0)
    assert short.wait is not None
    world.clock.advance(1.5)
    with expect(ErrorCode.REQUEST_TIMED_OUT):
        await short.wait
    assert not done(long.wait)


@on_loop
async def test_who_waits_is_sent_to_the_next_leader(tmp_path: Path) -> None:
    world = LeaderWorld(tmp_path)
    appended = world.partition.append(batch(b"a"))
    assert appended.wait is not None
    world.partition.follow(LeaderEpoch(2))
    with expect(ErrorCode.NOT_LEADER_OR_FOLLOWER):
        await appended.wait


@on_loop
async def test_a_log_that_went_another_way_is_told_where(tmp_path: Path) -> None:
    world = LeaderWorld(tmp_path)
    world.partition.append(batch(b"a"))
    world.lead(5)
    world.partition.append(batch(b"b"))
    assert world.fetch(2, 3, last_epoch=1) == EpochStart(1, 1)
    assert world.fetch(2, 2, last_epoch=4) == EpochStart(1, 1)
    assert isinstance(world.fetch(2, 1, last_epoch=1), LogRead)
    with expect(ErrorCode.OFFSET_OUT_OF_RANGE):
        world.fetch(2, 2, last_epoch=6)
    with expect(ErrorCode.NOT_LEADER_OR_FOLLOWER):
        world.fetch(4, 0)


@on_loop
async def test_a_follower_that_waits_at_the_end_is_in_sync(tmp_path: Path) -> None:
    """Although its fetches take the fast path, which reads nothing."""
    world = LeaderWorld(tmp_path)
    world.partition.append(batch(b"a"), replication_timeout=None)
    for follower in (2, 3):
        world.fetch(follower, 1)
    for _ in range(4):
        world.clock.advance(MAX_LAG / 2)
        assert world.has_nothing_for(2, 1)
    world.partition.append(batch(b"b"), replication_timeout=None)
    assert world.wanted() == {2}, "3 was not heard of for too long"
    assert not world.has_nothing_for(2, 1), "there is something to read"


@on_loop
async def test_who_has_news_takes_the_slow_way(tmp_path: Path) -> None:
    world = LeaderWorld(tmp_path)
    world.partition.append(batch(b"a", b"b"), replication_timeout=None)
    assert not world.has_nothing_for(2, 2), "it has not said yet that it has come so far"
    world.fetch(2, 2)
    assert world.has_nothing_for(2, 2)
    told = world.told
    world.fetch(3, 2)
    assert not world.has_nothing_for(2, 2, told), "more is committed"
    assert world.has_nothing_for(2, 2)
    told = world.told
    world.partition.delete_records_before(1)
    assert not world.has_nothing_for(2, 2, told), "the log begins elsewhere"
    assert not world.has_nothing_for(2, 1), "it went back"
    assert not world.has_nothing_for(4, 2), "a stranger"
    world.followers.update((2, 3), (3,), world.clock.monotonic())
    assert not world.has_nothing_for(2, 2), "it could be in sync again"
    assert world.has_nothing_for(3, 2)
    world.lead(2)
    assert not world.has_nothing_for(3, 2), "a new epoch has not heard of it"
    world.fetch(3, 2)
    world.partition.close()
    assert not world.has_nothing_for(3, 2)
