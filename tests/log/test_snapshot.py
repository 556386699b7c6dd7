import pytest

from ottla.log.producers import AppendedBatch, Producer
from ottla.log.snapshot import DamagedSnapshot, Snapshots, decode_snapshot, encode_snapshot
from tests.log.fault_disk import FaultDisk

PRODUCER = Producer(7, 2, 1_700_000_000_000, [AppendedBatch(4, 9, 1, 5), AppendedBatch(6, 11, 1, 1_700_000_000_000)])


def facts(producers: list[Producer]) -> list[tuple[object, ...]]:
    return [
        (producer.producer_id, producer.epoch, producer.last_timestamp, producer.next_sequence, *producer.batches)
        for producer in producers
    ]


def test_a_snapshot_as_kafka_writes_it() -> None:
    assert encode_snapshot([PRODUCER]).hex() == (
        "0001"  # version
        "16689785"  # CRC-32C
        "00000001"  # entries
        "0000000000000007"  # producer id
        "0002"  # epoch
        "00000006"  # last sequence
        "000000000000000b"  # last offset
        "00000001"  # offset delta
        "0000018bcfe56800"  # timestamp
        "ffffffff"  # coordinator epoch
        "ffffffffffffffff"  # first offset of the open transaction
    )


def test_only_the_last_batch_comes_back() -> None:
    decoded = decode_snapshot(encode_snapshot([PRODUCER, Producer(8, 0, 55)]))
    assert facts(decoded) == [
        (7, 2, 1_700_000_000_000, 7, AppendedBatch(6, 11, 1, 1_700_000_000_000)),
        (8, 0, 55, 0),
    ]


def test_a_transaction_that_is_open_is_kept() -> None:
    told = Producer(7, 2, 5, [AppendedBatch(6, 11, 1, 5)], coordinator_epoch=3, transaction_start=9)
    (decoded,) = decode_snapshot(encode_snapshot([told]))
    assert (decoded.coordinator_epoch, decoded.transaction_start) == (3, 9)
    assert encode_snapshot([told]).hex().endswith("000000030000000000000009")


def test_no_producers() -> None:
    assert decode_snapshot(encode_snapshot([])) == []


def test_any_changed_byte_is_noticed() -> None:
    data = encode_snapshot([PRODUCER])
    for position in range(len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 0x40
        with pytest.raises(DamagedSnapshot):
            decode_snapshot(bytes(damaged))
    for size in range(len(data)):
        with pytest.raises(DamagedSnapshot):
            decode_snapshot(data[:size])


def test_the_last_three_are_kept() -> None:
    disk = FaultDisk()
    snapshots = Snapshots(disk, "")
    assert not snapshots
    for offset in (10, 20, 30, 40, 40):
        snapshots.take(offset, [PRODUCER])
    assert snapshots.offsets == (20, 30, 40)
    assert [name[18:] for name in disk.list("/")] == [f"{offset}.snapshot" for offset in (20, 30, 40)]


def test_the_newest_that_can_be_read_is_the_latest(caplog: pytest.LogCaptureFixture) -> None:
    disk = FaultDisk()
    snapshots = Snapshots(disk, "")
    snapshots.take(10, [PRODUCER])
    snapshots.take(20, [])
    disk.open(snapshots.path(20)).truncate(5)
    latest = snapshots.latest(100)
    assert latest is not None
    assert (latest[0], len(latest[1])) == (10, 1)
    assert "damaged" in caplog.text
    assert not disk.exists(snapshots.path(20))


def test_later_ones_are_not_looked_at() -> None:
    snapshots = Snapshots(FaultDisk(), "")
    snapshots.take(10, [PRODUCER])
    snapshots.take(20, [])
    assert [(latest[0] if latest else None) for latest in map(snapshots.latest, (9, 10, 19, 20))] == [None, 10, 10, 20]
    assert snapshots.offsets == (10, 20)


def test_there_may_be_none() -> None:
    assert Snapshots(FaultDisk(), "").latest(100) is None


def test_states_that_the_log_no_longer_has_go() -> None:
    disk = FaultDisk()
    snapshots = Snapshots(disk, "")
    for offset in (10, 20, 30):
        snapshots.take(offset, [PRODUCER])
    snapshots.keep_only(10, 25)
    assert snapshots.offsets == (20,)
    assert len(disk.list("/")) == 1
