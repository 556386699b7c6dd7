"""A follower copies its leader's log exactly, and reports only stored records to the leader."""

from pathlib import Path

import pytest

from ottla.errors import ErrorCode
from ottla.log.epochs import EpochStart
from ottla.model import LeaderEpoch
from ottla.records.header import iter_headers
from ottla.replication.followers import Followers
from ottla.replication.following import Position, position, take_over
from ottla.wire.api.fetch import EpochEndOffset, PartitionData
from tests.replication.world import PartitionWorld, batch, expect, on_loop, settle, values, visible


class Pair:
    """A leader and a follower, each with its own disk."""

    def __init__(self, path: Path, overrides: dict[str, str] | None = None, *, held: bool = False) -> None:
        self.leader = PartitionWorld(path / "leader", overrides)
        self.follower = PartitionWorld(path / "follower", overrides, held=held)
        self.leader.partition.lead(LeaderEpoch(1), Followers((2,), (2,), 0.0))
        self.follower.partition.follow(LeaderEpoch(1))

    def ask(self) -> PartitionData:
        """The leader's reply to the follower's next fetch."""
        at = position(self.follower.partition)
        found = self.leader.partition.read_as_follower(2, at.offset, 1 << 20, at.last_epoch)
        answer = PartitionData(high_watermark=self.leader.partition.high_watermark)
        if isinstance(found, EpochStart):
            answer.diverging_epoch = EpochEndOffset(epoch=found.epoch, end_offset=found.start_offset)
        elif found.file is not None:
            answer.records = found.file.read(found.size, found.position)
        return answer


def records_of(answer: PartitionData) -> bytes:
    assert isinstance(answer.records, bytes)
    return answer.records


@on_loop
async def test_bytes_stay_as_they_are(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    pair.leader.partition.append(batch(b"a", b"b"), replication_timeout=None)
    pair.leader.partition.append(batch(b"c"), replication_timeout=None)
    answer = pair.ask()
    assert take_over(pair.follower.partition, answer) is None
    read = pair.follower.partition.read_everything(0, 1 << 20)
    assert read.file is not None
    assert read.file.read(read.size, read.position) == records_of(answer)
    assert visible(pair.follower.partition) == []
    assert position(pair.follower.partition) == Position(3, 1, 0)
    take_over(pair.follower.partition, pair.ask())
    assert values(visible(pair.follower.partition)) == [b"a", b"b", b"c"]


@on_loop
async def test_half_a_batch_is_left_for_the_next_fetch(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    pair.leader.partition.append(batch(b"a"), replication_timeout=None)
    pair.leader.partition.append(batch(b"b"), replication_timeout=None)
    answer = pair.ask()
    answer.records = records_of(answer)[:-1]
    take_over(pair.follower.partition, answer)
    assert position(pair.follower.partition) == Position(1, 1, 0)


@on_loop
async def test_a_damaged_batch_is_refused(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    pair.leader.partition.append(batch(b"a"), replication_timeout=None)
    answer = pair.ask()
    damaged = bytearray(records_of(answer))
    damaged[-1] ^= 1
    answer.records = bytes(damaged)
    with expect(ErrorCode.CORRUPT_MESSAGE):
        take_over(pair.follower.partition, answer)
    assert pair.follower.log.end_offset == 0


@on_loop
async def test_a_log_that_went_another_way_is_cut_where_both_agree(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    pair.leader.partition.append(batch(b"both"), replication_timeout=None)
    take_over(pair.follower.partition, pair.ask())
    pair.follower.partition.lead(LeaderEpoch(2))
    pair.follower.partition.append(batch(b"only here"), replication_timeout=None)
    pair.leader.partition.lead(LeaderEpoch(3), Followers((2,), (2,), 0.0))
    pair.leader.partition.append(batch(b"x"), replication_timeout=None)
    pair.follower.partition.follow(LeaderEpoch(3))
    for _ in range(3):
        take_over(pair.follower.partition, pair.ask())
    everything = [world.log.read(0, 1 << 20, 10) for world in (pair.leader, pair.follower)]
    contents = [read.file.read(read.size, read.position) for read in everything if read.file is not None]
    assert contents[0] == contents[1]
    assert [header.base_offset for _, header in iter_headers(memoryview(contents[0]))] == [0, 1]


@pytest.mark.parametrize("overrides, waits", [({"flush.messages": "1"}, True), ({}, False)])
@on_loop
async def test_what_must_be_synced_is_not_reported_before(
    tmp_path: Path, overrides: dict[str, str], waits: bool
) -> None:
    pair = Pair(tmp_path, overrides, held=True)
    pair.leader.partition.append(batch(b"a"), replication_timeout=None)
    wait = take_over(pair.follower.partition, pair.ask())
    assert (wait is not None) is waits
    if wait is not None:
        await settle()
        assert not wait.done()
        await pair.follower.background.finish_all()
        assert wait.done()
        assert pair.follower.disk.syncs[".log"] == 1


@on_loop
async def test_a_follower_that_begins_anew_may_fetch(tmp_path: Path) -> None:
    """With flush.messages=1 it syncs before it fetches, but there is nothing to sync."""
    pair = Pair(tmp_path, {"flush.messages": "1"})
    pair.follower.partition.restart_at(100)
    assert pair.follower.partition.ready_to_fetch()
    assert position(pair.follower.partition) == Position(100, -1, 100)


@on_loop
async def test_a_truncation_that_fails_does_not_keep_a_follower_from_fetching(tmp_path: Path) -> None:
    """With flush.messages=1 it fetches after everything is synced. The truncation has lowered the recovery point."""
    pair = Pair(tmp_path, {"flush.messages": "1"})
    follower = pair.follower.partition
    follower.lead(LeaderEpoch(2))
    follower.append(batch(b"a"))
    follower.append(batch(b"b"))
    await settle()
    follower.follow(LeaderEpoch(3))
    pair.follower.disk.break_("replace_bytes", "checkpoint")
    with pytest.raises(OSError, match="Input/output error"):
        follower.truncate_to(1)
    pair.follower.disk.repair()
    assert (follower.log.end_offset, follower.log.recovery_point) == (2, 1)
    assert not follower.ready_to_fetch()
    await settle()
    assert follower.ready_to_fetch()
