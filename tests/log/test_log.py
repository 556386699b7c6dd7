"""One partition's log: append, read, roll, delete, sync."""

import errno

import pytest

from ottla.errors import ErrorCode, KafkaError
from ottla.log.config import LogConfig
from ottla.log.log import Log
from ottla.log.segment import Segment
from ottla.log.segments import Segments
from ottla.records.header import read_header
from tests.log.fault_disk import FaultDisk, FaultFile
from tests.log.world import NOW_MS, Batch, StillClock, append, batch, content, new_log, open_directory, read_all

BATCH = len(batch().view)


def a_log(config: LogConfig | None = None, disk: FaultDisk | None = None, clock: StillClock | None = None) -> Log:
    return new_log(disk or FaultDisk(), clock, config=config)[1]


def bases(log: Log) -> list[int]:
    return [segment.base_offset for segment in log.segments()]


# Appending


def test_offsets_and_epoch_are_set_in_place() -> None:
    log = a_log()
    append(log, batch(3))
    item = batch(2)
    assert append(log, item, leader_epoch=4) == (3, 4, False)
    stored = read_header(item.view)
    assert (stored.base_offset, stored.partition_leader_epoch) == (3, 4)
    assert content(log.read(3, 1000, 5)) == bytes(item.view)
    assert log.end_offset == 5


def test_followers_keep_offsets_and_epochs() -> None:
    log = a_log()
    item = batch(2, base_offset=10, leader_epoch=3)
    log.append_as_follower(item.view, [item.header])
    assert (log.end_offset, log.latest_epoch) == (12, 3)
    assert content(log.read(0, 1000, 12)) == bytes(item.view)
    again = batch(2, base_offset=11, leader_epoch=3)
    with pytest.raises(KafkaError, match="cannot follow"):
        log.append_as_follower(again.view, [again.header])
    assert log.end_offset == 12


def test_a_duplicate_is_answered_with_the_original() -> None:
    log = a_log()
    append(log, batch(4))
    first = batch(2, producer_id=9, producer_epoch=0, base_sequence=0, timestamp=NOW_MS + 5)
    append(log, first)
    append(log, batch(1, producer_id=9, producer_epoch=0, base_sequence=2))
    again = batch(2, producer_id=9, producer_epoch=0, base_sequence=0, timestamp=NOW_MS + 5)
    assert append(log, again) == (4, 5, True)
    assert log.end_offset == 7
    with pytest.raises(KafkaError) as error:
        append(log, batch(1, producer_id=9, producer_epoch=0, base_sequence=4))
    assert error.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.end_offset == 7


# Rolling


def test_a_full_segment_is_rolled() -> None:
    log = a_log(LogConfig(segment_bytes=3 * BATCH))
    for _ in range(7):
        append(log)
    assert bases(log) == [0, 3, 6]
    assert log.size() == 7 * BATCH


def test_a_batch_larger_than_a_segment_has_one_of_its_own() -> None:
    log = a_log(LogConfig(segment_bytes=BATCH))
    append(log, batch(size=500))
    append(log, batch(size=500))
    assert bases(log) == [0, 1]


def test_time_rolls_by_the_first_batch() -> None:
    log = a_log(LogConfig(segment_ms=1000))
    append(log, batch(timestamp=NOW_MS))
    append(log, batch(timestamp=NOW_MS + 1000))
    append(log, batch(timestamp=NOW_MS - 10**9))
    assert bases(log) == [0]
    append(log, batch(timestamp=NOW_MS + 1001))
    assert bases(log) == [0, 3]
    append(log, batch(timestamp=NOW_MS + 2001))
    assert bases(log) == [0, 3]


def test_without_timestamps_the_clock_rolls() -> None:
    clock = StillClock()
    log = a_log(LogConfig(segment_ms=1000), clock=clock)
    append(log, batch(timestamp=-1))
    clock.now_ms += 1000
    append(log, batch(timestamp=-1))
    assert bases(log) == [0]
    clock.now_ms += 1
    append(log, batch(timestamp=-1))
    assert bases(log) == [0, 2]


