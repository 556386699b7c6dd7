"""Appends, the high watermark, and acknowledgements."""

import asyncio
from pathlib import Path

import pytest

from ottla.errors import ErrorCode, KafkaError
from ottla.model import LeaderEpoch
from ottla.records.header import iter_headers
from ottla.replication.partition import Appended, Partition
from ottla.replication.waiting import DataWaiter, Wakeups
from tests.manual_clock import NOW_MS
from tests.replication.world import (
    TOPIC_ID,
    ManualBackground,
    PartitionWorld,
    batch,
    expect,
    kill,
    on_loop,
    open_directory,
    settings,
    settle,
    values,
    visible,
)

SYNC_EACH = {"flush.messages": "1"}
SYNC_FIRST = {"flush.before.visible": "true"}


def acknowledged(appended: Appended) -> bool:
    """Whether the append may be acknowledged."""
    if appended.wait is None:
        return True
    return appended.wait.done() and appended.wait.exception() is None


def refusal(appended: Appended) -> ErrorCode:
    assert appended.wait is not None
    error = appended.wait.exception()
    assert isinstance(error, KafkaError)
    return error.code


@on_loop
async def test_the_page_cache_is_enough_by_default(tmp_path: Path) -> None:
    world = PartitionWorld(tmp_path)
    first = world.partition.append(batch(b"a", b"b"))
    second = world.partition.append(batch(b"c"))
    assert first == Appended(0, -1, 0, None)
    assert second.base_offset == 2
    assert world.partition.high_watermark == world.log.end_offset == 3
    assert values(visible(world.partition)) == [b"a", b"b", b"c"]
    await settle()
    assert world.background.started == 0
    assert not world.disk.syncs


@on_loop
async def test_a_refused_batch_leaves_no_trace(tmp_path: Path) -> None:
    world = PartitionWorld(tmp_path)
    broken = batch(b"a")
    broken[-1] ^= 1
    with expect(ErrorCode.CORRUPT_MESSAGE):
        world.partition.append(broken)
    assert world.log.end_offset == world.partition.high_watermark == 0


@on_loop
async def test_a_disk_that_cannot_be_written_refuses_only_the_append(tmp_path: Path) -> None:
    world = PartitionWorld(tmp_path, {"segment.bytes": str(1 << 20)})
    world.partition.append(batch(b"kept"))
    world.configure(segment_bytes=str(1 << 20), segment_ms="1")
    world.disk.break_("open", "00001.log")
    with expect(ErrorCode.KAFKA_STORAGE_ERROR):
        world.partition.append(batch(b"lost", timestamp=NOW_MS + 1000))
    assert values(visible(world.partition)) == [b"kept"]
    world.disk.repair()
    world.partition.append(batch(b"again", timestamp=NOW_MS + 1000))
    assert values(visible(world.partition)) == [b"kept", b"again"]


# flush.messages=1: acknowledged means synced


@on_loop
async def test_nothing_is_visible_or_acknowledged_before_the_sync_ended(tmp_path: Path) -> None:
    world = PartitionWorld(tmp_path, SYNC_EACH, held=True)
    appended = world.partition.append(batch(b"a"))
    await settle()
    assert world.background.waiting == 1
    assert world.log.end_offset == 1
    assert world.partition.high_watermark == 0
    assert visible(world.partition) == []
    assert not acknowledged(appended)
    await world.background.finish_one()
    assert acknowledged(appended)
    assert world.partition.high_watermark == 1
    assert values(visible(world.partition)) == [b"a"]
    assert world.disk.syncs[".log"] == 1


@on_loop
async def test_appends_during_a_sync_share_the_next_one(tmp_path: Path) -> None:
    world = PartitionWorld(tmp_path, SYNC_EACH, held=True)
    first = world.partition.append(batch(b"0"))
    late: list[Appended] = []
    world.disk.during_sync = lambda: late.extend(world.partition.append(batch(b"%d" % n)) for n in range(1, 65))
    await settle()
    await world.background.finish_one()
    assert acknowledged(first)
    assert len(late) == 64
    assert not any(map(acknowledged, late)), "their bytes may have missed the sync that just ended"
    assert world.partition.high_watermark == 1
    await world.background.finish_one()
    assert all(map(acknowledged, late))
    assert world.background.started == 2
    assert world.disk.syncs[".log"] == 2
    assert values(visible(world.partition)) == [b"%d" % n for n in range(65)]


