"""The worked examples in `docs/formats/log-directory.md` match the code."""

from pathlib import Path

import pytest

from ottla.log.checkpoint import read_offsets, write_offsets
from ottla.log.epochs import LeaderEpochs
from ottla.log.index import OFFSET_ENTRY, TIME_ENTRY, whole_entries
from ottla.log.properties import DirectoryIdentity, read_identity, read_topic_id, write_identity, write_topic_id
from ottla.log.snapshot import decode_snapshot, encode_snapshot
from ottla.log.transaction_index import TransactionIndex
from ottla.model import TopicPartition
from tests.log.fault_disk import FaultDisk

PAGE = Path(__file__).parents[2] / "docs" / "formats" / "log-directory.md"


def example(kind: str) -> bytes:
    """The only fenced block with this language."""
    (block,) = PAGE.read_text().split(f"```{kind}\n")[1:]
    return block.split("```")[0].encode()


def example_bytes(kind: str) -> bytes:
    return bytes.fromhex(example(kind).decode())


def test_checkpoint() -> None:
    disk = FaultDisk()
    disk.replace_bytes("/points", example("checkpoint"))
    offsets = read_offsets(disk, "/points")
    assert offsets == {TopicPartition("clicks", 0): 1500, TopicPartition("clicks", 1): 1488}
    write_offsets(disk, "/points", offsets)
    assert disk.read_bytes("/points") == example("checkpoint")


def test_epochs() -> None:
    disk = FaultDisk()
    disk.replace_bytes("/epochs", example("leader-epoch-checkpoint"))
    epochs = LeaderEpochs.load(disk, "/epochs")
    assert list(epochs.entries) == [(0, 0), (3, 1200)]


def test_identity() -> None:
    disk = FaultDisk()
    disk.replace_bytes("/meta.properties", example("meta.properties"))
    identity = read_identity(disk, "")
    assert identity is not None
    assert identity == DirectoryIdentity("Mk3OEYBSD34fcwNTJENDM2Qg", 1, "LfsRAQD1RTeQT-5UHHT79w")
    write_identity(disk, "", identity)
    assert disk.read_bytes("/meta.properties") == example("meta.properties")


def test_topic_id() -> None:
    disk = FaultDisk()
    disk.replace_bytes("/partition.metadata", example("partition.metadata"))
    topic_id = read_topic_id(disk, "")
    assert topic_id == bytes(range(16))
    write_topic_id(disk, "", topic_id)
    assert disk.read_bytes("/partition.metadata") == example("partition.metadata").rstrip()


@pytest.mark.parametrize(
    ("kind", "entry", "expected"),
    [("index", OFFSET_ENTRY, [(7, 4200), (9, 8500)]), ("timeindex", TIME_ENTRY, [(1_700_000_000_000, 5)])],
)
def test_index(kind: str, entry: object, expected: list[tuple[int, int]]) -> None:
    chosen = OFFSET_ENTRY if entry is OFFSET_ENTRY else TIME_ENTRY
    data = example_bytes(kind)
    assert list(whole_entries(chosen, data)) == expected
    assert b"".join(chosen.pack(*pair) for pair in expected) == data


def test_transaction_index() -> None:
    disk = FaultDisk()
    disk.replace_bytes("/index", example_bytes("txnindex"))
    index = TransactionIndex(disk, "/index", 60, new=False)
    index.load()
    assert index.collect(66, 79) == ([(1, 66, 78, 68)], False)


def test_snapshot() -> None:
    data = example_bytes("snapshot")
    (producer,) = decode_snapshot(data)
    assert (producer.producer_id, producer.epoch, producer.next_sequence) == (7, 2, 7)
    assert producer.batches == [(6, 11, 1, 1_700_000_000_000)]
    assert encode_snapshot([producer]) == data
