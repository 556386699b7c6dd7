from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.env.disk import OsDisk
from ottla.log.index import DamagedIndex
from ottla.log.transaction_index import ABORTED_ENTRY, AbortedTransaction, TransactionIndex, entries
from tests.log.fault_disk import FaultDisk

FROM_KAFKA = bytes.fromhex(
    "000000000000000000010000000000000042000000000000004e0000000000000044"
    "00000000000000000002000000000000005a000000000000005c0000000000000044"
)
"""The bytes that Apache Kafka 4.3.1 wrote for a segment with base offset 64."""

FIRST = AbortedTransaction(1, 66, 78, 68)
SECOND = AbortedTransaction(2, 90, 92, 68)


def append(index: TransactionIndex, *aborted: AbortedTransaction) -> None:
    for entry in aborted:
        index.prepare(entry)
        index.commit(entry)


def new_index(*aborted: AbortedTransaction, base_offset: int = 0) -> tuple[FaultDisk, TransactionIndex]:
    disk = FaultDisk()
    index = TransactionIndex(disk, "/index", base_offset, new=True)
    append(index, *aborted)
    return disk, index


def stored(disk: FaultDisk, base_offset: int = 0) -> TransactionIndex:
    index = TransactionIndex(disk, "/index", base_offset, new=False)
    index.load()
    return index


def test_entries_are_kafkas() -> None:
    disk, _ = new_index(FIRST, SECOND, base_offset=64)
    assert disk.read_bytes("/index") == FROM_KAFKA
    assert list(entries(FROM_KAFKA)) == [FIRST, SECOND]


def test_what_was_stored_is_read_and_added_to() -> None:
    disk, _ = new_index(FIRST)
    index = stored(disk)
    assert index.collect(0, 1000) == ([FIRST], False)
    append(index, SECOND)
    assert stored(disk).collect(0, 1000) == ([FIRST, SECOND], False)


def test_a_range_of_offsets() -> None:
    """The upper bound is exclusive. The offset of the marker is part of the transaction."""
    _, index = new_index(FIRST, SECOND)
    assert index.collect(78, 90) == ([FIRST], False)
    assert index.collect(79, 90) == ([], False)
    assert index.collect(79, 91) == ([SECOND], False)
    assert index.collect(93, 1000) == ([], False)


def test_later_entries_cannot_be_in_a_range_before_the_last_stable_offset() -> None:
    _, index = new_index(FIRST, SECOND)
    assert index.collect(0, 68) == ([FIRST], True)
    assert index.collect(0, 66) == ([], True)
    assert index.collect(0, 69) == ([FIRST], False)


def test_an_entry_that_was_only_prepared_does_not_count() -> None:
    disk, index = new_index(FIRST)
    index.prepare(SECOND)
    assert index.collect(0, 1000) == ([FIRST], False)
    index.seal()
    assert disk.size("/index") == ABORTED_ENTRY.size


def test_the_place_of_a_prepared_entry_is_taken_by_the_next() -> None:
    disk, index = new_index(FIRST)
    index.prepare(SECOND)
    append(index, SECOND._replace(producer_id=8))
    assert stored(disk).collect(0, 1000) == ([FIRST, SECOND._replace(producer_id=8)], False)


def test_an_index_without_entries_has_no_file() -> None:
    disk, index = new_index()
    index.prepare(FIRST)
    index.seal()
    assert not disk.exists("/index")
    index.seal()
    index.sync()


def test_truncation() -> None:
    disk, index = new_index(FIRST, SECOND)
    index.truncate(93)
    assert index.collect(0, 1000) == ([FIRST, SECOND], False)
    index.truncate(92)
    assert index.collect(0, 1000) == ([FIRST], False)
    assert disk.size("/index") == ABORTED_ENTRY.size
    append(index, SECOND)
    assert stored(disk).collect(0, 1000) == ([FIRST, SECOND], False)
    index.truncate(10)
    assert index.collect(0, 1000) == ([], False)
    assert not disk.exists("/index")


def test_a_part_of_an_entry_at_the_end_is_left_out() -> None:
    disk, _ = new_index(FIRST, SECOND)
    disk.open("/index").truncate(ABORTED_ENTRY.size + 20)
    assert stored(disk).collect(0, 1000) == ([FIRST], False)


@pytest.mark.parametrize(
    "damaged",
    [
        FROM_KAFKA[34:] + FROM_KAFKA[:34],
        b"\1" + FROM_KAFKA[1:],
        FROM_KAFKA[:34] + bytes(34),
        FROM_KAFKA.replace(b"\x42", b"\x7f"),
    ],
    ids=["order", "version", "zeros", "first offset"],
)
def test_damage_is_noticed(damaged: bytes) -> None:
    disk = FaultDisk()
    disk.replace_bytes("/index", damaged)
    with pytest.raises(DamagedIndex):
        stored(disk, base_offset=64)


def test_an_entry_of_an_earlier_segment_is_damage() -> None:
    disk, _ = new_index(FIRST)
    with pytest.raises(DamagedIndex):
        stored(disk, base_offset=79)


def test_a_damaged_file_is_replaced() -> None:
    disk = FaultDisk()
    disk.replace_bytes("/index", b"\1" + FROM_KAFKA[1:])
    index = TransactionIndex(disk, "/index", 64, new=False)
    index.rewrite(iter([FIRST, SECOND]))
    assert index.collect(0, 1000) == ([FIRST, SECOND], False)
    assert disk.read_bytes("/index") == FROM_KAFKA


def test_a_file_that_shrank_since_it_was_loaded_is_noticed() -> None:
    disk, index = new_index(FIRST, SECOND)
    disk.open("/index").truncate(0)
    with pytest.raises(DamagedIndex):
        index.collect(0, 1000)


def test_on_a_real_disk(tmp_path: Path) -> None:
    index = TransactionIndex(OsDisk(), f"{tmp_path}/index", 0, new=True)
    append(index, FIRST, SECOND)
    index.seal()
    index.sync()
    assert (tmp_path / "index").read_bytes() == FROM_KAFKA


@given(
    st.lists(st.tuples(st.integers(1, 5), st.integers(1, 40)), max_size=300), st.integers(0, 400), st.integers(0, 60)
)
def test_any_range_of_any_index(steps: list[tuple[int, int]], fetch_offset: int, span: int) -> None:
    """Against a search through every entry. The last stable offset here is the first offset of any later
    transaction."""
    aborted: list[AbortedTransaction] = []
    last = 0
    for step, length in steps:
        last += step
        aborted.append(AbortedTransaction(1, max(0, last - length), last, 0))
    stable = last + 1
    for number in range(len(aborted) - 1, -1, -1):
        aborted[number] = aborted[number]._replace(last_stable_offset=min(stable, aborted[number].last_offset + 1))
        stable = min(stable, aborted[number].first_offset)
    _, index = new_index(*aborted)
    upper = fetch_offset + span
    found, _ = index.collect(fetch_offset, upper)
    assert found == [entry for entry in aborted if entry.last_offset >= fetch_offset and entry.first_offset < upper]
