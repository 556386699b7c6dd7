"""Which batches were aborted, and which markers compaction may remove."""

from ottla.log.cleaned_transactions import CleanedTransactions
from ottla.log.transaction_index import AbortedTransaction
from ottla.records.control import EndTransactionMarker, build_marker
from ottla.records.header import BatchHeader, read_header
from tests.log.world import batch


def records(producer_id: int, offset: int, *, transactional: bool = True) -> BatchHeader:
    return batch(
        producer_id=producer_id, producer_epoch=0, base_sequence=0, base_offset=offset, transactional=transactional
    ).header


class Log:
    """Replays a log and records the result of each step."""

    def __init__(self, *aborted: tuple[int, int, int]) -> None:
        self.transactions = CleanedTransactions(AbortedTransaction(*entry, entry[2] + 1) for entry in aborted)

    def is_aborted(self, producer_id: int, offset: int, *, transactional: bool = True) -> bool:
        return self.transactions.is_aborted(records(producer_id, offset, transactional=transactional))

    def marks_nothing(self, producer_id: int, offset: int, *, committed: bool) -> bool:
        marker = EndTransactionMarker(producer_id, 0, 0, committed)
        header = read_header(build_marker(marker, 0))._replace(base_offset=offset)
        return self.transactions.marks_nothing(header, marker)

    @property
    def kept(self) -> list[tuple[int, int]]:
        return [(entry.producer_id, entry.last_offset) for entry in self.transactions.kept]


def test_a_marker_is_needed_as_long_as_there_is_a_batch() -> None:
    log = Log((1, 0, 5))
    assert log.is_aborted(1, 0)
    assert not log.is_aborted(2, 1)
    assert not log.marks_nothing(2, 3, committed=True)
    assert log.is_aborted(1, 4)
    assert not log.marks_nothing(1, 5, committed=False)
    assert log.kept == [(1, 5)]


def test_a_marker_without_batches_marks_nothing() -> None:
    log = Log((1, 0, 5))
    assert log.marks_nothing(1, 5, committed=False)
    assert log.marks_nothing(2, 6, committed=True)
    assert log.kept == []


def test_transactions_of_one_producer_follow_each_other() -> None:
    log = Log((1, 0, 1), (1, 4, 6))
    assert log.is_aborted(1, 0)
    assert not log.marks_nothing(1, 1, committed=False)
    assert not log.is_aborted(1, 2)
    assert not log.marks_nothing(1, 3, committed=True)
    assert log.is_aborted(1, 4)
    assert not log.marks_nothing(1, 6, committed=False)
    assert log.marks_nothing(1, 7, committed=True), "it came a second time"
    assert log.kept == [(1, 1), (1, 6)]


def test_what_is_not_in_a_transaction_is_not_aborted() -> None:
    log = Log((1, 0, 5))
    assert not log.is_aborted(1, 0, transactional=False)
    assert log.marks_nothing(1, 5, committed=False)


def test_a_control_batch_that_is_empty_or_of_another_kind() -> None:
    log = Log()
    control = read_header(build_marker(EndTransactionMarker(1, 0, 0, True), 0))
    assert log.transactions.marks_nothing(control._replace(record_count=0), None)
    assert not log.transactions.marks_nothing(control, None)
