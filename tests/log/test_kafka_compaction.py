"""Apache Kafka's cleaner and ours leave the same records of the same log.

Kafka's results are stored in a file, so the test needs no Kafka. `python -m tests.log.test_kafka_compaction` creates
the file again, with Java and Kafka's jars, named by KAFKA_JARS.
"""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from ottla.env.disk import Disk, OsDisk
from ottla.log.log import Log
from tests.log.compaction_script import Writer, clean, compaction_config, describe, describe_batches
from tests.log.fault_disk import FaultDisk
from tests.log.world import CLICKS, StillClock, new_log, open_directory

JARS = os.environ.get("KAFKA_JARS", "")
ANSWERS = Path(__file__).with_name("kafka-4.3.1-compaction.txt")
SEEDS = range(1, 7)
PASSES = 4

needs_kafka = pytest.mark.skipif(
    not JARS or shutil.which("javac") is None, reason="set KAFKA_JARS to a directory with Kafka's jars, and have a JDK"
)


class Before(NamedTuple):
    """The input of Kafka's cleaner for one pass."""

    first_dirty_offset: int
    end: int
    now_ms: int
    segment_bytes: int


def passes(
    disk: Disk, path: str, seed: int, before: Callable[[int, Before], None] = lambda _, __: None
) -> list[list[str]]:
    """The contents of our log after each of several passes, between which the log grows. `before` gets the log on
    disk."""
    segment_bytes = 1500 if seed % 2 else 6000
    config = compaction_config(segment_bytes=segment_bytes)
    clock = StillClock()
    directory, log = new_log(disk, clock, path, config)
    writer = Writer(log, seed)
    left = []
    for number in range(PASSES):
        writer.write(40 if number else 80, keys=6 + seed)
        directory.close()
        directory = open_directory(disk, clock, path, config=config)
        writer.log = log = directory.logs[CLICKS]
        # At this time some tombstones and markers are past their delete horizon, and some are not.
        now_ms = writer.now_ms + 700 * number
        cleanable = log.compaction.cleanable(now_ms, log.end_offset)
        end = log.segments()[cleanable.segments].base_offset
        before(number, Before(cleanable.first_dirty_offset, end, now_ms, segment_bytes))
        bases = {segment.base_offset for segment in log.segments()}
        clean(log, now_ms)
        assert {segment.base_offset for segment in log.segments()} <= bases
        left.append(with_segment_ends(disk, log))
    directory.close()
    return left


def with_segment_ends(disk: Disk, log: Log) -> list[str]:
    """The contents of a log, with a mark on empty batches at the end of a segment. Kafka keeps only the last of
    them."""
    ends = [
        describe_batches(disk.read_bytes(f"{log.path}/{segment.base_offset:020d}.log"))[-1]
        for segment in log.segments()[:-1]
    ]
    return [f"{line} end" if line in ends and line.endswith("[]") else line for line in describe(disk, log.path)]


def same(ours: list[str], kafkas: list[str]) -> None:
    """Kafka need not have the empty batch at the end of one of our segments."""
    theirs = set(kafkas)
    kept = [line.removesuffix(" end") for line in ours if not line.endswith(" end") or line[:-4] in theirs]
    assert kept == kafkas


def stored_answers(seed: int) -> list[list[str]]:
    text = ANSWERS.read_text().split(f"# log {seed}\n")[1].split("# log ")[0]
    return [part.strip().splitlines() for part in text.split("# pass\n")[1:]]


@pytest.mark.parametrize("seed", SEEDS)
def test_we_leave_what_kafka_left(seed: int) -> None:
    for ours, kafkas in zip(passes(FaultDisk(), "/data", seed), stored_answers(seed), strict=True):
        same(ours, kafkas)


def ask_kafka(seed: int, scratch: Path) -> list[list[str]]:
    """Kafka gets a copy of the log before each of our passes."""
    commands = []

    def copy(number: int, before: Before) -> None:
        target = scratch / f"kafka-{seed}-{number}" / str(CLICKS)
        shutil.copytree(scratch / f"ours-{seed}" / str(CLICKS), target)
        commands.append(" ".join(map(str, (target, *before))))

    passes(OsDisk(), str(scratch / f"ours-{seed}"), seed, copy)
    program = Path(__file__).with_name("KafkaCleaner.java")
    run = subprocess.run(
        ["java", "-Xmx256m", "-cp", f"{JARS}/*", str(program)],
        input="\n".join(commands) + "\n",
        capture_output=True,
        text=True,
        check=True,
    )
    answers: list[list[str]] = [[]]
    for line in run.stdout.splitlines():
        if line.startswith("end "):
            answers.append([])
        else:
            answers[-1].append(line)
    return answers[:-1]


@needs_kafka
@pytest.mark.parametrize("seed", list(SEEDS)[:2])
def test_kafka_still_leaves_that(seed: int, tmp_path: Path) -> None:
    assert ask_kafka(seed, tmp_path) == stored_answers(seed)


def test_the_logs_cover_what_matters() -> None:
    lines = ANSWERS.read_text().splitlines()
    assert len([line for line in lines if line.endswith("[]")]) > 10
    assert len([line for line in lines if " tc " in line and "horizon none" not in line]) > 10
    assert len([line for line in lines if "=null" in line and "horizon none" not in line]) > 20
    assert len([line for line in lines if line.startswith("aborted ")]) > 20


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as directory_name:
        sections = []
        for number in SEEDS:
            kept_by_kafka = ask_kafka(number, Path(directory_name))
            parts = "".join("# pass\n" + "".join(f"{line}\n" for line in lines) for lines in kept_by_kafka)
            sections.append(f"# log {number}\n{parts}")
        ANSWERS.write_text("".join(sections))
