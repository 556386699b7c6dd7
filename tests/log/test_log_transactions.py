"""Transactions in a log: the records that `read_committed` consumers get, after rolls, crashes, truncation and
deletion."""

import struct

import pytest

from ottla.errors import ErrorCode, KafkaError
from ottla.log.config import LogConfig
from ottla.log.directory import LogDirectory
from ottla.log.log import Log
from ottla.records.builder import NewRecord, build_batch
from ottla.records.control import EndTransactionMarker, build_marker
from ottla.records.header import iter_headers, read_header
from tests.log.fault_disk import FaultDisk
from tests.log.test_power_loss import ContentsLost, Worst
from tests.log.world import (
    CLICKS,
    NOW_MS,
    TOPIC_ID,
    Batch,
    StillClock,
    append,
    append_in_transaction,
    batch,
    end_transaction,
    new_log,
    open_directory,
    read_all,
)

FIRST_INDEX = "/data/clicks-0/00000000000000000000.txnindex"


def interleaved() -> tuple[FaultDisk, LogDirectory, Log]:
    """Offsets 0-2 are of producer 1, aborted by marker 5 in another segment; 3 and 4 are of 2, committed by 6; 7 is
    open."""
    disk = FaultDisk()
    directory, log = new_log(disk)
    append_in_transaction(log, 1, 0, 3)
    append_in_transaction(log, 2, 0, 2)
    log.roll()
    end_transaction(log, 1, committed=False)
    end_transaction(log, 2, committed=True)
    append_in_transaction(log, 3, 0)
    return disk, directory, log


def reopened(disk: FaultDisk, config: LogConfig | None = None) -> Log:
    return open_directory(disk, config=config).logs[CLICKS]


def facts(log: Log) -> object:
    return (
        log.end_offset,
        log.last_stable_offset(log.end_offset),
        log.aborted_transactions(0, log.end_offset),
        sorted(
            (each.producer_id, each.epoch, each.last_sequence, each.coordinator_epoch, each.transaction_start)
            for each in log.producers.active()
        ),
    )


# The last stable offset


def test_the_last_stable_offset_is_the_high_watermark_without_transactions() -> None:
    _, log = new_log(FaultDisk())
    append(log, batch(5))
    append(log, batch(producer_id=1, producer_epoch=0, base_sequence=0))
    assert (log.first_unstable_offset(4), log.last_stable_offset(4)) == (None, 4)


def test_a_transaction_holds_the_last_stable_offset_until_its_marker_is_committed() -> None:
    _, log = new_log(FaultDisk())
    append(log)
    append_in_transaction(log, 1, 0, 2)
    append(log)
    assert log.last_stable_offset(1) == 1
    assert log.last_stable_offset(4) == 1
    assert end_transaction(log, 1, committed=True) == 4
    assert (log.first_unstable_offset(4), log.last_stable_offset(4)) == (1, 1)
    assert (log.first_unstable_offset(5), log.last_stable_offset(5)) == (None, 5)
    assert log.last_stable_offset(4) == 1, "the question changes nothing"


def test_the_marker_tells_the_log_what_was_committed_before() -> None:
    """A log drops ended transactions even if no consumer reads."""
    _, log = new_log(FaultDisk())
    for number in range(100):
        append_in_transaction(log, 1, number)
        end_transaction(log, 1, committed=True, high_watermark=log.end_offset)
    assert log.first_unstable_offset(0) == 198
    assert len(log.producers.transactions._completed) == 1


def test_the_log_start_is_stable() -> None:
    _, log = new_log(FaultDisk())
    append_in_transaction(log, 1, 0, 5)
    append(log)
    log.delete_records_before(3)
    assert (log.first_unstable_offset(6), log.last_stable_offset(6)) == (3, 3)


# Aborted transactions


def test_an_aborted_transaction_is_in_the_index_of_the_segment_in_which_it_ends() -> None:
    disk, _, log = interleaved()
    assert log.aborted_transactions(0, 6) == [(1, 0, 5, 3)]
    assert log.aborted_transactions(5, 6) == [(1, 0, 5, 3)]
    assert log.aborted_transactions(6, 7) == []
    assert [name for name in disk.list(log.path) if name.endswith(".txnindex")] == ["00000000000000000005.txnindex"]


