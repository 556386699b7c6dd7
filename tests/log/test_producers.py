import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import ErrorCode, KafkaError
from ottla.log.producers import REMEMBERED_BATCHES, AppendedBatch, Producers
from ottla.records.format import MAX_SEQUENCE
from ottla.records.header import BatchHeader
from tests.log.world import NOW_MS, batch

DAY_MS = 86_400_000


def header(sequence: int, count: int = 1, *, epoch: int = 0, producer_id: int = 7, at: int = NOW_MS) -> BatchHeader:
    item = batch(count, producer_id=producer_id, producer_epoch=epoch, base_sequence=0, timestamp=at)
    return item.header._replace(base_sequence=sequence)


def append(producers: Producers, item: BatchHeader, offset: int) -> AppendedBatch | None:
    duplicate = producers.check(item)
    if duplicate is None:
        producers.update(item, offset)
    return duplicate


def refusal(producers: Producers, item: BatchHeader) -> ErrorCode:
    with pytest.raises(KafkaError) as error:
        producers.check(item)
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


def test_batches_without_a_producer_and_control_batches_are_let_through() -> None:
    producers = Producers(DAY_MS)
    marker = header(-1)._replace(attributes=0x30)
    assert producers.check(batch().header) is None
    assert producers.check(marker) is None
    producers.update(marker, 0)
    assert producers.active() == []


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 6)), max_size=60))
def test_whatever_is_sent_again_every_record_is_appended_once(steps: list[tuple[int, int]]) -> None:
    """A producer with up to five batches in flight that sends some of them again, in order, before it goes on."""
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