@on_loop
async def test_a_failed_sync_takes_the_partition_offline(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    world = PartitionWorld(tmp_path, SYNC_EACH, held=True)
    durable = world.partition.append(batch(b"durable"))
    await settle()
    await world.background.finish_one()
    world.disk.break_("sync", ".log")
    fsync_failed = [world.partition.append(batch(b"doubtful")) for _ in range(3)]
    await settle()
    world.disk.during_sync = None
    fsync_failed.append(world.partition.append(batch(b"queued behind the sync that fails")))
    await world.background.finish_one()
    world.disk.repair()
    await world.background.finish_all()
    assert acknowledged(durable)
    assert {refusal(appended) for appended in fsync_failed} == {ErrorCode.KAFKA_STORAGE_ERROR}
    with expect(ErrorCode.KAFKA_STORAGE_ERROR):
        world.partition.append(batch())
    with expect(ErrorCode.KAFKA_STORAGE_ERROR):
        world.partition.read(0, 1000)
    with expect(ErrorCode.KAFKA_STORAGE_ERROR):
        world.partition.delete_records_before(0)
    assert "clicks-0: fsync failed" in caplog.text


@on_loop
async def test_after_a_failed_sync_the_recovery_point_stays(tmp_path: Path) -> None:
    """Later syncs may "succeed" although the data is lost, so nothing more may be acknowledged."""
    world = PartitionWorld(tmp_path, SYNC_EACH, held=True)
    world.partition.append(batch(b"a"))
    await settle()
    await world.background.finish_one()
    world.disk.break_("sync", ".log")
    failed = world.partition.append(batch(b"b"))
    await settle()
    also_failed = world.partition.append(batch(b"c"))
    await world.background.finish_one()
    world.disk.repair()
    world.partition.start_sync()
    await settle()
    await world.background.finish_all()
    assert refusal(failed) is refusal(also_failed) is ErrorCode.KAFKA_STORAGE_ERROR
    assert world.log.recovery_point == 1
    assert world.partition.high_watermark == 1


@on_loop
async def test_a_failed_sync_wakes_those_who_wait_for_data(tmp_path: Path) -> None:
    world = PartitionWorld(tmp_path, SYNC_EACH)
    woken = asyncio.Event()
    DataWaiter(world.clock, Wakeups(), [world.partition.waiters], 1, 60, woken.set)
    world.disk.break_("sync", ".log")
    appended = world.partition.append(batch())
    await settle()
    assert woken.is_set()
    assert refusal(appended) is ErrorCode.KAFKA_STORAGE_ERROR


@on_loop
async def test_a_fetch_waits_for_its_bytes_not_for_any_sync(tmp_path: Path) -> None:
    world = PartitionWorld(tmp_path, SYNC_EACH)
    world.partition.append(batch(bytes(10_000)))
    await settle()
    woken = asyncio.Event()
    DataWaiter(world.clock, Wakeups(), [world.partition.waiters], 300, 60, woken.set)
    for _ in range(3):
        assert not woken.is_set()
        world.partition.append(batch(bytes(40)))
        await settle()
    assert woken.is_set(), "three batches of a hundred and some bytes are over 300"


@on_loop
async def test_a_closed_partition_refuses_those_who_wait_for_a_sync(tmp_path: Path) -> None:
    world = PartitionWorld(tmp_path, {**SYNC_EACH, "flush.ms": "5"}, held=True)
    appended = world.partition.append(batch())
    await settle()
    queued = world.partition.append(batch())
    world.partition.close()
    assert refusal(appended) is refusal(queued) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    await world.background.finish_all()
    assert world.background.started == 1
    assert world.clock.pending == 0


@on_loop
async def test_a_closed_partition_is_not_synced_any_more(tmp_path: Path) -> None:
    world = PartitionWorld(tmp_path)
    world.partition.append(batch())
    world.partition.close()
    world.partition.start_sync()
    await settle()
    assert world.background.started == 0


@on_loop
async def test_deleted_while_a_sync_runs(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    world = PartitionWorld(tmp_path, SYNC_EACH, held=True)
    appended = world.partition.append(batch())
    await settle()
    world.partition.close()
    world.directory.delete_log(world.partition.topic_partition)
    await world.background.finish_all()
    assert refusal(appended) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert "fsync failed" not in caplog.text


# flush.messages=N and flush.ms


@on_loop
async def test_every_nth_message_waits_for_a_sync(tmp_path: Path) -> None:
    world = PartitionWorld(tmp_path, {"flush.messages": "3"}, held=True)
    assert world.partition.append(batch(b"1")).wait is None
    assert world.partition.append(batch(b"2")).wait is None
    await settle()
    assert world.background.waiting == 0
    third = world.partition.append(batch(b"3"))
    assert third.wait is not None
    assert len(visible(world.partition)) == 3, "only flush.messages=1 hides what is not synced"
    await settle()
    assert not acknowledged(third)
    await world.background.finish_one()
    assert acknowledged(third)
    assert world.partition.append(batch(b"4")).wait is None
    await settle()
    assert world.background.started == 1
    assert world.log.recovery_point == 3


@on_loop
async def test_a_batch_counts_as_its_records(tmp_path: Path) -> None:
    world = PartitionWorld(tmp_path, {"flush.messages": "3"})
    assert world.partition.append(batch(b"1", b"2", b"3")).wait is not None
    await settle()
    assert world.disk.syncs[".log"] == 1


@on_loop
async def test_flush_ms_syncs_what_has_waited_that_long(tmp_path: Path) -> None:
    world = PartitionWorld(tmp_path, {"flush.ms": "1000"})
    world.partition.append(batch(b"a"))
    world.clock.advance(0.6)
    world.partition.append(batch(b"b"))
    await settle()
    assert world.log.recovery_point == 0
    world.clock.advance(0.4)
    await settle()
    assert world.log.recovery_point == 2
    assert world.clock.pending == 0, "without appends there is nothing to wake up for"
    world.partition.append(batch(b"c"))
    world.clock.advance(0.9)
    await settle()
    assert world.disk.syncs[".log"] == 1
    world.clock.advance(0.1)
    await settle()
    assert world.disk.syncs[".log"] == 2


@on_loop
async def test_flush_ms_has_nothing_to_do_after_another_sync(tmp_path: Path) -> None:
    world = PartitionWorld(tmp_path, {"flush.ms": "1000"})
    world.partition.append(batch(b"a"))
    world.partition.start_sync()
    await settle()
    world.clock.advance(1)
    await settle()
    assert world.disk.syncs[".log"] == 1


# Idempotent producers


@on_loop
async def test_a_duplicate_is_answered_with_the_original_offset(tmp_path: Path) -> None:
    world = PartitionWorld(tmp_path)
    for sequence in range(3):
        world.partition.append(batch(b"%d" % sequence, producer_id=7, sequence=sequence))
    again = world.partition.append(batch(b"1", producer_id=7, sequence=1))
    assert again == Appended(1, -1, 0, None)
    assert len(visible(world.partition)) == 3
    with expect(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
        world.partition.append(batch(b"5", producer_id=7, sequence=5))


@on_loop
async def test_a_duplicate_waits_for_the_sync_of_its_original(tmp_path: Path) -> None:
    world = PartitionWorld(tmp_path, SYNC_EACH, held=True)
    original = world.partition.append(batch(b"a", producer_id=7, sequence=0))
    await settle()
    again = world.partition.append(batch(b"a", producer_id=7, sequence=0))
    assert again.base_offset == original.base_offset == 0
    assert not acknowledged(again)
    await world.background.finish_one()
    assert acknowledged(original)
    assert acknowledged(again)
    assert world.partition.append(batch(b"a", producer_id=7, sequence=0)).wait is None, "it is on disk by now"
    await world.background.finish_all()
    assert world.background.started == 1, "a duplicate writes nothing, so it needs no sync of its own"
    assert len(visible(world.partition)) == 1


@on_loop
async def test_a_duplicate_fails_with_its_original(tmp_path: Path) -> None:
    world = PartitionWorld(tmp_path, SYNC_EACH, held=True)
    world.disk.break_("sync", ".log")
    original = world.partition.append(batch(b"a", producer_id=7, sequence=0))
    again = world.partition.append(batch(b"a", producer_id=7, sequence=0))
    await settle()
    await world.background.finish_all()
    assert refusal(original) is refusal(again) is ErrorCode.KAFKA_STORAGE_ERROR


@on_loop
async def test_a_duplicate_of_an_early_batch_does_not_delay_later_ones(tmp_path: Path) -> None:
    world = PartitionWorld(tmp_path, SYNC_EACH, held=True)
    originals = [world.partition.append(batch(b"a", producer_id=7, sequence=n)) for n in range(3)]
    again = [world.partition.append(batch(b"a", producer_id=7, sequence=n)) for n in (2, 0, 1)]
    await settle()
    await world.background.finish_one()
    assert all(map(acknowledged, [*originals, *again]))


@on_loop
async def test_a_duplicate_has_the_append_time_of_its_original(tmp_path: Path) -> None:
    world = PartitionWorld(tmp_path, {"message.timestamp.type": "LogAppendTime"})
    original = world.partition.append(batch(producer_id=7, sequence=0))
    world.clock.advance(5)
    again = world.partition.append(batch(producer_id=7, sequence=0))
    assert original.log_append_time == again.log_append_time == NOW_MS
    assert world.partition.append(batch(producer_id=7, sequence=1)).log_append_time == NOW_MS + 5000


# Leader epochs


@on_loop
async def test_the_leader_epoch_a_client_knows_is_checked(tmp_path: Path) -> None:
    world = PartitionWorld(tmp_path)
    world.partition.lead(LeaderEpoch(5))
    world.partition.check_leader_epoch(5)
    world.partition.check_leader_epoch(-1)
    with expect(ErrorCode.FENCED_LEADER_EPOCH):
        world.partition.check_leader_epoch(4)
    with expect(ErrorCode.UNKNOWN_LEADER_EPOCH):
        world.partition.check_leader_epoch(6)


@on_loop
async def test_batches_carry_the_epoch_they_were_appended_in(tmp_path: Path) -> None:
    world = PartitionWorld(tmp_path)
    world.partition.append(batch(b"a", b"b"))
    world.partition.lead(LeaderEpoch(3))
    world.partition.append(batch(b"c"))
    assert [(entry.epoch, entry.start_offset) for entry in world.log.epochs.entries] == [(0, 0), (3, 2)]
    assert world.log.end_offset_for_epoch(0) == (0, 2)
    assert world.log.end_offset_for_epoch(3) == (3, 3)


@on_loop
async def test_a_new_epoch_shows_nothing_that_is_not_synced(tmp_path: Path) -> None:
    world = PartitionWorld(tmp_path, SYNC_EACH, held=True)
    appended = world.partition.append(batch(b"a"))
    world.partition.lead(LeaderEpoch(1))
    assert world.partition.high_watermark == 0
    await settle()
    await world.background.finish_all()
    assert acknowledged(appended)
    assert world.partition.high_watermark == 1


@on_loop
async def test_after_a_restart_everything_that_is_left_is_committed(tmp_path: Path) -> None:
    world = PartitionWorld(tmp_path)
    world.partition.append(batch(b"a", b"b"))
    kill(world.directory)
    directory = open_directory(tmp_path, world.disk, world.clock)
    reopened = directory.logs[world.partition.topic_partition]
    partition = Partition(TOPIC_ID, reopened, settings(), world.clock, world.background)
    partition.lead(LeaderEpoch(1))
    assert partition.high_watermark == 2
    assert values(visible(partition)) == [b"a", b"b"]
    assert partition.append(batch(b"c")).base_offset == 2


@on_loop
async def test_after_a_crash_records_are_synced_before_they_show(tmp_path: Path) -> None:
    """All records, whether the killed process had shown them or not: the checkpoints do not tell."""
    world = PartitionWorld(tmp_path, SYNC_EACH, held=True)
    world.partition.append(batch(b"a", b"b"))
    kill(world.directory)
    directory = open_directory(tmp_path, world.disk, world.clock, SYNC_EACH)
    reopened = directory.logs[world.partition.topic_partition]
    background = ManualBackground(held=True)
    partition = Partition(TOPIC_ID, reopened, settings(SYNC_EACH), world.clock, background, 2)
    partition.lead(LeaderEpoch(1))
    assert (partition.high_watermark, visible(partition)) == (0, [])
    await settle()
    await background.finish_all()
    assert (partition.high_watermark, values(visible(partition))) == (2, [b"a", b"b"])
    assert reopened.recovery_point == 2


@on_loop
async def test_after_a_crash_a_follower_syncs_before_it_fetches(tmp_path: Path) -> None:
    """A fetch tells the leader that all records before its offset are stored, so they must survive a power loss."""
    world = PartitionWorld(tmp_path, SYNC_EACH, held=True)
    world.partition.append(batch(b"a"))
    kill(world.directory)
    directory = open_directory(tmp_path, world.disk, world.clock, SYNC_EACH)
    reopened = directory.logs[world.partition.topic_partition]
    background = ManualBackground(held=True)
    partition = Partition(TOPIC_ID, reopened, settings(SYNC_EACH), world.clock, background)
    partition.follow(LeaderEpoch(1))
    assert not partition.ready_to_fetch()
    await settle()
    await background.finish_all()
    assert partition.ready_to_fetch()


# flush.before.visible


@on_loop
async def test_records_show_when_enough_of_them_were_synced(tmp_path: Path) -> None:
    world = PartitionWorld(tmp_path, {**SYNC_FIRST, "flush.messages": "3", "flush.ms": "60000"}, held=True)
    first = world.partition.append(batch(b"1"), replication_timeout=None)
    assert first.wait is None, "acks=1 waits for the leader's page cache only"
    second = world.partition.append(batch(b"2"))
    assert not acknowledged(second), "acks=all waits until the record shows"
    await settle()
    assert (world.background.waiting, visible(world.partition)) == (0, [])
    third = world.partition.append(batch(b"3"), replication_timeout=None)
    await settle()
    assert (acknowledged(third), visible(world.partition)) == (False, [])
    await world.background.finish_one()
    assert (acknowledged(second), acknowledged(third)) == (True, True)
    assert values(visible(world.partition)) == [b"1", b"2", b"3"]


@on_loop
async def test_records_show_when_flush_ms_is_over(tmp_path: Path) -> None:
    world = PartitionWorld(tmp_path, {**SYNC_FIRST, "flush.ms": "1000"})
    appended = world.partition.append(batch(b"a"))
    woken = asyncio.Event()
    DataWaiter(world.clock, Wakeups(), [world.partition.waiters], 1, 60, woken.set)
    world.clock.advance(0.9)
    await settle()
    assert (acknowledged(appended), visible(world.partition), woken.is_set()) == (False, [], False)
    world.clock.advance(0.1)
    await settle()
    assert (acknowledged(appended), values(visible(world.partition)), woken.is_set()) == (True, [b"a"], True)


@on_loop
async def test_without_flush_ms_the_sync_starts_at_once(tmp_path: Path) -> None:
    """Otherwise the last records would never become visible."""
    world = PartitionWorld(tmp_path, {**SYNC_FIRST, "flush.messages": "3"}, held=True)
    world.partition.append(batch(b"a"), replication_timeout=None)
    await settle()
    assert (world.background.waiting, visible(world.partition)) == (1, [])
    await world.background.finish_all()
    assert values(visible(world.partition)) == [b"a"]


@on_loop
async def test_a_follower_syncs_each_fetch_before_the_next(tmp_path: Path) -> None:
    world = PartitionWorld(tmp_path, {**SYNC_FIRST, "flush.ms": "1000"}, held=True)
    world.partition.follow(LeaderEpoch(1))
    data = batch(b"a")
    stored = world.partition.append_from_leader(data, [header for _, header in iter_headers(data)], 0)
    await settle()
    assert stored is not None
    assert (stored.done(), world.partition.ready_to_fetch()) == (False, False)
    await world.background.finish_all()
    assert (stored.done(), world.partition.ready_to_fetch()) == (True, True)


@on_loop
async def test_the_setting_holds_for_records_that_wait_already(tmp_path: Path) -> None:
    world = PartitionWorld(tmp_path, {**SYNC_FIRST, "flush.ms": "60000"}, held=True)
    world.partition.append(batch(b"a"), replication_timeout=None)
    assert visible(world.partition) == []
    world.configure(flush_ms="60000")
    assert values(visible(world.partition)) == [b"a"]
    world.configure(flush_messages="1")
    assert values(visible(world.partition)) == [b"a"], "what was shown stays"
    await settle()
    assert world.background.waiting == 1, "and is synced now"
    world.partition.close()


# DeleteRecords


@on_loop
async def test_delete_records_moves_the_log_start(tmp_path: Path) -> None:
    world = PartitionWorld(tmp_path)
    for value in (b"0", b"1", b"2"):
        world.partition.append(batch(value))
    assert world.partition.delete_records_before(2) == 2
    assert world.partition.delete_records_before(1) == 2, "the start never goes back"
    assert values(visible(world.partition)) == [b"2"]
    with expect(ErrorCode.OFFSET_OUT_OF_RANGE):
        world.partition.read(1, 1000)
    assert world.partition.append(batch(b"3")).log_start_offset == 2
    assert world.partition.delete_records_before(-1) == 4
    assert visible(world.partition) == []


@pytest.mark.parametrize("offset", [-2, 2])
@on_loop
async def test_delete_records_stays_below_the_high_watermark(tmp_path: Path, offset: int) -> None:
    world = PartitionWorld(tmp_path, SYNC_EACH, held=True)
    world.partition.append(batch(b"0"))
    await settle()
    await world.background.finish_all()
    unsynced = world.partition.append(batch(b"1"))
    with expect(ErrorCode.OFFSET_OUT_OF_RANGE):
        world.partition.delete_records_before(offset)
    assert world.partition.delete_records_before(-1) == 1, "-1 means the high watermark, not the end"
    await settle()
    await world.background.finish_all()
    assert acknowledged(unsynced)
    assert values(visible(world.partition)) == [b"1"]


# Settings that change at run time


@on_loop
async def test_changed_settings_hold_from_the_next_append_on(tmp_path: Path) -> None:
    world = PartitionWorld(tmp_path)
    assert world.partition.append(batch(bytes(500))).wait is None
    world.configure(max_message_bytes="200")
    with expect(ErrorCode.MESSAGE_TOO_LARGE):
        world.partition.append(batch(bytes(500)))
    world.configure(flush_messages="1")
    appended = world.partition.append(batch(b"a"))
    assert appended.wait is not None
    await settle()
    assert acknowledged(appended)
    world.configure(message_timestamp_type="LogAppendTime")
    world.clock.advance(1)
    assert world.partition.append(batch(b"b")).log_append_time == NOW_MS + 1000
    assert world.log.config.flush_messages == settings().flush_messages


@on_loop
async def test_syncs_no_longer_asked_for_still_acknowledge_those_who_wait(tmp_path: Path) -> None:
    world = PartitionWorld(tmp_path, SYNC_EACH, held=True)
    waiting = world.partition.append(batch(b"a"))
    await settle()
    world.configure()
    assert world.partition.append(batch(b"b")).wait is None
    assert world.partition.high_watermark == 2
    await world.background.finish_all()
    assert acknowledged(waiting)
    assert world.partition.high_watermark == 2


@on_loop
async def test_a_shorter_flush_ms_holds_for_what_waits_already(tmp_path: Path) -> None:
    world = PartitionWorld(tmp_path, {"flush.ms": "3600000"})
    world.partition.append(batch(b"a"))
    world.configure(flush_ms="1000")
    world.clock.advance(1)
    await settle()
    assert world.log.recovery_point == 1
    assert world.clock.pending == 0


@on_loop
async def test_flush_ms_set_on_a_topic_with_unsynced_records(tmp_path: Path) -> None:
    world = PartitionWorld(tmp_path)
    world.partition.append(batch(b"a"))
    world.configure(flush_ms="1000")
    world.clock.advance(1)
    await settle()
    assert world.log.recovery_point == 1
    world.partition.append(batch(b"b"))
    world.configure()
    assert world.clock.pending == 0
