import pytest

from ottla.log.epochs import LeaderEpochs
from tests.log.fault_disk import FaultDisk

PATH = "/leader-epoch-checkpoint"


def epochs_of(*entries: tuple[int, int]) -> LeaderEpochs:
    epochs = LeaderEpochs()
    for epoch, start_offset in entries:
        epochs.assign(epoch, start_offset)
    return epochs


def test_an_epoch_keeps_its_first_start() -> None:
    epochs = epochs_of((0, 0), (0, 10), (2, 20), (2, 25))
    assert list(epochs.entries) == [(0, 0), (2, 20)]
    assert epochs.latest == 2


def test_a_leader_without_records_is_replaced() -> None:
    assert list(epochs_of((0, 0), (1, 10), (2, 10)).entries) == [(0, 0), (2, 10)]


def test_contradicting_entries_are_dropped() -> None:
    assert list(epochs_of((0, 0), (3, 10), (5, 20), (4, 15)).entries) == [(0, 0), (3, 10), (4, 15)]


def test_no_epoch_is_no_entry() -> None:
    epochs = epochs_of((-1, 0))
    assert list(epochs.entries) == []
    assert epochs.latest == -1


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (-1, (-1, -1)),
        (0, (0, 5)),
        (1, (1, 10)),
        (2, (2, 20)),
        (3, (2, 20)),
        (4, (4, 30)),
        (5, (-1, -1)),
    ],
)
def test_where_an_epoch_ended(asked: int, answer: tuple[int, int]) -> None:
    epochs = epochs_of((1, 5), (2, 10), (4, 20))
    assert epochs.end_offset_for(asked, 30) == answer


def test_no_answer_without_epochs() -> None:
    assert LeaderEpochs().end_offset_for(0, 30) == (-1, -1)


def test_truncation_at_the_end() -> None:
    epochs = epochs_of((0, 0), (1, 10), (2, 20))
    epochs.truncate_end(20)
    assert list(epochs.entries) == [(0, 0), (1, 10)]
    epochs.truncate_end(5)
    assert list(epochs.entries) == [(0, 0)]
    epochs.truncate_end(0)
    assert list(epochs.entries) == []


def test_truncation_at_the_start_keeps_the_epoch_in_force() -> None:
    epochs = epochs_of((0, 0), (1, 10), (2, 20))
    epochs.truncate_start(15)
    assert list(epochs.entries) == [(1, 15), (2, 20)]
    epochs.truncate_start(20)
    assert list(epochs.entries) == [(2, 20)]
    epochs.truncate_start(5)
    assert list(epochs.entries) == [(2, 20)]


def test_saved_epochs_come_back() -> None:
    disk = FaultDisk()
    epochs_of((0, 0), (3, 10)).save(disk, PATH, 100)
    assert disk.read_bytes(PATH) == b"0\n2\n0 0\n3 10\n"
    assert list(LeaderEpochs.load(disk, PATH).entries) == [(0, 0), (3, 10)]


def test_an_epoch_without_records_is_not_saved() -> None:
    disk = FaultDisk()
    epochs_of((0, 0), (3, 10)).save(disk, PATH, 10)
    assert disk.read_bytes(PATH) == b"0\n1\n0 0\n"


def test_nothing_is_written_when_nothing_changed() -> None:
    disk = FaultDisk()
    epochs = epochs_of((0, 0))
    epochs.save(disk, PATH, 1)
    epochs = LeaderEpochs.load(disk, PATH)
    disk.remove(PATH)
    epochs.save(disk, PATH, 1)
    assert not disk.exists(PATH)
    epochs.assign(1, 5)
    epochs.save(disk, PATH, 6)
    assert disk.read_bytes(PATH) == b"0\n2\n0 0\n1 5\n"


@pytest.mark.parametrize("data", [b"?", b"0\n1\nzero one\n", b"9\n0\n"])
def test_a_damaged_file_is_ignored(data: bytes, caplog: pytest.LogCaptureFixture) -> None:
    disk = FaultDisk()
    disk.replace_bytes(PATH, data)
    assert list(LeaderEpochs.load(disk, PATH).entries) == []
    assert "damaged" in caplog.text


def test_without_a_file_nothing_is_known() -> None:
    assert list(LeaderEpochs.load(FaultDisk(), PATH).entries) == []


def test_the_epoch_of_a_record_is_the_last_one_that_began_before_it() -> None:
    epochs = LeaderEpochs()
    epochs.assign(2, 10)
    epochs.assign(5, 20)
    assert [epochs.epoch_at(offset) for offset in (9, 10, 19, 20, 99)] == [-1, 2, 2, 5, 5]
