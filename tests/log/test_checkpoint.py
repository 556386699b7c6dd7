import pytest

from ottla.log.checkpoint import DamagedCheckpoint, format_checkpoint, parse_checkpoint, read_offsets, write_offsets
from ottla.model import TopicPartition
from tests.log.fault_disk import FaultDisk


def test_offsets_are_written_as_kafka_writes_them() -> None:
    disk = FaultDisk()
    write_offsets(disk, "/points", {TopicPartition("clicks", 0): 1500, TopicPartition("a-b", 11): 0})
    assert disk.read_bytes("/points") == b"0\n2\nclicks 0 1500\na-b 11 0\n"


def test_offsets_come_back() -> None:
    disk = FaultDisk()
    offsets = {TopicPartition(f"topic-{number}", number): number * 7 for number in range(50)}
    write_offsets(disk, "/points", offsets)
    assert read_offsets(disk, "/points") == offsets


def test_a_missing_file_has_no_offsets() -> None:
    assert read_offsets(FaultDisk(), "/points") == {}


def test_no_offsets_are_an_empty_checkpoint() -> None:
    disk = FaultDisk()
    write_offsets(disk, "/points", {})
    assert disk.read_bytes("/points") == b"0\n0\n"
    assert read_offsets(disk, "/points") == {}


def test_an_empty_file_has_no_offsets() -> None:
    disk = FaultDisk()
    disk.replace_bytes("/points", b"")
    assert read_offsets(disk, "/points") == {}


def test_rows_round_trip() -> None:
    assert parse_checkpoint(format_checkpoint([(0, 10), (3, 25)]), 2) == [["0", "10"], ["3", "25"]]


@pytest.mark.parametrize(
    "data",
    [
        b"0",
        b"1\n0\n",
        b"0\n2\nclicks 0 5\n",
        b"0\n1\nclicks 0 5\nclicks 1 5\n",
        b"0\n1\nclicks 0\n",
        b"0\n1\nclicks 0 five\n",
        b"0\nx\n",
        b"\xff\xfe\n",
    ],
)
def test_damage_is_noticed(data: bytes) -> None:
    disk = FaultDisk()
    disk.replace_bytes("/points", data)
    with pytest.raises(DamagedCheckpoint):
        read_offsets(disk, "/points")
