"""The checker finds violations, and only violations."""

import pytest

from tests.nemesis.history import Fate, History, Transaction, judge

FOUND = {0: [(0, b"a"), (1, b"b"), (3, b"c")], 1: [(0, b"x"), (1, b"y")]}


def history() -> History:
    """The replies to clients of a cluster without faults."""
    told = History()
    told.acknowledged = {b"a": (0, 0), b"b": (0, 1), b"c": (0, 3)}
    told.sent["writer/0"] = [b"a", b"b", b"never acknowledged", b"c"]
    told.transactions = [
        Transaction((b"x", b"y"), Fate.COMMITTED),
        Transaction((b"v", b"w"), Fate.ABORTED),
        Transaction((b"t", b"u"), Fate.UNKNOWN),
    ]
    told.consumed = {(0, 0): b"a", (0, 1): b"b"}
    told.leaders[0, 1] = {1}
    told.leaders[0, 2] = {2}
    return told


def test_nothing_is_wrong() -> None:
    assert judge(history(), FOUND) == []


def test_a_transaction_nobody_knows_of_may_be_there_as_a_whole() -> None:
    assert judge(history(), {**FOUND, 2: [(0, b"t"), (1, b"u")]}) == []


@pytest.mark.parametrize(
    "found, finding",
    [
        ({0: FOUND[0][:2], 1: FOUND[1]}, "1 records acknowledged and lost: c"),
        ({0: [(0, b"a"), (1, b"b"), (2, b"c")], 1: FOUND[1]}, "1 records acknowledged and lost: c"),
        ({**FOUND, 2: [(0, b"b")]}, "1 records twice: b"),
        ({**FOUND, 1: [(0, b"x")]}, "1 records of half a transaction: y"),
        ({**FOUND, 2: [(0, b"v")]}, "1 records of half a transaction: v"),
        ({**FOUND, 2: [(0, b"t")]}, "1 records of half a transaction: t"),
    ],
)
def test_what_is_there_is_not_what_was_told(found: dict[int, list[tuple[int, bytes]]], finding: str) -> None:
    assert finding in judge(history(), found)


def test_order_is_kept_for_each_producer() -> None:
    told = history()
    told.sent["writer/0"] = [b"b", b"a", b"c"]
    assert judge(told, FOUND) == ["1 records out of order: a"]


def test_what_was_read_stays() -> None:
    told = history()
    told.consumed[0, 2] = b"gone"
    assert judge(told, FOUND) == ["1 records read by the group, and later not there: gone"]


def test_an_epoch_has_one_leader() -> None:
    told = history()
    told.leaders[0, 2] = {2, 3}
    assert judge(told, FOUND) == ["partition 0 had the leaders [2, 3] in epoch 2"]


def test_what_clients_noticed_counts() -> None:
    told = history()
    told.findings.append("the group's offset went back")
    assert judge(told, FOUND) == ["the group's offset went back"]
