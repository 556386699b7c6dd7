"""The checkers of transactions notice what they are there for."""

from ottla.model import TopicPartition
from ottla.records.builder import NewRecord, build_batch
from ottla.records.control import EndTransactionMarker, build_marker
from sim.transaction_checks import (
    Fate,
    Transaction,
    check_copies,
    check_reader,
    check_transactions,
    committed_records,
)

COPIES = [TopicPartition("copies", index) for index in (0, 1)]
SOURCE = TopicPartition("orders", 0)


def transaction(fate: Fate) -> Transaction:
    return Transaction("member0/1", {0: [b"member0/1/0/0"], 1: [b"member0/1/0/1"]}, fate)


def committed(*partitions: list[bytes]) -> dict[TopicPartition, dict[int, bytes]]:
    return {place: dict(enumerate(values)) for place, values in zip(COPIES, partitions, strict=True)}


BOTH = committed([b"member0/1/0/0"], [b"member0/1/0/1"])
HALF = committed([b"member0/1/0/0"], [])
NONE = committed([], [])


def test_all_is_well() -> None:
    assert not list(check_transactions([transaction(Fate.COMMITTED)], BOTH))
    assert not list(check_transactions([transaction(Fate.UNKNOWN)], BOTH))
    assert not list(check_transactions([transaction(Fate.UNKNOWN)], NONE))
    assert not list(check_transactions([transaction(Fate.NOTHING)], NONE))
    assert not list(check_copies(BOTH, {SOURCE: 2}))


def test_half_of_a_transaction_counts() -> None:
    for fate in Fate:
        assert len(list(check_transactions([transaction(fate)], HALF))) == 1


def test_what_was_committed_is_not_there() -> None:
    assert "is missing" in next(check_transactions([transaction(Fate.COMMITTED)], NONE))


def test_what_nobody_wanted_committed_is_there() -> None:
    assert "was not requested" in next(check_transactions([transaction(Fate.NOTHING)], BOTH))


def test_a_record_is_copied_twice_or_not_at_all_or_was_never_there() -> None:
    twice = committed([b"member0/1/0/0", b"member1/9/0/0"], [b"member0/1/0/1"])
    assert "at 0 has 2 copies" in next(check_copies(twice, {SOURCE: 2}))
    assert "at 2 has 0 copies" in next(check_copies(BOTH, {SOURCE: 3}))
    assert "which has no such record" in next(check_copies(BOTH, {SOURCE: 1}))


def test_a_reader_sees_too_much_or_too_little() -> None:
    assert not list(check_reader({0: b"a"}, {0: b"a"}, COPIES[0]))
    assert "saw b'a', committed was None" in next(check_reader({0: b"a"}, {}, COPIES[0]))
    assert "saw None, committed was b'a'" in next(check_reader({}, {0: b"a"}, COPIES[0]))


def test_markers_decide_what_counts() -> None:
    def batch(offset: int, producer: int) -> bytearray:
        record = NewRecord(None, b"%d" % offset, timestamp=1)
        return build_batch(
            [record],
            base_offset=offset,
            producer_id=producer,
            producer_epoch=0,
            base_sequence=0,
            transactional=True,
        )

    ends = [build_marker(EndTransactionMarker(producer, 0, 0, committed=producer == 1), 1) for producer in (1, 2)]
    found, undecided = committed_records(b"".join([batch(0, 1), batch(1, 2), batch(2, 3), *ends]))
    assert found == {0: b"0"}
    assert undecided == {3: [2]}
