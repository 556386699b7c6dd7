from hypothesis import given
from hypothesis import strategies as st

from ottla.log.transactions import OpenTransactions


def test_nothing_is_unstable_at_first() -> None:
    transactions = OpenTransactions()
    assert transactions.all_stable
    assert transactions.first_unstable() is None


def test_a_transaction_is_unstable_until_its_marker_is_replicated() -> None:
    transactions = OpenTransactions()
    transactions.begin(10, 1)
    assert transactions.first_unstable() == 10
    transactions.end(10, 14)
    transactions.replicated(14)
    assert transactions.first_unstable() == 10
    transactions.replicated(15)
    assert transactions.first_unstable() is None
    assert transactions.all_stable


def test_the_first_of_those_that_are_open_counts() -> None:
    transactions = OpenTransactions()
    transactions.begin(10, 1)
    transactions.begin(12, 2)
    transactions.end(10, 14)
    transactions.replicated(15)
    assert transactions.first_unstable() == 12


def test_what_is_stable_after_a_marker() -> None:
    transactions = OpenTransactions()
    transactions.begin(10, 1)
    assert transactions.stable_after(1, 13) == 14
    transactions.begin(12, 2)
    assert transactions.stable_after(1, 13) == 12
    assert transactions.stable_after(2, 13) == 10


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 12)), max_size=80))
def test_against_a_list_of_all_transactions(steps: list[tuple[int, int]]) -> None:
    transactions = OpenTransactions()
    begun: dict[int, int] = {}
    ended: list[tuple[int, int]] = []
    high_watermark = 0
    for offset, (producer_id, lag) in enumerate(steps):
        if producer_id in begun:
            ended.append((begun[producer_id], offset))
            transactions.end(begun.pop(producer_id), offset)
        else:
            begun[producer_id] = offset
            transactions.begin(offset, producer_id)
        high_watermark = max(high_watermark, offset + 1 - lag)
        unstable = [*begun.values(), *(first for first, last in ended if last >= high_watermark)]
        assert transactions.first_unstable(high_watermark) == min(unstable, default=None)
        transactions.replicated(high_watermark)
        assert transactions.first_unstable() == min(unstable, default=None)
