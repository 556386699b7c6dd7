"""Apache Kafka's dump-log tool reads our files. Needs Java and Kafka's jars, named by KAFKA_JARS."""

import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from ottla.env.disk import OsDisk
from ottla.log.config import LogConfig
from tests.log.compaction_script import Writer, clean, compaction_config, sync
from tests.log.world import NOW_MS, append, append_in_transaction, batch, end_transaction, new_log

JARS = os.environ.get("KAFKA_JARS", "")

pytestmark = pytest.mark.skipif(
    not JARS or shutil.which("java") is None, reason="set KAFKA_JARS to a directory with Kafka's jars, and have java"
)


def written(directory_path: Path) -> tuple[list[Path], int]:
    """The files of a log with several segments, epochs and producers, and the number of its records."""
    chance = random.Random(4)
    config = LogConfig(segment_bytes=60_000, index_interval_bytes=500)
    directory, log = new_log(OsDisk(), path=str(directory_path), config=config)
    sequence = 0
    for number in range(600):
        records = [NOW_MS + number * 10 + chance.randint(-2000, 2000) for _ in range(chance.randint(1, 5))]
        size = chance.randint(1, 300)
        if number % 2:
            item = batch(records, size=size, producer_id=4, producer_epoch=1, base_sequence=sequence)
            sequence += len(records)
        else:
            item = batch(records, size=size)
        append(log, item, leader_epoch=number // 250)
    end = log.end_offset
    directory.close()
    return sorted(path for path in (directory_path / "clicks-0").iterdir() if path.name[:20].isdecimal()), end


TOOL = ["java", "-cp", f"{JARS}/*", "org.apache.kafka.tools.DumpLogSegments", "--deep-iteration", "--files"]


def test_dump_log_finds_nothing_wrong(tmp_path: Path) -> None:
    files, end = written(tmp_path)
    assert {path.suffix for path in files} == {".log", ".index", ".timeindex", ".snapshot"}
    dump = subprocess.run([*TOOL, ",".join(map(str, files))], capture_output=True, text=True, check=True)
    # With --deep-iteration the tool reports the first record of every segment except the one at 0.
    bases = [str(int(path.stem)) for path in files if path.suffix == ".log"]
    complaints = [
        line.split() for line in dump.stderr.splitlines() if not line.startswith("Non-consecutive offsets in")
    ]
    assert [words for words in complaints if words[:4] != ["-1", "is", "followed", "by"]] == []
    assert {words[4] for words in complaints} <= set(bases)
    lines = dump.stdout.splitlines()
    offsets = [int(line.split("offset: ")[1].split()[0]) for line in lines if line.startswith("| offset: ")]
    assert offsets == list(range(end))
    assert not [line for line in lines if "isvalid: false" in line]
    assert [line for line in lines if line.startswith("producerId: 4 producerEpoch: 1 ")]


def test_dump_log_reads_transactions(tmp_path: Path) -> None:
    directory, log = new_log(OsDisk(), path=str(tmp_path))
    append_in_transaction(log, 4, 0, 2)
    append_in_transaction(log, 5, 0)
    assert end_transaction(log, 4, committed=False, coordinator_epoch=6) == 3
    assert end_transaction(log, 5, committed=True, epoch=1, coordinator_epoch=6, version=2) == 4
    append_in_transaction(log, 5, 0, epoch=1)
    directory.close()
    files = sorted(path for path in (tmp_path / "clicks-0").iterdir() if path.name[:20].isdecimal())
    assert {path.suffix for path in files} == {".log", ".index", ".timeindex", ".txnindex", ".snapshot"}
    dump = subprocess.run([*TOOL, ",".join(map(str, files))], capture_output=True, text=True, check=True)
    lines = dump.stdout.splitlines()
    assert [line for line in lines if "lastStableOffset" in line] == [
        "version: 0 producerId: 4 firstOffset: 0 lastOffset: 3 lastStableOffset: 2"
    ]
    assert ["endTxnMarker: ABORT coordinatorEpoch: 6" in line for line in lines if line.startswith("| offset: 3 ")] == [
        True
    ]
    assert [
        "endTxnMarker: COMMIT coordinatorEpoch: 6" in line for line in lines if line.startswith("| offset: 4 ")
    ] == [True]
    open_transactions = [line for line in lines if line.startswith("producerId: 5 producerEpoch: 1 ")]
    assert ["currentTxnFirstOffset: OptionalLong[5]" in line for line in open_transactions] == [True]


def test_dump_log_reads_what_was_compacted(tmp_path: Path) -> None:
    directory, log = new_log(OsDisk(), path=str(tmp_path), config=compaction_config(segment_bytes=4000))
    writer = Writer(log, 3)
    for _ in range(3):
        writer.write(150)
        sync(log)
        assert clean(log, writer.now_ms) is not None
    directory.close()
    files = sorted(path for path in (tmp_path / "clicks-0").iterdir() if path.name[:20].isdecimal())
    files = [path for path in files if path.suffix != ".deleted"]
    assert {path.suffix for path in files} == {".log", ".index", ".timeindex", ".txnindex", ".snapshot"}
    command = [word for word in TOOL if word != "--deep-iteration"]
    dump = subprocess.run([*command, ",".join(map(str, files))], capture_output=True, text=True, check=True)
    lines = dump.stdout.splitlines()
    assert not [line for line in lines if "isvalid: false" in line]
    assert "deleteHorizonMs: OptionalLong[" in dump.stdout
    counts = [int(line.split("count: ")[1].split()[0]) for line in lines if line.startswith("baseOffset: ")]
    assert counts.count(0) > 1
    # Compaction leaves gaps in the offsets. The tool must report nothing else.
    complaints = [line for line in dump.stderr.splitlines() if "followed by" not in line]
    assert [line for line in complaints if not line.startswith("Non-consecutive offsets in")] == []
