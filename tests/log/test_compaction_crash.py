"""Kills the process, or cuts the power, at every single change that a pass makes to the disk."""

import copy
import random
from typing import NamedTuple

import pytest

from ottla.log.directory import LogDirectory
from ottla.log.log import Log
from tests.log.compacted_log import StoredBatch, check, check_files, producer_states, stored_batches
from tests.log.compaction_script import Writer, clean, compaction_config
from tests.log.crashing_disk import CrashingDisk, PowerCut
from tests.log.world import CLICKS, StillClock, new_log, open_directory

CONFIG = compaction_config(segment_bytes=1500)
MERGING = compaction_config(segment_bytes=4000)


class Prepared(NamedTuple):
    disk: CrashingDisk
    batches: list[StoredBatch]
    now_ms: int


def prepare(seed: int, *, read_again: bool) -> Prepared:
    """A synced log of which a part was compacted before. The next pass also merges segments.

    With `read_again` the active segment is empty, so recovery reads the last compacted segment and rebuilds its list of
    aborted transactions. Transactions without remaining records are then missing.
    """
    disk, clock = CrashingDisk(), StillClock()
    directory, log = new_log(disk, clock, config=CONFIG)
    writer = Writer(log, seed)
    writer.write(50)
    batches = [StoredBatch(data) for data in stored_batches(log)]
    sync(directory, log)
    clean(log, writer.now_ms)
    directory.checkpoint_cleaned_offsets(log)
    grown_from = log.end_offset
    writer.write(50)
    batches += [StoredBatch(data) for data in stored_batches(log) if StoredBatch(data).header.base_offset >= grown_from]
    if read_again:
        log.roll()
    sync(directory, log)
    return Prepared(disk, batches, writer.now_ms + 500)


def sync(directory: LogDirectory, log: Log) -> None:
    log.synced(log.sync())
    directory.checkpoint_recovery_points()


def reopen(disk: CrashingDisk) -> Log:
    disk.steps_left = None
    return open_directory(disk, config=MERGING).logs[CLICKS]


def aborted(log: Log) -> set[tuple[int, int]]:
    """The aborted transactions by producer and marker. Recovery recomputes their first and last stable offsets."""
    return {(entry.producer_id, entry.last_offset) for entry in log.aborted_transactions(0, log.end_offset)}


def one_pass(prepared: Prepared, log: Log) -> None:
    clean(log, prepared.now_ms)


def interrupted(prepared: Prepared, steps: int, chance: random.Random | None) -> tuple[CrashingDisk, bool]:
    """The disk after a number of changes of a pass and a crash, and whether the pass had finished before."""
    disk = copy.deepcopy(prepared.disk)
    disk.kill()
    log = reopen(disk)
    disk.steps_left = steps
    try:
        one_pass(prepared, log)
    except PowerCut:
        over = False
    else:
        over = True
    if chance is None:
        disk.kill()
    else:
        disk.lose_power(chance)
    return disk, over


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("power", [False, True], ids=["kill", "power loss"])
def test_a_crash_at_every_change_of_the_disk(seed: int, power: bool) -> None:
    read_again = seed % 2 == 1
    prepared = prepare(seed, read_again=read_again)
    untouched = copy.deepcopy(prepared.disk)
    untouched.kill()
    log = reopen(untouched)
    end, epochs, producers = log.end_offset, log.epochs.entries, producer_states(log)
    aborted_before = aborted(log)
    one_pass(prepared, log)
    aborted_after = aborted(log)
    crashes = 0
    over = False
    while not over:
        disk, over = interrupted(prepared, crashes, random.Random(crashes) if power else None)
        log = reopen(disk)
        check_files(disk, log)
        check(log, prepared.batches, prepared.now_ms)
        assert (log.end_offset, log.epochs.entries, producer_states(log)) == (end, epochs, producers)
        if not read_again:
            assert aborted_after <= aborted(log) <= aborted_before
        one_pass(prepared, log)
        check(log, prepared.batches, prepared.now_ms)
        crashes += 1
    assert crashes > 50


@pytest.mark.parametrize("power", [False, True], ids=["kill", "power loss"])
def test_a_crash_while_a_start_finishes_a_swap(power: bool) -> None:
    prepared = prepare(4, read_again=False)
    steps, over, finished = 0, False, 0
    while not over:
        disk, over = interrupted(prepared, steps, None)
        swaps = [name for name in disk.list("/data/clicks-0") if name.endswith(".log.swap")]
        for again in range(12 if swaps else 0):
            broken = copy.deepcopy(disk)
            broken.steps_left = again
            with pytest.raises(PowerCut):
                open_directory(broken, config=MERGING)
            if power:
                broken.lose_power(random.Random(again))
            else:
                broken.kill()
            log = reopen(broken)
            check_files(broken, log)
            check(log, prepared.batches, prepared.now_ms)
            finished += 1
        steps += 1
    assert finished > 20
