"""A log of Apache Kafka and one of ours return the same results for the same commands, and leave the same files.

Kafka's results are stored in a file, so the test needs no Kafka. `python -m tests.log.test_kafka_transactions` creates
the file again, with Java and Kafka's jars, named by KAFKA_JARS.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from ottla.env.disk import OsDisk
from ottla.log.layout import CLEAN_SHUTDOWN, LOG_START_OFFSETS
from ottla.log.transaction_index import AbortedTransaction, entries
from tests.log.fault_disk import FaultDisk
from tests.log.transaction_script import OurLog, write_script
from tests.log.world import CLICKS, open_directory

JARS = os.environ.get("KAFKA_JARS", "")
ANSWERS = Path(__file__).with_name("kafka-4.3.1-transactions.txt")
SEEDS = range(1, 5)
LENGTH = 120

needs_kafka = pytest.mark.skipif(
    not JARS or shutil.which("javac") is None, reason="set KAFKA_JARS to a directory with Kafka's jars, and have a JDK"
)


def stored_answers(seed: int) -> list[str]:
    """Every line of the file is a command, ` -> `, the result, ` | ` and the state of the log afterwards."""
    return ANSWERS.read_text().split(f"# script {seed}\n")[1].split("\n#")[0].strip().splitlines()


def command(answer: str) -> str:
    return answer.split(" -> ")[0]


def ask_kafka(script: list[str], directory: Path) -> list[str]:
    directory.mkdir(parents=True)
    program = Path(__file__).with_name("KafkaLog.java")
    run = subprocess.run(
        ["java", "-Xmx256m", "-cp", f"{JARS}/*", str(program), str(directory)],
        input="\n".join(script) + "\n",
        capture_output=True,
        text=True,
        check=True,
    )
    return run.stdout.splitlines()


def batches(directory: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(directory.glob("*.log")))


def aborted(directory: Path) -> list[AbortedTransaction]:
    return [entry for path in sorted(directory.glob("*.txnindex")) for entry in entries(path.read_bytes())]


@pytest.mark.parametrize("seed", SEEDS)
def test_we_answer_as_kafka_did(seed: int) -> None:
    answers = stored_answers(seed)
    assert len(answers) == LENGTH + 1
    ours = OurLog(FaultDisk())
    for answer in answers:
        assert ours.run(command(answer)) == answer


def test_the_scripts_cover_what_matters() -> None:
    text = ANSWERS.read_text()
    for error in (
        "INVALID_TXN_STATE",
        "INVALID_PRODUCER_EPOCH",
        "OUT_OF_ORDER_SEQUENCE_NUMBER",
        "TRANSACTION_COORDINATOR_FENCED",
    ):
        assert text.count(f"-> {error} |") >= 5
    for line in ("crash ->", "reopen ->", "truncate ", "start ", "roll ->"):
        assert text.count(f"\n{line}") >= 4


@needs_kafka
@pytest.mark.parametrize("seed", SEEDS)
def test_kafka_still_answers_so_and_its_files_are_ours(seed: int, tmp_path: Path) -> None:
    answers = stored_answers(seed)
    script = [command(answer) for answer in answers]
    theirs = tmp_path / "kafka" / str(CLICKS)
    assert ask_kafka(script, theirs) == answers
    ours = OurLog(OsDisk(), str(tmp_path / "ours"))
    for line in script:
        ours.run(line)
    start = ours.log.log_start_offset
    state = ours.state()
    ours.directory.close()
    assert batches(theirs) == batches(tmp_path / "ours" / str(CLICKS))
    assert aborted(theirs) == aborted(tmp_path / "ours" / str(CLICKS))
    (theirs.parent / LOG_START_OFFSETS).write_text(f"0\n1\n{CLICKS.topic} {CLICKS.partition} {start}\n")
    # After a crash, the log may have lost the state of transactions with records before the log start.
    for clean in (True, False) if start == 0 else (True,):
        copy = tmp_path / f"copy-{clean}"
        shutil.copytree(theirs.parent, copy)
        if clean:
            (copy / CLEAN_SHUTDOWN).write_text('{"version":0,"brokerEpoch":-1}')
        ours.directory = open_directory(OsDisk(), path=str(copy))
        ours.log = ours.directory.logs[CLICKS]
        assert ours.state() == state
        ours.directory.close()


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as scratch:
        parts = []
        for number in SEEDS:
            lines = ask_kafka([*write_script(number, LENGTH), "reopen"], Path(scratch, str(number), str(CLICKS)))
            parts.append(f"# script {number}\n" + "".join(f"{line}\n" for line in lines))
        ANSWERS.write_text("\n".join(parts))
