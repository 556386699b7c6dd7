import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import ErrorCode, KafkaError
from ottla.log.producers import REMEMBERED_BATCHES, AppendedBatch, Producers
from ottla.log.verification import VerificationGuard
from ottla.records.control import EndTransactionMarker
from ottla.records.format import MAX_SEQUENCE, TRANSACTIONAL_FLAG
from ottla.records.header import BatchHeader
from tests.log.world import NOW_MS, batch

DAY_MS = 86_400_000


def header(sequence: int, count: int = 1, *, epoch: int = 0, producer_id: int = 7, at: int = NOW_MS) -> BatchHeader:
    item = batch(count, producer_id=producer_id, producer_epoch=epoch, base_sequence=0, timestamp=at)
    return item.header._replace(base_sequence=sequence)


def append(producers: Producers, item: BatchHeader, offset: int) -> AppendedBatch | None:
    duplicate = check(producers, item)
    if duplicate is None:
        producers.update(item, offset)
    return duplicate


def check(producers: Producers, item: BatchHeader, guard: VerificationGuard | None = None) -> AppendedBatch | None:
    return producers.check_in_transaction(item, guard, False) if item.is_transactional else producers.check(item)


def refusal(producers: Producers, item: BatchHeader) -> ErrorCode:
    with pytest.raises(KafkaError) as error:
        check(producers, item)
    return error.value.code