def test_a_transaction_without_records_here_ends_nothing() -> None:
    disk = FaultDisk()
    _, log = new_log(disk)
    assert end_transaction(log, 1, committed=False) == 0
    assert (log.aborted_transactions(0, 1), log.last_stable_offset(1)) == ([], 1)
    assert not disk.exists(FIRST_INDEX)


def test_a_marker_that_is_refused_leaves_no_trace() -> None:
    _, _, log = interleaved()
    end_transaction(log, 3, committed=False, epoch=1, coordinator_epoch=4, version=2)
    append_in_transaction(log, 3, 0, epoch=1)
    before = facts(log)
    for epoch, coordinator_epoch, version, code in [
        (0, 4, 1, ErrorCode.INVALID_PRODUCER_EPOCH),
        (1, 4, 2, ErrorCode.INVALID_PRODUCER_EPOCH),
        (1, 3, 1, ErrorCode.TRANSACTION_COORDINATOR_FENCED),
    ]:
        with pytest.raises(KafkaError) as error:
            end_transaction(log, 3, committed=False, epoch=epoch, coordinator_epoch=coordinator_epoch, version=version)
        assert error.value.code == code
    assert facts(log) == before


def test_a_repeated_marker_is_appended_and_ends_nothing() -> None:
    _, _, log = interleaved()
    end_transaction(log, 3, committed=False, epoch=1, version=2)
    aborted = log.aborted_transactions(0, log.end_offset)
    end_transaction(log, 3, committed=False, epoch=1, version=2)
    assert log.end_offset == 10
    assert log.aborted_transactions(0, log.end_offset) == aborted
    assert log.last_stable_offset(10) == 10


def test_a_marker_has_the_leaders_epoch() -> None:
    _, log = new_log(FaultDisk())
    append(log)
    log.append_marker(EndTransactionMarker(1, 0, 0, committed=True), 5, NOW_MS, transaction_version=1, high_watermark=0)
    assert list(log.epochs.entries) == [(0, 0), (5, 1)]
    assert [header.partition_leader_epoch for _, header in iter_headers(read_all(log))] == [0, 5]


@pytest.mark.parametrize("room", [0, 20, 34, 100])
def test_a_full_disk_refuses_a_marker_whole(room: int) -> None:
    """The disk has no room for the index entry, for a part of it, or for the marker after it."""
    disk, _, log = interleaved()
    before = facts(log)
    disk.room = room
    with pytest.raises(OSError, match="No space left"):
        end_transaction(log, 3, committed=False)
    disk.room = None
    assert facts(log) == before
    assert end_transaction(log, 3, committed=False) == 8
    assert log.aborted_transactions(6, 9) == [(3, 7, 8, 9)]
    after = facts(log)
    disk.kill()
    assert facts(reopened(disk)) == after


def test_what_a_full_disk_left_in_the_index_is_cut_off_by_a_clean_stop() -> None:
    disk, directory, log = interleaved()
    before = facts(log)
    disk.room = 40
    with pytest.raises(OSError, match="No space left"):
        end_transaction(log, 3, committed=False)
    disk.room = None
    directory.close()
    assert disk.size("/data/clicks-0/00000000000000000005.txnindex") == 34
    assert facts(reopened(disk)) == before


# Stops and crashes


def test_a_clean_stop_keeps_everything() -> None:
    disk, directory, log = interleaved()
    before = facts(log)
    directory.close()
    assert facts(reopened(disk)) == before


@pytest.mark.parametrize("aborted", [True, False])
def test_a_clean_stop_of_a_log_that_was_synced_before_survives_a_power_loss(aborted: bool) -> None:
    """The snapshot and the transaction index are new names in the directory since then."""
    disk = FaultDisk()
    directory, log = new_log(disk)
    append_in_transaction(log, 1, 0)
    append_in_transaction(log, 2, 0)
    log.synced(log.sync())
    if aborted:
        end_transaction(log, 1, committed=False)
    else:
        append(log)
    before = facts(log)
    directory.close()
    disk.lose_power(Worst())
    log = reopened(disk)
    assert log.recovery_point == log.end_offset, "no recovery was needed"
    assert facts(log) == before