def test_jitter_rolls_earlier_by_less_than_its_limit() -> None:
    log = a_log(LogConfig(segment_ms=1000, segment_jitter_ms=300))
    append(log, batch(timestamp=NOW_MS))
    append(log, batch(timestamp=NOW_MS + 700))
    assert bases(log) == [0]
    append(log, batch(timestamp=NOW_MS + 1001))
    assert bases(log) == [0, 2]


def test_a_full_index_rolls() -> None:
    log = a_log(LogConfig(index_interval_bytes=0, segment_index_bytes=36))
    for _ in range(7):
        append(log)
    assert bases(log) == [0, 5]  # Four entries of 8 bytes fit, for all batches but the first.


def test_offsets_that_do_not_fit_roll() -> None:
    log = a_log()
    append(log)
    last = batch(2, base_offset=2**31 - 2, leader_epoch=0)
    log.append_as_follower(last.view, [last.header])
    assert bases(log) == [0]
    beyond = batch(1, base_offset=2**31, leader_epoch=0)
    log.append_as_follower(beyond.view, [beyond.header])
    assert bases(log) == [0, 2**31]
    far = batch(1, base_offset=2**40, leader_epoch=0)
    log.append_as_follower(far.view, [far.header])
    assert bases(log) == [0, 2**31, 2**40]
    assert content(log.read(2**31 + 1, 1000, log.end_offset)) == bytes(far.view)


def test_an_empty_segment_gives_way_to_one_that_can_hold_the_offset() -> None:
    log = a_log()
    far = batch(1, base_offset=2**40, leader_epoch=0)
    log.append_as_follower(far.view, [far.header])
    assert bases(log) == [2**40]


def test_rolling_an_empty_segment_does_nothing() -> None:
    log = a_log()
    log.roll()
    append(log)
    log.roll()
    log.roll()
    assert bases(log) == [0, 1]


def test_settings_change_while_the_log_is_open() -> None:
    log = a_log()
    append(log)
    log.config = LogConfig(segment_bytes=BATCH)
    append(log)
    assert bases(log) == [0, 1]


# Reading