def test_sequences_follow_each_other() -> None:
    producers = Producers(DAY_MS)
    assert append(producers, header(0, 3), 0) is None
    assert append(producers, header(3, 2), 3) is None
    assert refusal(producers, header(6)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refusal(producers, header(4)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert append(producers, header(5), 5) is None


def test_an_unknown_producer_may_begin_anywhere() -> None:
    producers = Producers(DAY_MS)
    assert append(producers, header(1000), 0) is None
    assert append(producers, header(1001), 1) is None


def test_the_last_five_batches_are_known_again() -> None:
    producers = Producers(DAY_MS)
    for number in range(6):
        append(producers, header(number * 2, 2, at=NOW_MS + number), 100 + number * 2)
    for number in range(1, 6):
        original = producers.check(header(number * 2, 2))
        assert original == (number * 2 + 1, 101 + number * 2, 1, NOW_MS + number)
        assert (original.first_offset, original.first_sequence) == (100 + number * 2, number * 2)
    assert refusal(producers, header(0, 2)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_batch_of_another_size_is_no_duplicate() -> None:
    producers = Producers(DAY_MS)
    append(producers, header(0, 3), 0)
    assert refusal(producers, header(0, 2)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refusal(producers, header(1, 2)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_an_older_epoch_is_refused() -> None:
    producers = Producers(DAY_MS)
    append(producers, header(0, epoch=3), 0)
    assert refusal(producers, header(1, epoch=2)) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_newer_epoch_begins_at_zero() -> None:
    producers = Producers(DAY_MS)
    append(producers, header(0, epoch=3), 0)
    assert refusal(producers, header(1, epoch=4)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert append(producers, header(0, epoch=4), 1) is None
    assert append(producers, header(1, epoch=4), 2) is None
    assert [batch.last_offset for batch in producers.active()[0].batches] == [1, 2]
    assert refusal(producers, header(1, epoch=3)) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_sequences_wrap_between_batches() -> None:
    producers = Producers(DAY_MS)
    append(producers, header(MAX_SEQUENCE - 1, 2), 0)
    assert append(producers, header(0, 2), 2) is None
    assert producers.check(header(MAX_SEQUENCE - 1, 2)) == (MAX_SEQUENCE, 1, 1, NOW_MS)


def test_sequences_wrap_within_a_batch() -> None:
    producers = Producers(DAY_MS)
    append(producers, header(MAX_SEQUENCE, 3), 0)
    original = producers.check(header(MAX_SEQUENCE, 3))
    assert original is not None
    assert (original.first_sequence, original.last_sequence) == (MAX_SEQUENCE, 1)
    assert refusal(producers, header(3)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert append(producers, header(2), 3) is None


def test_a_check_changes_nothing() -> None:
    producers = Producers(DAY_MS)
    producers.check(header(0))
    assert producers.active() == []
    append(producers, header(0), 0)
    producers.check(header(1))
    assert producers.active()[0].next_sequence == 1


def test_producers_do_not_mix() -> None:
    producers = Producers(DAY_MS)
    append(producers, header(0, producer_id=1), 0)
    append(producers, header(50, producer_id=2), 1)
    assert append(producers, header(1, producer_id=1), 2) is None
    assert append(producers, header(51, producer_id=2), 3) is None


def test_idle_producers_expire() -> None:
    producers = Producers(DAY_MS)
    append(producers, header(0, producer_id=1, at=NOW_MS), 0)
    append(producers, header(0, producer_id=2, at=NOW_MS + 1), 1)
    assert producers.expire(NOW_MS + DAY_MS - 1) == 0
    assert producers.expire(NOW_MS + DAY_MS) == 1
    assert [producer.producer_id for producer in producers.active()] == [2]


def test_batches_without_a_producer_are_let_through() -> None:
    assert Producers(DAY_MS).check(batch().header) is None


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 6)), max_size=60))
def test_whatever_is_sent_again_every_record_is_appended_once(steps: list[tuple[int, int]]) -> None:
    """A producer with up to five batches in flight that sends some of them again, in order, before it continues."""
    producers = Producers(DAY_MS)
    sent: list[BatchHeader] = []
    offsets: list[int] = []
    sequence = offset = 0
    for count, again in steps:
        sent.append(header(sequence, count))
        offsets.append(offset)
        sequence += count
        assert append(producers, sent[-1], offset) is None
        offset += count
        retried = min(again, REMEMBERED_BATCHES, len(sent))
        for item, original in zip(sent[len(sent) - retried :], offsets[len(sent) - retried :], strict=True):
            duplicate = append(producers, item, offset)
            assert duplicate is not None
            assert duplicate.first_offset == original


def test_recalled_batches_complete_what_a_snapshot_told() -> None:
    told = Producers(DAY_MS)
    live = Producers(DAY_MS)
    items = [header(number)._replace(base_offset=10 + number) for number in range(4)]
    for item in items:
        live.update(item, item.base_offset)
    last = live.active()[0]
    del last.batches[:-1]
    told.replace([last], NOW_MS)
    assert told.abridged
    assert refusal(told, header(1)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    told.recall([*items, header(5, producer_id=99)])
    assert not told.abridged
    assert told.check(header(1)) == (1, 11, 0, NOW_MS)
    assert [producer.producer_id for producer in told.active()] == [7]


def test_a_producer_whose_batches_are_not_found_is_kept() -> None:
    told = Producers(DAY_MS)
    live = Producers(DAY_MS)
    live.update(header(4), 10)
    told.replace(live.active(), NOW_MS)
    told.recall([])
    assert told.check(header(4)) == (4, 10, 0, NOW_MS)


# Transactions


def transactional(sequence: int, count: int = 1, *, epoch: int = 0, producer_id: int = 7) -> BatchHeader:
    return header(sequence, count, epoch=epoch, producer_id=producer_id)._replace(attributes=TRANSACTIONAL_FLAG)


def append_verified(
    producers: Producers, item: BatchHeader, offset: int, *, bump: bool = False
) -> AppendedBatch | None:
    guard = producers.begin_verification(
        item.producer_id, item.base_sequence, item.producer_epoch, supports_epoch_bump=bump, now_ms=NOW_MS
    )
    duplicate = check(producers, item, guard)
    if duplicate is None:
        producers.update(item, offset)
    return duplicate


def marker(*, epoch: int = 0, coordinator_epoch: int = 0, committed: bool = True) -> EndTransactionMarker:
    return EndTransactionMarker(7, epoch, coordinator_epoch, committed)


def marker_refusal(producers: Producers, item: EndTransactionMarker, version: int) -> ErrorCode | None:
    try:
        producers.check_marker(item, version)
    except KafkaError as error:
        return error.code
    return None


def test_a_transaction_begins_with_its_first_batch_and_ends_with_a_marker() -> None:
    producers = Producers(DAY_MS)
    append_verified(producers, transactional(0, 2), 10)
    assert producers.check_in_transaction(transactional(2), None, False) is None
    append(producers, transactional(2), 12)
    (producer,) = producers.active()
    assert (producer.transaction_start, producers.transactions.first_unstable()) == (10, 10)
    producers.end_transaction(marker(coordinator_epoch=3), 13, NOW_MS + 5)
    assert (producer.transaction_start, producer.coordinator_epoch, producer.last_timestamp) == (-1, 3, NOW_MS + 5)
    assert producer.next_sequence == 3


def test_the_first_batch_needs_a_guard() -> None:
    producers = Producers(DAY_MS)
    assert refusal(producers, transactional(0)) == ErrorCode.INVALID_TXN_STATE
    append_verified(producers, transactional(0), 10)
    producers.end_transaction(marker(), 11, NOW_MS)
    assert refusal(producers, transactional(1)) == ErrorCode.INVALID_TXN_STATE
    assert producers.check_in_transaction(transactional(0), None, False) == (0, 10, 0, NOW_MS), (
        "a duplicate is one also after the transaction"
    )


def test_a_marker_makes_guards_worthless() -> None:
    producers = Producers(DAY_MS)
    guard = producers.begin_verification(7, 0, 0, supports_epoch_bump=False, now_ms=NOW_MS)
    producers.end_transaction(marker(committed=False), 10, NOW_MS)
    with pytest.raises(KafkaError) as error:
        producers.check_in_transaction(transactional(0), guard, False)
    assert error.value.code == ErrorCode.INVALID_TXN_STATE


def test_an_open_transaction_is_not_verified_again() -> None:
    producers = Producers(DAY_MS)
    append_verified(producers, transactional(0), 10)
    assert producers.begin_verification(7, 1, 0, supports_epoch_bump=True, now_ms=NOW_MS) is None
    assert producers.begin_verification(7, 0, 1, supports_epoch_bump=True, now_ms=NOW_MS) is not None


def test_older_epochs_are_not_verified() -> None:
    producers = Producers(DAY_MS)
    append_verified(producers, transactional(0, epoch=2), 10)
    with pytest.raises(KafkaError) as error:
        producers.begin_verification(7, 0, 1, supports_epoch_bump=True, now_ms=NOW_MS)
    assert error.value.code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert refusal(producers, transactional(0, epoch=1)) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_sequences_within_a_transaction() -> None:
    producers = Producers(DAY_MS)
    append_verified(producers, transactional(0, 3), 10)
    assert refusal(producers, transactional(4)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert producers.check_in_transaction(transactional(0, 3), None, False) == (2, 12, 2, NOW_MS)


def test_a_new_client_begins_at_zero_where_nothing_is_known_of_it() -> None:
    producers = Producers(DAY_MS)
    with pytest.raises(KafkaError) as error:
        append_verified(producers, transactional(5), 0, bump=True)
    assert error.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    producers = Producers(DAY_MS)
    assert append_verified(producers, transactional(5), 0) is None, "an old client may begin anywhere"


def test_a_producer_in_a_transaction_writes_nothing_else() -> None:
    producers = Producers(DAY_MS)
    append_verified(producers, transactional(0), 10)
    assert refusal(producers, header(1)) == ErrorCode.INVALID_TXN_STATE
    assert refusal(producers, header(0, epoch=1)) == ErrorCode.INVALID_TXN_STATE
    assert refusal(producers, header(5)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    producers.end_transaction(marker(), 11, NOW_MS)
    assert producers.check(header(1)) is None


def test_offsets_of_a_group_coordinator_have_no_sequence() -> None:
    producers = Producers(DAY_MS)
    append_verified(producers, transactional(0), 10)
    for offset in (11, 12):
        assert producers.check_in_transaction(transactional(0), None, from_coordinator=True) is None
        producers.update(transactional(0), offset)
    producers.end_transaction(marker(), 13, NOW_MS)
    with pytest.raises(KafkaError) as error:
        producers.check_in_transaction(transactional(0), None, from_coordinator=True)
    assert error.value.code == ErrorCode.INVALID_TXN_STATE


def test_a_marker_of_version_2_brings_a_new_epoch() -> None:
    producers = Producers(DAY_MS)
    append_verified(producers, transactional(0, 4), 10)
    producers.end_transaction(marker(epoch=1), 14, NOW_MS)
    (producer,) = producers.active()
    assert (producer.epoch, producer.next_sequence, producer.last_sequence) == (1, 0, -1)
    assert refusal(producers, transactional(4)) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert append_verified(producers, transactional(0, epoch=1), 15, bump=True) is None


def test_a_marker_tells_of_a_producer_that_was_not_known() -> None:
    producers = Producers(DAY_MS)
    assert marker_refusal(producers, marker(epoch=3), 2) is None
    producers.end_transaction(marker(epoch=3, coordinator_epoch=9), 0, NOW_MS)
    (producer,) = producers.active()
    assert (producer.epoch, producer.coordinator_epoch, producer.batches) == (3, 9, [])
    assert refusal(producers, header(1, epoch=3)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.mark.parametrize("version", [0, 1, 2])
def test_markers_of_older_epochs_are_refused(version: int) -> None:
    producers = Producers(DAY_MS)
    append_verified(producers, transactional(0, epoch=2), 0)
    assert marker_refusal(producers, marker(epoch=1), version) == ErrorCode.INVALID_PRODUCER_EPOCH
    producers.end_transaction(marker(epoch=3, coordinator_epoch=5), 1, NOW_MS)
    fenced = marker_refusal(producers, marker(epoch=4, coordinator_epoch=4), version)
    assert fenced == ErrorCode.TRANSACTION_COORDINATOR_FENCED
    older = marker(epoch=2, coordinator_epoch=4)
    assert marker_refusal(producers, older, version) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_the_epoch_of_a_marker_depends_on_the_version() -> None:
    """Before version 2 a marker had the epoch of the records. Since then, such a marker belongs to an earlier
    transaction."""
    producers = Producers(DAY_MS)
    append_verified(producers, transactional(0), 0)
    assert marker_refusal(producers, marker(), 1) is None
    assert marker_refusal(producers, marker(), 2) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert marker_refusal(producers, marker(epoch=1), 2) is None


@pytest.mark.parametrize("version", [1, 2])
def test_a_marker_may_come_again(version: int) -> None:
    producers = Producers(DAY_MS)
    append_verified(producers, transactional(0), 0)
    last = marker(epoch=version - 1, committed=False)
    producers.end_transaction(last, 1, NOW_MS)
    assert marker_refusal(producers, last, version) is None
    assert producers.aborted_by(last, 2) is None
    producers.end_transaction(last, 2, NOW_MS)
    assert producers.active()[0].transaction_start == -1


def test_what_a_marker_aborts() -> None:
    producers = Producers(DAY_MS)
    append_verified(producers, transactional(0), 10)
    append_verified(producers, transactional(0, producer_id=8), 11)
    assert producers.aborted_by(marker(committed=True), 12) is None
    assert producers.aborted_by(marker(committed=False), 12) == (7, 10, 12, 11)
    assert producers.aborted_by(EndTransactionMarker(8, 0, 0, committed=False), 12) == (8, 11, 12, 10)
    assert producers.aborted_by(EndTransactionMarker(9, 0, 0, committed=False), 12) is None


def test_a_producer_whose_transaction_is_open_does_not_expire() -> None:
    producers = Producers(DAY_MS)
    append_verified(producers, transactional(0), 10)
    later = NOW_MS + 10 * DAY_MS
    assert producers.expire(later) == 0
    producers.replace(producers.active(), later)
    assert producers.transactions.first_unstable() == 10
    producers.end_transaction(marker(), 11, NOW_MS)
    assert producers.expire(later) == 1


def test_recalled_batches_leave_transactions_alone() -> None:
    live = Producers(DAY_MS)
    items = [transactional(number)._replace(base_offset=10 + number) for number in range(3)]
    for item in items:
        live.update(item, item.base_offset)
    (producer,) = live.active()
    del producer.batches[:-1]
    producer.coordinator_epoch = 4
    told = Producers(DAY_MS)
    told.replace([producer], NOW_MS)
    told.recall([*items, header(-1)._replace(attributes=0x30, base_offset=13)])
    assert check(told, transactional(0)) == (0, 10, 0, NOW_MS)
    assert (producer.transaction_start, producer.coordinator_epoch) == (10, 4)
    assert told.transactions.first_unstable() == 10


def test_batches_before_a_new_epoch_are_not_recalled() -> None:
    live = Producers(DAY_MS)
    live.update(transactional(0), 10)
    live.end_transaction(marker(epoch=1), 11, NOW_MS)
    told = Producers(DAY_MS)
    told.replace(live.active(), NOW_MS)
    told.recall([transactional(0)._replace(base_offset=10)])
    assert told.active()[0].batches == []
    assert append_verified(told, transactional(0, epoch=1), 12) is None