@pytest.mark.parametrize("stale", [None, b"", b"garbage", bytes(34 * 3)])
def test_a_crash_has_the_index_written_anew(stale: bytes | None) -> None:
    disk, _, log = interleaved()
    before = facts(log)
    disk.kill()
    path = "/data/clicks-0/00000000000000000005.txnindex"
    if stale is None:
        disk.remove(path)
    else:
        disk.replace_bytes(path, stale)
        disk.replace_bytes(FIRST_INDEX, stale)
    assert facts(reopened(disk)) == before
    assert not disk.exists(FIRST_INDEX)
    assert disk.size(path) == 34


@pytest.mark.parametrize("how", [Worst(), ContentsLost()])
def test_rolled_segments_have_their_index_on_disk_before_the_recovery_point_passes_them(how: Worst) -> None:
    disk = FaultDisk()
    directory, log = new_log(disk)
    log.synced(log.sync())
    append_in_transaction(log, 1, 0)
    end_transaction(log, 1, committed=False)
    log.roll()
    append(log)
    log.synced(log.sync())
    directory.checkpoint_recovery_points()
    log.roll()
    disk.lose_power(how)
    assert reopened(disk).aborted_transactions(0, 3) == [(1, 0, 1, 2)]


def test_a_crash_in_a_transaction_that_spans_segments() -> None:
    """The check begins in the second segment. The transaction begins in the first, and only the snapshot has it."""
    disk = FaultDisk()
    directory, log = new_log(disk)
    append_in_transaction(log, 1, 0)
    log.roll()
    append_in_transaction(log, 1, 1)
    log.synced(log.sync())
    directory.checkpoint_recovery_points()
    end_transaction(log, 1, committed=False)
    log.roll()
    append_in_transaction(log, 1, 2)
    before = facts(log)
    disk.kill()
    disk.remove("/data/clicks-0/00000000000000000001.snapshot")
    log = reopened(disk)
    assert facts(log) == before
    assert log.snapshots.offsets == (3,)


def test_a_snapshot_from_before_a_crash_is_not_believed() -> None:
    """The snapshot may have a transaction in records that were lost and replaced. Its end would never come."""
    disk = FaultDisk()
    _, log = new_log(disk)
    append(log)
    log.synced(log.sync())
    append_in_transaction(log, 1, 0)
    log.roll()
    stale = disk.read_bytes("/data/clicks-0/00000000000000000002.snapshot")
    log.truncate_to(1)
    append(log)
    append(log)
    disk.replace_bytes("/data/clicks-0/00000000000000000002.snapshot", stale)
    disk.kill()
    log = reopened(disk)
    assert (log.end_offset, log.last_stable_offset(3)) == (3, 3)
    log.truncate_to(2)
    assert (log.end_offset, log.last_stable_offset(2)) == (2, 2)


def test_an_open_transaction_whose_first_records_are_deleted_is_still_open_after_a_crash() -> None:
    disk = FaultDisk()
    directory, log = new_log(disk)
    append(log)
    append_in_transaction(log, 1, 0, 5)
    log.delete_records_before(3)
    directory.checkpoint_log_start_offsets()
    disk.kill()
    log = reopened(disk)
    assert log.log_start_offset == 3
    assert log.last_stable_offset(6) == 3


def test_producers_in_a_transaction_do_not_expire_while_the_broker_is_down() -> None:
    disk, clock = FaultDisk(), StillClock()
    directory, log = new_log(disk, clock)
    append_in_transaction(log, 1, 0)
    append(log, batch(producer_id=2, producer_epoch=0, base_sequence=0))
    directory.close()
    clock.now_ms += 10 * 86_400_000
    log = open_directory(disk, clock).logs[CLICKS]
    assert [producer.producer_id for producer in log.producers.active()] == [1]
    assert log.last_stable_offset(2) == 0


