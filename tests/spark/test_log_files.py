"""Data directories read as files: what committed readers of the broker would see."""

import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import ottla
from ottla.model import TopicPartition
from ottla.records.builder import NewRecord, build_batch
from ottla.records.control import EndTransactionMarker, build_marker
from ottla.records.format import Codec
from ottla.spark import log_files
from ottla.spark.log_files import NotADataDirectory, plan_directory, read_segment
from ottla.spark.selection import Selection
from tests.spark import topics
from tests.spark.topics import Row

if TYPE_CHECKING:
    from ottla.testing.embedded import EmbeddedBroker


def read(root: Path, selection: Selection | None = None, *, committed: bool = False) -> list[Row]:
    plan = plan_directory(str(root), selection, committed=committed)
    return topics.rows_of(batch for segment in plan for batch in read_segment(segment, headers=True))


def checkpoint(root: Path, name: str, offsets: dict[str, int]) -> None:
    lines = [f"{partition.rpartition('-')[0]} {partition.rpartition('-')[2]} {at}" for partition, at in offsets.items()]
    (root / name).write_text("\n".join(["0", str(len(lines)), *lines, ""]))


def watermark(root: Path, **offsets: int) -> None:
    checkpoint(root, "replication-offset-checkpoint", {key.replace("_", "-"): at for key, at in offsets.items()})


def segment(root: Path, partition: str, base: int, content: bytes, aborted: bytes = b"") -> Path:
    directory = root / partition
    directory.mkdir(exist_ok=True)
    path = directory / f"{base:020d}.log"
    path.write_bytes(content)
    if aborted:
        path.with_suffix(".txnindex").write_bytes(aborted)
    return path


def batch(offset: int, count: int = 1, producer_id: int = -1, codec: Codec = Codec.NONE) -> bytes:
    records = [NewRecord(None, b"%d" % (offset + index), (), 1000) for index in range(count)]
    made = build_batch(
        records, base_offset=offset, producer_id=producer_id, transactional=producer_id >= 0, codec=codec
    )
    return bytes(made)


def marker(offset: int, producer_id: int, *, committed: bool) -> bytes:
    made = build_marker(EndTransactionMarker(producer_id, 0, 0, committed), 1000)
    made[:8] = offset.to_bytes(8, "big")
    return bytes(made)


def aborted_entry(producer_id: int, first: int, last: int, stable: int) -> bytes:
    return struct.pack(">hqqqq", 0, producer_id, first, last, stable)


def offsets(rows: list[Row]) -> list[int]:
    return [row.offset for row in rows]


def test_segments_follow_each_other(tmp_path: Path) -> None:
    segment(tmp_path, "t-0", 0, batch(0, 3) + batch(3, 2, codec=Codec.ZSTD))
    segment(tmp_path, "t-0", 5, batch(5, 4))
    segment(tmp_path, "t-1", 0, batch(0, 1))
    watermark(tmp_path, t_0=9, t_1=1)
    assert [(row.partition, row.offset) for row in read(tmp_path)] == [*((0, index) for index in range(9)), (1, 0)]


def test_what_is_beyond_the_high_watermark_is_not_committed(tmp_path: Path) -> None:
    segment(tmp_path, "t-0", 0, batch(0, 10) + batch(10, 10))
    segment(tmp_path, "t-0", 20, batch(20, 10))
    for mark in (0, 5, 10, 15, 20, 25):
        watermark(tmp_path, t_0=mark)
        assert offsets(read(tmp_path)) == list(range(mark))
    watermark(tmp_path, other_0=7)
    assert read(tmp_path) == []


def test_without_a_checkpoint_everything_counts(tmp_path: Path) -> None:
    segment(tmp_path, "t-0", 0, batch(0, 4))
    assert offsets(read(tmp_path)) == [0, 1, 2, 3]


