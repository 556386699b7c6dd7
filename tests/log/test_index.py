import random
import struct
from bisect import bisect_right
from operator import itemgetter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.log.index import OFFSET_ENTRY, TIME_ENTRY, DamagedIndex, SparseIndex, whole_entries
from tests.log.fault_disk import FaultDisk

PATH = "/00000000000000000000.index"


def new_index(disk: FaultDisk | None = None, entry: struct.Struct = OFFSET_ENTRY) -> SparseIndex:
    return SparseIndex(disk or FaultDisk(), PATH, entry, new=True)


def reopened(disk: FaultDisk, entry: struct.Struct = OFFSET_ENTRY) -> SparseIndex:
    return SparseIndex(disk, PATH, entry, new=False)


def test_entries_are_written_as_kafka_writes_them() -> None:
    disk = FaultDisk()
    index = new_index(disk)
    index.append(7, 4200)
    index.append(9, 8500)
    index.flush()
    assert disk.read_bytes(PATH) == bytes.fromhex("00000007 00001068 00000009 00002134")


def test_time_entries_are_twelve_bytes() -> None:
    disk = FaultDisk()
    index = new_index(disk, TIME_ENTRY)
    index.append(1_700_000_000_000, 5)
    index.flush()
    assert disk.read_bytes(PATH) == bytes.fromhex("0000018bcfe56800 00000005")


@given(
    st.lists(st.integers(1, 50), max_size=1500),
    st.lists(st.integers(-5, 40_000), min_size=1, max_size=30),
    st.integers(0, 1500),
)
def test_floor_is_the_last_entry_not_above(gaps: list[int], targets: list[int], flushed: int) -> None:
    index = new_index()
    entries = []
    offset = 0
    for number, gap in enumerate(gaps):
        offset += gap
        entries.append((offset, number * 10))
        index.append(offset, number * 10)
        if number + 1 == flushed:
            index.flush()
    assert len(index) == len(entries)
    assert index.last() == (entries[-1] if entries else None)
    for target in targets:
        for column in (0, 1):
            expected = [entry for entry in entries if entry[column] <= target]
            assert index.floor(column, target) == (expected[-1] if expected else None)
            assert index.count_up_to(column, target) == len(expected)


@pytest.mark.parametrize("kept", range(5))
@pytest.mark.parametrize("flushed", range(5))
def test_truncation_keeps_the_first_entries(kept: int, flushed: int) -> None:
    disk = FaultDisk()
    index = new_index(disk)
    for number in range(4):
        if number == flushed:
            index.flush()
        index.append(number + 1, number)
    index.truncate(kept)
    assert len(index) == kept
    index.append(9, 9)
    index.seal()
    expected = [(number + 1, number) for number in range(kept)] + [(9, 9)]
    assert list(whole_entries(OFFSET_ENTRY, disk.read_bytes(PATH))) == expected


def test_a_file_is_counted_at_first_use() -> None:
    disk = FaultDisk()
    index = new_index(disk)
    index.append(1, 2)
    index.flush()
    again = reopened(disk)
    assert (len(again), again.last()) == (1, (1, 2))
    again.append(3, 4)
    again.flush()
    assert len(reopened(disk)) == 2


@pytest.mark.parametrize("count", [0, 1, 2, 3, 700])
def test_the_zeros_that_kafka_preallocates_are_cut_off(count: int) -> None:
    disk = FaultDisk()
    entries = [(number + 1, number * 10) for number in range(count)]
    data = b"".join(OFFSET_ENTRY.pack(*entry) for entry in entries) + bytes(10 * 1024)
    disk.replace_bytes(PATH, data)
    index = reopened(disk)
    assert len(index) == count
    assert index.last() == (entries[-1] if entries else None)
    assert disk.size(PATH) == count * OFFSET_ENTRY.size


def test_damage_is_noticed() -> None:
    disk = FaultDisk()
    with pytest.raises(DamagedIndex, match="missing"):
        len(reopened(disk))
    disk.replace_bytes(PATH, bytes(13))
    with pytest.raises(DamagedIndex, match="13 bytes"):
        len(reopened(disk))


def test_an_index_that_shrinks_under_us_is_damaged() -> None:
    disk = FaultDisk()
    index = new_index(disk)
    for number in range(2000):
        index.append(number, number)
    index.flush()
    disk.open(PATH).truncate(80)
    with pytest.raises(DamagedIndex, match="shorter"):
        index.last()


def test_a_full_disk_leaves_the_entries_in_memory() -> None:
    disk = FaultDisk()
    index = new_index(disk)
    index.append(1, 1)
    index.flush()
    index.append(2, 2)
    disk.room = 3
    with pytest.raises(OSError, match="No space"):
        index.flush()
    disk.room = None
    assert (len(index), index.last()) == (2, (2, 2))
    index.seal()
    assert disk.read_bytes(PATH) == OFFSET_ENTRY.pack(1, 1) + OFFSET_ENTRY.pack(2, 2)


def test_what_a_reset_leaves_in_the_file_is_gone_when_it_is_sealed() -> None:
    disk = FaultDisk()
    disk.replace_bytes(PATH, b"x" * 99)
    index = reopened(disk)
    index.reset()
    index.append(1, 1)
    index.seal()
    assert disk.read_bytes(PATH) == OFFSET_ENTRY.pack(1, 1)
    assert len(reopened(disk)) == 1


def test_entries_gather_in_memory_until_there_is_a_block() -> None:
    disk = FaultDisk()
    index = new_index(disk)
    for number in range(512):
        assert not index.wants_flush
        index.append(number, number)
    assert index.wants_flush
    index.flush()
    assert not index.wants_flush
    assert disk.size(PATH) == 4096


def test_what_is_remembered_of_the_file_is_never_out_of_date() -> None:
    """Random searches in a file of many blocks, between all operations that change the file."""
    index, dice = new_index(), random.Random(7)
    entries: list[tuple[int, int]] = []
    for _ in range(300):
        match dice.randrange(8):
            case 0:
                index.truncate(kept := dice.randrange(len(entries) + 1))
                del entries[kept:]
            case 1 | 2:
                index.flush()
            case _:
                for _ in range(dice.randrange(400)):
                    offset = entries[-1][0] + dice.randint(1, 9) if entries else 3
                    entries.append((offset, 2 * offset))
                    index.append(offset, 2 * offset)
        for _ in range(5):
            column, target = dice.randrange(2), dice.randrange(entries[-1][1] + 20) if entries else 0
            expected = bisect_right(entries, target, key=itemgetter(column))
            assert index.count_up_to(column, target) == expected
    index.reset()
    assert index.floor(0, 1 << 30) is None
