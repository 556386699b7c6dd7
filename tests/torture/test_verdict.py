"""The verdict finds and names every kind of wrong copy."""

import pytest

from tests.torture.verdict import Partitions, Record, contained, exactly_once

SOURCE = {0: [Record(n, b"k%d" % (n % 3), b"0/%d" % n) for n in range(6)], 1: [Record(0, b"x", b"1/0")]}


def copy_of(values: list[int]) -> Partitions:
    """Partition 0 of a copy, with gaps in the offsets at markers."""
    return {0: [Record(2 * at, SOURCE[0][n].key, SOURCE[0][n].value) for at, n in enumerate(values)], 1: SOURCE[1]}


def test_an_exact_copy_is_found_exact() -> None:
    assert exactly_once(SOURCE, copy_of([0, 1, 2, 3, 4, 5])) == []


@pytest.mark.parametrize(
    ("values", "finding"),
    [
        ([0, 1, 3, 4, 5], "partition 0: 1 missing: '0/2' at offset 2"),
        ([0, 1, 2, 3, 4], "partition 0: 1 missing: '0/5' at offset 5"),
        ([0, 1, 1, 2, 3, 4, 5], "partition 0: 2 more than once: '0/1' at offset 2, '0/1' at offset 4"),
        ([0, 1, 3, 2, 4, 5], "partition 0: 1 out of order: '0/2' at offset 6"),
        ([], "partition 0: 6 missing: '0/0' at offset 0, '0/1' at offset 1, '0/2' at offset 2, ..."),
    ],
    ids=["gap", "no end", "duplicate", "order", "empty"],
)
def test_a_wrong_copy_is_found_wrong(values: list[int], finding: str) -> None:
    assert exactly_once(SOURCE, copy_of(values)) == [finding]


def test_a_duplicate_of_a_whole_transaction_is_also_out_of_order() -> None:
    findings = exactly_once(SOURCE, copy_of([0, 1, 2, 1, 2, 3, 4, 5]))
    assert [finding.split(":")[1] for finding in findings] == [" 4 more than once", " 1 out of order"]


def test_records_from_elsewhere_are_found() -> None:
    stranger = Record(12, b"x", b"1/0")
    copy = {**copy_of([0, 1, 2, 3, 4]), 0: [*copy_of([0, 1, 2, 3, 4, 5])[0], stranger]}
    assert exactly_once(SOURCE, copy) == ["partition 0: 1 not in the input: '1/0' at offset 12"]


def test_a_changed_key_is_found() -> None:
    changed = {0: [Record(it.offset, b"k9" if it.offset == 3 else it.key, it.value) for it in SOURCE[0]], 1: SOURCE[1]}
    assert exactly_once(SOURCE, changed) == ["partition 0: 1 with another key: '0/3' at offset 3"]


def test_a_partition_too_many_or_too_few_is_found() -> None:
    assert exactly_once(SOURCE, {0: SOURCE[0]}) == ["partition 1: 1 missing: '1/0' at offset 0"]
    assert exactly_once({0: SOURCE[0]}, SOURCE) == ["partition 1: 1 not in the input: '1/0' at offset 0"]


def test_uncommitted_readers_see_at_least_what_is_committed() -> None:
    assert contained({0: SOURCE[0][:3]}, SOURCE) == []
    assert contained(SOURCE, {0: SOURCE[0], 1: []}) == [
        "partition 1: 1 only read_committed sees: '1/0' at offset 0",
    ]