def test_a_duplicate_in_a_transaction_is_known_after_a_restart() -> None:
    disk = FaultDisk()
    directory, log = new_log(disk)
    for sequence in range(3):
        append_in_transaction(log, 1, sequence)
    directory.close()
    log = reopened(disk)
    assert append_in_transaction(log, 1, 0).duplicate
    assert log.last_stable_offset(3) == 0
    assert append_in_transaction(log, 1, 3) == (3, 3, False)


def test_a_damaged_index_is_rebuilt(caplog: pytest.LogCaptureFixture) -> None:
    disk, directory, log = interleaved()
    before = facts(log)
    directory.close()
    path = "/data/clicks-0/00000000000000000005.txnindex"
    disk.replace_bytes(path, b"\7" * 34)
    log = reopened(disk)
    assert facts(log) == before
    assert "rebuilding the index" in caplog.text
    assert end_transaction(log, 3, committed=False) == 8
    assert log.aborted_transactions(0, 9) == [(1, 0, 5, 3), (3, 7, 8, 9)]


@pytest.mark.parametrize("action", ["append", "truncate"])
def test_a_damaged_index_is_rebuilt_before_it_changes(action: str) -> None:
    disk, directory, log = interleaved()
    end_transaction(log, 3, committed=False)
    directory.close()
    disk.replace_bytes("/data/clicks-0/00000000000000000005.txnindex", b"\7" * 68)
    log = reopened(disk)
    if action == "truncate":
        log.truncate_to(8)
        assert log.aborted_transactions(0, 8) == [(1, 0, 5, 3)]
    else:
        append_in_transaction(log, 3, 1)
        end_transaction(log, 3, committed=False)
        assert log.aborted_transactions(0, 11) == [(1, 0, 5, 3), (3, 7, 8, 9), (3, 9, 10, 11)]


# Truncation


def test_truncation_opens_what_a_marker_had_ended() -> None:
    disk, _, log = interleaved()
    log.truncate_to(6)
    assert log.aborted_transactions(0, 6) == [(1, 0, 5, 3)]
    assert log.last_stable_offset(6) == 3
    log.truncate_to(5)
    assert log.aborted_transactions(0, 5) == []
    assert log.last_stable_offset(5) == 0
    assert not disk.exists("/data/clicks-0/00000000000000000005.txnindex")
    end_transaction(log, 1, committed=True)
    assert (log.aborted_transactions(0, 6), log.last_stable_offset(6)) == ([], 3)


def test_truncation_leaves_a_transaction_open_whose_first_records_are_deleted() -> None:
    _, log = new_log(FaultDisk())
    append_in_transaction(log, 1, 0, 5)
    append(log)
    log.delete_records_before(3)
    log.truncate_to(5)
    assert (log.end_offset, log.last_stable_offset(5)) == (5, 3)


def test_truncation_of_everything_forgets_all_transactions() -> None:
    _, _, log = interleaved()
    log.truncate_fully(100)
    assert (log.first_unstable_offset(100), log.aborted_transactions(0, 100)) == (None, [])


# Deletion


def test_an_index_goes_with_its_segment() -> None:
    disk = FaultDisk()
    directory, log = new_log(disk)
    append_in_transaction(log, 1, 0)
    end_transaction(log, 1, committed=False)
    log.roll()
    append(log)
    log.delete_records_before(2)
    assert disk.exists(FIRST_INDEX + ".deleted")
    assert not disk.exists(FIRST_INDEX)
    assert log.aborted_transactions(2, 3) == []
    directory.close()
    disk.replace_bytes(FIRST_INDEX, bytes(34))
    reopened(disk)
    assert not disk.exists(FIRST_INDEX), "nor may an index without a log stay"


def test_segments_of_an_open_transaction_may_be_deleted() -> None:
    """As in Kafka. The transaction is still open, and unstable from the log start on."""
    _, log = new_log(FaultDisk())
    append_in_transaction(log, 1, 0)
    log.roll()
    append_in_transaction(log, 1, 1)
    assert log.retain(NOW_MS + 8 * 86_400_000, 1) == 1
    assert (log.log_start_offset, log.last_stable_offset(2)) == (1, 1)


