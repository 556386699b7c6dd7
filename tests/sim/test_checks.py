"""The checkers notice what they are there for."""

from ottla.model import TopicPartition
from sim.checks import check_commits, check_partition
from sim.history import History
from sim.inspection import Stored

PARTITION = TopicPartition("orders", 0)


def story(*values: str) -> History:
    history = History(sent={value.encode() for value in values})
    history.acknowledge(PARTITION, 0, [value.encode() for value in values])
    for offset, value in enumerate(values):
        history.see(PARTITION, offset, value.encode())
    return history


def stored(*values: str) -> list[Stored]:
    return [Stored(offset, value.encode(), 0) for offset, value in enumerate(values)]


def test_all_is_well() -> None:
    assert not list(check_partition(PARTITION, stored("p/0/0", "p/0/1"), story("p/0/0", "p/0/1")))


def test_what_was_acknowledged_or_seen_is_gone() -> None:
    broken = list(check_partition(PARTITION, stored("p/0/0"), story("p/0/0", "p/0/1")))
    assert [text.split(" was ")[0].split(" saw ")[0] for text in broken] == [
        "orders-0: b'p/0/1'",
        "orders-0: a consumer",
    ]


def test_a_record_is_there_twice() -> None:
    history = story("p/0/0")
    assert any("number 1" in text for text in check_partition(PARTITION, stored("p/0/0", "p/0/0"), history))


def test_records_have_changed_places() -> None:
    history = History(sent={b"p/0/0", b"p/0/1"})
    assert any("number 0" in text for text in check_partition(PARTITION, stored("p/0/1", "p/0/0"), history))


def test_a_record_that_nobody_sent() -> None:
    assert any("was never sent" in text for text in check_partition(PARTITION, stored("x/0/0"), History()))


def test_epochs_go_back() -> None:
    records = [Stored(0, b"p/0/0", 3), Stored(1, b"p/0/1", 2)]
    assert any("epoch 2" in text for text in check_partition(PARTITION, records, story("p/0/0", "p/0/1")))


def test_one_offset_is_told_of_two_records() -> None:
    history = story("p/0/0")
    history.acknowledge(PARTITION, 0, [b"q/0/0"])
    history.see(PARTITION, 0, b"q/0/0")
    assert len(history.violations) == 2


def test_a_commit_is_forgotten() -> None:
    history = History(committed=4, committing=5)
    assert not list(check_commits(history, 4))
    assert not list(check_commits(history, 5))
    assert list(check_commits(history, 3))
    assert list(check_commits(history, None))