@pytest.mark.parametrize("damage", [lambda tail: tail[:30], lambda tail: tail[:-1], lambda tail: bytes(4096)])
def test_an_open_end_is_not_read(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    segment(tmp_path, "t-0", 0, batch(0, 4) + damage(batch(4, 4)))
    assert offsets(read(tmp_path)) == [0, 1, 2, 3]
    assert offsets(read(tmp_path, committed=True)) == [0, 1, 2, 3]


def test_the_log_start_is_honoured(tmp_path: Path) -> None:
    segment(tmp_path, "t-0", 0, batch(0, 10))
    watermark(tmp_path, t_0=10)
    checkpoint(tmp_path, "log-start-offset-checkpoint", {"t-0": 6})
    assert offsets(read(tmp_path)) == [6, 7, 8, 9]


def test_aborted_and_open_transactions_are_not_committed(tmp_path: Path) -> None:
    first = batch(0, 2, 7) + batch(2, 1, 8) + marker(3, 7, committed=False)
    second = batch(4, 1, 7) + marker(5, 8, committed=True) + marker(6, 7, committed=True) + batch(7)
    third = batch(8, 1, 9) + batch(9)
    segment(tmp_path, "t-0", 0, first, aborted_entry(7, 0, 3, 2))
    segment(tmp_path, "t-0", 4, second)
    segment(tmp_path, "t-0", 8, third)
    watermark(tmp_path, t_0=10)
    assert offsets(read(tmp_path)) == [0, 1, 2, 4, 7, 8, 9]
    assert offsets(read(tmp_path, committed=True)) == [2, 4, 7]


def test_a_transaction_aborted_in_a_later_segment(tmp_path: Path) -> None:
    segment(tmp_path, "t-0", 0, batch(0, 2, 7) + batch(2))
    segment(tmp_path, "t-0", 3, marker(3, 7, committed=False) + batch(4, 1, 7) + marker(5, 7, committed=True),
            aborted_entry(7, 0, 3, 4))  # fmt: skip
    watermark(tmp_path, t_0=6)
    assert offsets(read(tmp_path, committed=True)) == [2, 4]


def test_batches_larger_than_a_chunk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_files, "CHUNK_BYTES", 100)
    segment(tmp_path, "t-0", 0, b"".join(batch(10 * index, 10) for index in range(5)))
    watermark(tmp_path, t_0=50)
    assert offsets(read(tmp_path)) == list(range(50))


def test_selections(tmp_path: Path) -> None:
    for partition in ("a-0", "a-1", "b-0", "__consumer_offsets-0"):
        segment(tmp_path, partition, 0, batch(0))

    def found(selection: Selection | None) -> list[str]:
        return [str(each.topic_partition) for each in plan_directory(str(tmp_path), selection, committed=False)]

    assert found(None) == ["a-0", "a-1", "b-0"]
    assert found(Selection(topics=("a",))) == ["a-0", "a-1"]
    assert found(Selection(pattern="[ab]")) == ["a-0", "a-1", "b-0"]
    assert found(Selection(assigned=(TopicPartition("a", 1),))) == ["a-1"]
    for unknown in (Selection(topics=("c",)), Selection(assigned=(TopicPartition("a", 2),))):
        with pytest.raises(NotADataDirectory, match="does not contain"):
            found(unknown)


@pytest.mark.parametrize("make", [lambda path: path / "nowhere", lambda path: path])
def test_other_directories_are_refused(tmp_path: Path, make: Callable[[Path], Path]) -> None:
    with pytest.raises(NotADataDirectory):
        plan_directory(str(make(tmp_path)), None, committed=False)


def test_a_directory_of_a_broker_that_was_stopped(tmp_path: Path) -> None:
    with ottla.embedded({"log.segment.bytes": "1048576"}, data_dir=tmp_path) as broker:
        bootstrap = broker.bootstrap_servers
        topic = topics.make_topic(bootstrap, 2)
        topics.fill(bootstrap, topic, [(index % 2, b"x" * 2000) for index in range(1500)], **{"batch.size": 50_000})
        topics.transactions(bootstrap, topic, [True, False, True, False], partitions=2)
        expected = {
            level: topics.consume(bootstrap, topic, 2, level) for level in ("read_uncommitted", "read_committed")
        }
    assert len([name for name in os.listdir(tmp_path / f"{topic}-0") if name.endswith(".log")]) > 1
    chosen = Selection(topics=(topic,))
    assert topics.digest(read(tmp_path, chosen)) == topics.digest(expected["read_uncommitted"])
    assert topics.digest(read(tmp_path, chosen, committed=True)) == topics.digest(expected["read_committed"])


def test_a_directory_of_a_running_broker(ottla_broker: "EmbeddedBroker") -> None:
    """The checkpoint may be behind, so it tells how much can be seen."""
    bootstrap = ottla_broker.bootstrap_servers
    topic = topics.make_topic(bootstrap)
    topics.fill(bootstrap, topic, [(0, b"v")] * 10)
    assert len(read(ottla_broker.data_dir, Selection(topics=(topic,)))) <= 10