def reads_of(log: Log, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The size and position of every read of a file from now on."""
    reads: list[tuple[int, int]] = []
    read = FaultFile.read

    def counted(file: FaultFile, size: int, position: int) -> bytes:
        reads.append((size, position))
        return read(file, size, position)

    monkeypatch.setattr(FaultFile, "read", counted)
    return reads


def test_a_reader_that_goes_on_pays_no_search(monkeypatch: pytest.MonkeyPatch) -> None:
    log = a_log(LogConfig(index_interval_bytes=BATCH))
    for _ in range(100):
        append(log)
    offset = log.read(0, 10 * BATCH, log.end_offset).next_offset
    reads = reads_of(log, monkeypatch)
    read = log.read(offset, 1 << 20, log.end_offset)
    assert (read.position, read.size, read.next_offset) == (10 * BATCH, 90 * BATCH, 100)
    append(log)
    tail = log.read(100, 1 << 20, log.end_offset)
    assert (tail.position, tail.size) == (100 * BATCH, BATCH)
    assert reads == []


def test_several_readers_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    log = a_log()
    for _ in range(200):
        append(log)
    offsets = [log.read(start, 3 * BATCH, log.end_offset).next_offset for start in range(0, 140, 10)]
    reads = reads_of(log, monkeypatch)
    for offset in offsets:
        assert log.read(offset, 1 << 20, log.end_offset).position == offset * BATCH
    assert reads == []


def test_a_follower_at_the_end_and_a_consumer_at_the_high_watermark_pay_no_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = a_log()
    append(log)
    follower = log.read(0, 1 << 20, log.end_offset).next_offset
    consumer = log.read(0, 1 << 20, follower).next_offset
    reads = reads_of(log, monkeypatch)
    for _ in range(50):
        append(log)
        append(log)
        high_watermark = follower
        follower = log.read(follower, 1 << 20, log.end_offset).next_offset
        if consumer < high_watermark:
            consumer = log.read(consumer, 1 << 20, high_watermark).next_offset
        assert consumer == high_watermark
    assert reads == []


def test_a_read_that_its_size_has_ended_is_remembered_while_the_log_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    log = a_log()
    for _ in range(10):
        append(log)
    first = log.read(2, 3 * BATCH, log.end_offset)
    reads = reads_of(log, monkeypatch)
    append(log)
    assert log.read(2, 3 * BATCH, log.end_offset) == first
    assert reads == []


def test_a_remembered_read_stays_below_a_lower_limit_and_grows_with_a_higher_one() -> None:
    log = a_log()
    for _ in range(10):
        append(log)
    assert log.read(2, 3 * BATCH, 10).next_offset == 5
    assert log.read(2, 3 * BATCH, 4).next_offset == 4
    assert log.read(2, 3 * BATCH, 10).next_offset == 5
    append(log)
    assert log.read(9, 3 * BATCH, 10).next_offset == 10
    assert log.read(9, 3 * BATCH, 11).next_offset == 11


def test_a_read_stays_below_its_limit() -> None:
    log = a_log()
    for _ in range(3):
        append(log, batch(4))
    size = len(batch(4).view)
    for limit, batches in [(0, 0), (1, 0), (3, 0), (4, 1), (7, 1), (8, 2), (12, 3), (99, 3)]:
        assert log.read(0, 1 << 20, limit).size == batches * size


def test_a_read_goes_to_the_end_of_its_segment() -> None:
    log = a_log(LogConfig(segment_bytes=2 * BATCH))
    for _ in range(5):
        append(log)
    assert [log.read(offset, 1 << 20, 5).next_offset for offset in range(5)] == [2, 2, 4, 4, 5]
    assert log.read(5, 1 << 20, 5) == (None, 0, 0, 5)


def test_an_empty_log_has_nothing_to_read() -> None:
    log = a_log()
    assert log.read(0, 100, 0).file is None
    for offset in (-1, 1):
        with pytest.raises(KafkaError) as error:
            log.read(offset, 100, 0)
        assert error.value.code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_the_largest_timestamp_is_that_of_the_first_record_that_has_it() -> None:
    log = a_log(LogConfig(segment_bytes=200))
    assert log.max_timestamp() is None
    append(log, batch([NOW_MS, NOW_MS + 9, NOW_MS + 9, NOW_MS + 1]))
    append(log, batch([NOW_MS + 3] * 4))
    append(log, batch([NOW_MS + 9]))
    assert log.max_timestamp() == (1, NOW_MS + 9, 0)


def test_times_are_found_in_the_segment_that_has_them() -> None:
    log = a_log(LogConfig(segment_bytes=2 * BATCH))
    for number in range(6):
        append(log, batch(timestamp=NOW_MS + 10 * number), leader_epoch=number // 2)
    assert log.offset_for_timestamp(NOW_MS + 31) == (4, NOW_MS + 40, 2)
    assert log.offset_for_timestamp(0) == (0, NOW_MS, 0)
    assert log.offset_for_timestamp(NOW_MS + 51) is None
    log.delete_records_before(3)
    assert log.offset_for_timestamp(0) == (3, NOW_MS + 30, 1)


def test_a_damaged_batch_is_an_error_where_it_is_and_nowhere_else() -> None:
    disk = FaultDisk()
    log = a_log(LogConfig(segment_bytes=10 * BATCH, index_interval_bytes=BATCH), disk)
    for _ in range(20):
        append(log)
    disk.open(f"{log.path}/{0:020d}.log").write(b"\xff" * 20, 5 * BATCH)
    with pytest.raises(KafkaError) as error:
        log.read(5, 1, 20)
    assert error.value.code == ErrorCode.CORRUPT_MESSAGE
    for offset in (0, 4, 8, 15):
        assert read_header(content(log.read(offset, 1, 20))).base_offset == offset


# Deletion


def test_old_segments_are_retained_no_longer() -> None:
    disk, clock = FaultDisk(), StillClock()
    directory, log = new_log(disk, clock, config=LogConfig(segment_bytes=2 * BATCH, retention_ms=1000))
    for number in range(6):
        append(log, batch(timestamp=NOW_MS + number * 100))
    assert log.retain(NOW_MS + 1100, log.end_offset) == 0
    assert log.retain(NOW_MS + 1101, log.end_offset) == 1
    assert (log.log_start_offset, bases(log)) == (2, [2, 4])
    assert [name for name in disk.list(log.path) if name.endswith(".deleted")] == [
        f"{0:020d}{suffix}.deleted" for suffix in (".index", ".log", ".timeindex")
    ]
    assert directory.trash.sweep() == 0
    clock.now_ms += 60_000
    assert directory.trash.sweep() == 3
    assert not [name for name in disk.list(log.path) if name.endswith(".deleted")]


def test_all_segments_may_go_and_the_log_goes_on() -> None:
    log = a_log(LogConfig(retention_ms=1000))
    for _ in range(3):
        append(log)
    assert log.retain(NOW_MS + 2000, log.end_offset) == 1
    assert (log.log_start_offset, log.end_offset, bases(log), log.size()) == (3, 3, [3], 0)
    assert append(log).base_offset == 3
    assert log.retain(NOW_MS + 2000, 3) == 0


def test_size_is_retained() -> None:
    log = a_log(LogConfig(segment_bytes=2 * BATCH, retention_ms=-1, retention_bytes=3 * BATCH))
    for _ in range(8):
        append(log)
    assert log.retain(NOW_MS, log.end_offset) == 2
    assert (log.log_start_offset, log.size()) == (4, 4 * BATCH)


def test_deleted_records_are_out_of_range() -> None:
    log = a_log(LogConfig(segment_bytes=2 * BATCH))
    for number in range(6):
        append(log, leader_epoch=number // 3)
    log.delete_records_before(3)
    assert (log.log_start_offset, bases(log)) == (3, [2, 4])
    with pytest.raises(KafkaError):
        log.read(2, 100, 6)
    assert log.read(3, 1, 6).size == BATCH
    assert list(log.epochs.entries) == [(1, 3)]
    log.delete_records_before(1)
    assert log.log_start_offset == 3
    with pytest.raises(KafkaError) as error:
        log.delete_records_before(7)
    assert error.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
    log.delete_records_before(6)
    assert (log.log_start_offset, bases(log)) == (6, [4])
    assert append(log).base_offset == 6


# Truncation


def test_a_truncated_log_goes_on_where_it_ends() -> None:
    log = a_log(LogConfig(segment_bytes=2 * BATCH))
    for number in range(7):
        append(log, leader_epoch=number // 2)
    log.truncate_to(3)
    assert (log.end_offset, bases(log), list(log.epochs.entries)) == (3, [0, 2], [(0, 0), (1, 2)])
    new = batch(size=20)
    append(log, new, leader_epoch=5)
    assert content(log.read(3, 100, 4)) == bytes(new.view)
    log.truncate_to(99)
    assert log.end_offset == 4
    log.truncate_to(0)
    assert (log.end_offset, log.log_start_offset, bases(log)) == (0, 0, [0])


def test_readers_are_forgotten_when_the_log_is_cut() -> None:
    log = a_log()
    for _ in range(6):
        append(log)
    assert log.read(0, 5 * BATCH, 6).next_offset == 5
    log.truncate_to(2)
    sizes = [append(log, batch(size=30)) and len(batch(size=30).view) for _ in range(4)]
    read = log.read(5, 1, 6)
    assert (read.position, read.size) == (2 * BATCH + 3 * sizes[0], sizes[0])


def test_a_remembered_read_is_forgotten_when_the_log_is_cut() -> None:
    log = a_log()
    for _ in range(6):
        append(log)
    assert log.read(1, 2 * BATCH, 6).size == 2 * BATCH
    log.truncate_to(2)
    for _ in range(4):
        append(log, batch(size=30))
    assert log.read(1, 2 * BATCH, 6).size == BATCH


def test_a_batch_goes_as_a_whole() -> None:
    log = a_log()
    append(log, batch(2))
    append(log, batch(5))
    log.truncate_to(4)
    assert log.end_offset == 2


def test_truncation_takes_producers_back() -> None:
    log = a_log(LogConfig(segment_bytes=300))
    for number in range(8):
        append(log, batch(producer_id=1, producer_epoch=0, base_sequence=number))
    log.truncate_to(5)
    with pytest.raises(KafkaError):
        append(log, batch(producer_id=1, producer_epoch=0, base_sequence=8))
    assert append(log, batch(producer_id=1, producer_epoch=0, base_sequence=5)).base_offset == 5
    assert append(log, batch(producer_id=1, producer_epoch=0, base_sequence=4)).duplicate


def test_a_follower_starts_over() -> None:
    log = a_log()
    for _ in range(3):
        append(log, batch(producer_id=1, producer_epoch=0, base_sequence=log.end_offset))
    log.truncate_fully(100)
    assert (log.log_start_offset, log.end_offset, bases(log), log.latest_epoch) == (100, 100, [100], -1)
    assert len(log.producers) == 0
    item = batch(base_offset=100, leader_epoch=7)
    log.append_as_follower(item.view, [item.header])
    assert content(log.read(100, 1000, 101)) == bytes(item.view)


def test_a_follower_that_finds_no_room_to_start_over_tries_again() -> None:
    disk = FaultDisk()
    log = a_log(disk=disk)
    for _ in range(3):
        append(log, batch())

    disk.room = 0
    with pytest.raises(OSError, match="No space left"):
        log.truncate_to(0)
    disk.room = None
    log.truncate_to(0)
    assert (log.log_start_offset, log.end_offset, bases(log)) == (0, 0, [0])
    item = batch(base_offset=0, leader_epoch=7)
    log.append_as_follower(item.view, [item.header])
    assert content(log.read(0, 1000, 1)) == bytes(item.view)


def test_where_epochs_ended() -> None:
    log = a_log()
    append(log, leader_epoch=1)
    append(log, leader_epoch=3)
    append(log, leader_epoch=3)
    log.assign_epoch(4, log.end_offset)
    assert [log.end_offset_for_epoch(epoch) for epoch in (1, 2, 3, 4, 5)] == [(1, 1), (1, 1), (3, 3), (4, 3), (-1, -1)]


# Durability


def test_a_sync_covers_what_was_there_when_it_began(monkeypatch: pytest.MonkeyPatch) -> None:
    log = a_log(LogConfig(segment_bytes=2 * BATCH))
    append(log)
    sync = FaultFile.sync
    meanwhile: list[Batch] = [batch() for _ in range(4)]

    def slow(file: FaultFile) -> None:
        while meanwhile:
            append(log, meanwhile.pop())
        sync(file)

    monkeypatch.setattr(FaultFile, "sync", slow)
    covered = log.sync()
    assert covered == 1
    log.synced(covered)
    assert (log.recovery_point, log.end_offset, log.unflushed_messages) == (1, 5, 4)
    assert log.sync_due  # Segments were rolled while the sync ran.
    log.synced(log.sync())
    assert (log.recovery_point, log.unflushed_messages, log.sync_due) == (5, 0, False)


def test_a_sync_that_a_truncation_overtakes_vouches_for_less(monkeypatch: pytest.MonkeyPatch) -> None:
    log = a_log()
    for _ in range(5):
        append(log)
    sync = FaultFile.sync
    done: list[bool] = []

    def overtaken(file: FaultFile) -> None:
        sync(file)
        if not done:
            done.append(True)
            log.truncate_to(2)
            append(log)
            append(log)

    monkeypatch.setattr(FaultFile, "sync", overtaken)
    log.synced(log.sync())
    assert (log.end_offset, log.recovery_point) == (4, 2)


def test_rolled_segments_are_synced_with_their_indexes() -> None:
    disk = FaultDisk()
    log = a_log(LogConfig(segment_bytes=2 * BATCH, index_interval_bytes=BATCH // 2), disk)
    for _ in range(5):
        append(log)
    assert log.sync_due
    log.synced(log.sync())
    for name in disk.list(log.path):
        if name[:20] in (f"{0:020d}", f"{2:020d}") and not name.endswith(".snapshot"):
            assert disk._node(f"{log.path}/{name}").durable == disk.read_bytes(f"{log.path}/{name}") != b""


def test_a_sync_in_the_middle_of_a_roll_misses_no_segment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread may run at any point of a roll: here just before and just after the new segment becomes active."""
    disk = FaultDisk()
    log = a_log(LogConfig(segment_bytes=2 * BATCH), disk)
    add = Segments.add
    covered: list[int] = []

    def interrupted(segments: Segments, segment: Segment) -> None:
        covered.append(log.sync())
        add(segments, segment)
        covered.append(log.sync())

    for _ in range(2):
        append(log)
    monkeypatch.setattr(Segments, "add", interrupted)
    log.roll()
    assert covered == [2, 2]
    monkeypatch.undo()
    log.synced(covered[1])
    assert (log.recovery_point, log.sync_due) == (2, False)
    for suffix in (".log", ".index", ".timeindex"):
        path = f"{log.path}/{0:020d}{suffix}"
        assert disk._node(path).durable == disk.read_bytes(path)


def test_a_sync_that_meets_the_deletion_of_its_partition_ends_quietly(monkeypatch: pytest.MonkeyPatch) -> None:
    directory, log = new_log(FaultDisk())
    append(log)
    sync = FaultFile.sync

    def deleted_meanwhile(file: FaultFile) -> None:
        sync(file)
        directory.logs.pop(log.topic_partition, None)
        log.close(clean=False)
        directory._storage.disk.remove_tree(log.path)

    monkeypatch.setattr(FaultFile, "sync", deleted_meanwhile)
    assert log.sync() == 1


def test_when_a_sync_is_due() -> None:
    clock = StillClock()
    log = a_log(LogConfig(flush_messages=3, flush_ms=5000), clock=clock)
    append(log, batch(2))
    assert not log.sync_due
    append(log)
    assert log.sync_due
    log.synced(log.sync())
    assert not log.sync_due
    append(log)
    clock.now_ms += 4999
    assert not log.sync_due
    clock.now_ms += 1
    assert log.sync_due
    log.synced(log.sync())
    clock.now_ms += 10_000
    assert not log.sync_due


def test_a_failed_sync_moves_nothing() -> None:
    disk = FaultDisk()
    log = a_log(disk=disk)
    append(log)
    disk.sync_fails = True
    with pytest.raises(OSError, match="Input/output"):
        log.sync()
    assert log.recovery_point == 0


def test_deleted_records_are_not_waiting_to_be_synced() -> None:
    log = a_log()
    append(log, batch(4))
    log.delete_records_before(3)
    assert log.unflushed_messages == 1


def test_appends_of_a_producer_survive_a_clean_stop() -> None:
    """The batches that a snapshot lacks are read from the log."""
    disk = FaultDisk()
    directory, log = new_log(disk)
    for number in range(7):
        append(log, batch(2, producer_id=1, producer_epoch=0, base_sequence=2 * number))
    directory.close()
    log = open_directory(disk).logs[log.topic_partition]
    for number in range(2, 7):
        result = append(log, batch(2, producer_id=1, producer_epoch=0, base_sequence=2 * number))
        assert (result.duplicate, result.base_offset) == (True, 2 * number)
    with pytest.raises(KafkaError) as error:
        append(log, batch(2, producer_id=1, producer_epoch=0, base_sequence=2))
    assert error.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert append(log, batch(2, producer_id=1, producer_epoch=0, base_sequence=14)).base_offset == 14


def test_a_segment_that_cannot_be_renamed_stays_in_the_log_and_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = FaultDisk()
    log = a_log(disk=disk, config=LogConfig(retention_bytes=0))
    for _ in range(3):
        append(log)
        log.roll()
    rename = disk.rename

    def failing(old: str, new: str) -> None:
        if old.endswith("00000000000000000001.log"):
            raise OSError(errno.EIO, "Input/output error")
        rename(old, new)

    monkeypatch.setattr(disk, "rename", failing)
    with pytest.raises(OSError, match="Input/output"):
        log.retain(NOW_MS, log.end_offset)
    assert (log.log_start_offset, [segment.base_offset for segment in log.segments()]) == (1, [1, 2, 3])
    assert read_all(log, 1)
    monkeypatch.undo()
    assert log.retain(NOW_MS, log.end_offset) == 2
    assert (log.log_start_offset, [segment.base_offset for segment in log.segments()]) == (3, [3])


def test_an_index_that_cannot_be_renamed_does_not_keep_its_segment(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    disk = FaultDisk()
    log = a_log(disk=disk, config=LogConfig(retention_bytes=0, index_interval_bytes=0))
    for _ in range(3):
        append(log)
    log.roll()
    rename = disk.rename

    def failing(old: str, new: str) -> None:
        if old.endswith(".index"):
            raise OSError(errno.EIO, "Input/output error")
        rename(old, new)

    monkeypatch.setattr(disk, "rename", failing)
    assert log.retain(NOW_MS, log.end_offset) == 1
    assert log.log_start_offset == 3
    assert "stays until the next start" in caplog.text
