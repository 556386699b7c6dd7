"""A batch with a gap in its sequence numbers: after a retriable error for the batch before it, or without a reason."""

from pathlib import Path

import pytest

from ottla.errors import ErrorCode
from ottla.model import LeaderEpoch
from ottla.replication.followers import Followers
from tests.replication.world import PartitionWorld, batch, expect, on_loop

PRODUCER = 7


class Producing(PartitionWorld):
    """A partition of two replicas, whose leader has the sequence numbers 0 to 6 of a producer."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, {"min.insync.replicas": "2"})
        self.lead(0)
        for sequence in range(7):
            self.send(sequence)

    def lead(self, epoch: int, in_sync: tuple[int, ...] = (2,)) -> None:
        self.partition.lead(LeaderEpoch(epoch), Followers((2,), in_sync, self.clock.monotonic()))

    def send(self, sequence: int) -> None:
        self.partition.append(batch(producer_id=PRODUCER, sequence=sequence))
        self.partition.read_as_follower(2, self.log.end_offset, 1 << 20, -1)


@on_loop
async def test_behind_what_was_refused_by_who_led_before(tmp_path: Path) -> None:
    world = Producing(tmp_path)
    world.partition.follow(LeaderEpoch(1))
    world.lead(2)
    for sequence in (8, 9):
        with expect(ErrorCode.NOT_LEADER_OR_FOLLOWER):
            world.send(sequence)
    for sequence in (7, 8, 9):
        world.send(sequence)


@on_loop
async def test_behind_what_was_refused_for_want_of_replicas(tmp_path: Path) -> None:
    world = Producing(tmp_path)
    world.partition.update_replicas([2], [])
    with expect(ErrorCode.NOT_ENOUGH_REPLICAS):
        world.send(7)
    world.partition.update_replicas([2], [2])
    with expect(ErrorCode.NOT_ENOUGH_REPLICAS):
        world.send(8)
    world.send(7)


@on_loop
async def test_behind_what_could_not_be_written(tmp_path: Path) -> None:
    world = Producing(tmp_path)
    world.disk.break_("write", ".log")
    with expect(ErrorCode.KAFKA_STORAGE_ERROR):
        world.send(7)
    world.disk.repair()
    with expect(ErrorCode.KAFKA_STORAGE_ERROR):
        world.send(8)
    world.send(7)


@pytest.mark.parametrize("sequence", [0, 9])
@on_loop
async def test_without_a_reason_it_is_out_of_order(tmp_path: Path, sequence: int) -> None:
    world = Producing(tmp_path)
    with expect(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
        world.send(sequence)


@on_loop
async def test_numbers_that_are_behind_have_no_reason(tmp_path: Path) -> None:
    world = Producing(tmp_path)
    world.partition.follow(LeaderEpoch(1))
    world.lead(2)
    with expect(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
        world.send(0)


@on_loop
async def test_what_nobody_sends_again_is_missing(tmp_path: Path) -> None:
    world = Producing(tmp_path)
    world.partition.follow(LeaderEpoch(1))
    world.lead(2)
    world.clock.advance(6.0)
    with expect(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
        world.send(8)