@pytest.mark.parametrize("clean", [True, False])
def test_the_end_offset_outlives_the_marker_that_holds_it(clean: bool) -> None:
    disk = FaultDisk()
    directory, log = new_log(disk)
    append_in_transaction(log, 1, 0)
    end_transaction(log, 1, committed=True)
    assert log.retain(NOW_MS + 8 * 86_400_000, 2) == 1
    assert (log.log_start_offset, log.end_offset) == (2, 2)
    if clean:
        directory.close()
    else:
        disk.kill()
    log = reopened(disk)
    assert (log.log_start_offset, log.end_offset, log.last_stable_offset(2)) == (2, 2, 2)


# Followers


def replicate(leader: Log, follower: Log) -> None:
    data = read_all(leader, follower.end_offset)
    follower.append_as_follower(memoryview(bytearray(data)), [header for _, header in iter_headers(data)])


def test_a_follower_knows_what_its_leader_knows() -> None:
    _, _, leader = interleaved()
    _, follower = new_log(FaultDisk())
    replicate(leader, follower)
    assert facts(follower) == facts(leader)
    end_transaction(leader, 3, committed=False, epoch=1, version=2)
    replicate(leader, follower)
    assert facts(follower) == facts(leader)
    assert read_all(follower) == read_all(leader)


def test_a_follower_forgets_what_is_committed() -> None:
    _, _, leader = interleaved()
    _, follower = new_log(FaultDisk())
    replicate(leader, follower)
    assert follower.first_unstable_offset(0) == 0
    follower.append_as_follower(memoryview(b""), [], 8)
    assert follower.first_unstable_offset(0) == 7


def test_a_follower_takes_older_epochs_as_they_come() -> None:
    """The leader has decided: its log has the batches in this order."""
    _, follower = new_log(FaultDisk())
    for offset, (epoch, coordinator_epoch) in enumerate([(5, 7), (4, 6)]):
        data = build_marker(EndTransactionMarker(1, epoch, coordinator_epoch, committed=True), NOW_MS)
        header = read_header(data)._replace(base_offset=offset, partition_leader_epoch=0)
        follower.append_as_follower(memoryview(data), [header])
    (producer,) = follower.producers.active()
    assert (producer.epoch, producer.coordinator_epoch) == (4, 6)


def control(key: bytes, value: bytes = b"", producer_id: int = 1) -> Batch:
    data = build_batch(
        [NewRecord(key, value, (), NOW_MS)],
        producer_id=producer_id,
        producer_epoch=0,
        transactional=producer_id >= 0,
        control=True,
    )
    return Batch(memoryview(data), read_header(data))


def test_other_control_batches_are_stored_and_mean_nothing() -> None:
    disk = FaultDisk()
    _, log = new_log(disk)
    for offset, item in enumerate([control(struct.pack(">hh", 0, 9)), control(struct.pack(">hh", 0, 2), b"", -1)]):
        log.append_as_follower(item.view, [item.header._replace(base_offset=offset)])
    assert (log.end_offset, log.producers.active()) == (2, [])


def test_a_marker_that_cannot_be_read_is_refused_from_a_leader_and_passed_over_on_disk(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = FaultDisk()
    directory = open_directory(disk)
    log = directory.create_log(CLICKS, TOPIC_ID, LogConfig())
    item = control(struct.pack(">hh", 0, 1), b"short")
    with pytest.raises(KafkaError) as error:
        log.append_as_follower(item.view, [item.header])
    assert error.value.code == ErrorCode.CORRUPT_MESSAGE
    assert log.end_offset == 0
    append(log)
    disk.kill()
    disk.open(f"{log.path}/00000000000000000000.log").write(item.view, 0)
    log = reopened(disk)
    assert (log.end_offset, log.producers.active()) == (1, [])
    assert "is ignored" in caplog.text
