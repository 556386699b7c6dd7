"""`ottla pipeline run` as a process of its own: stopped, killed, and started again."""

import fcntl
import json
import os
import pty
import re
import signal
import subprocess
import sys
import termios
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ottla.pipeline.records import read_messages
from ottla.testing.topics import create_topic
from tests.pipeline.conftest import produce

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

OTTLA = [sys.executable, "-m", "ottla"]
PATIENCE = 240.0
FILE = """\
from ottla.pipeline import pipeline, to_parquet, topics

@pipeline(topics("{topic}"), to=to_parquet("files"))
def copy(rows):
    return rows.select("value")
"""


class Copy:
    """A pipeline that copies a topic to parquet, and what it has copied."""

    def __init__(self, directory: Path, topic: str, bootstrap: str) -> None:
        self.directory, self.topic, self.bootstrap = directory, topic, bootstrap
        (directory / "copying.py").write_text(FILE.format(topic=topic))
        self.processes: list[subprocess.Popen[str]] = []

    def run(self, *options: str) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [*OTTLA, "pipeline", "run", "copying.py", "--master", "local[2]", *options],
            cwd=self.directory,
            env={**os.environ, "OTTLA_BOOTSTRAP_SERVER": self.bootstrap},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.processes.append(process)
        return process

    def copied(self) -> Counter[bytes]:
        import pyarrow.parquet as pq

        files = (self.directory / "files").glob("batch-*.parquet")
        return Counter(value for file in files for value in pq.read_table(file)["value"].to_pylist())

    def wait_for(self, count: int) -> None:
        deadline = time.monotonic() + PATIENCE
        while self.copied().total() < count:
            assert time.monotonic() < deadline, self.copied()
            assert self.processes[-1].poll() is None, self.processes[-1].communicate()
            time.sleep(0.1)

    def status(self) -> str:
        done = subprocess.run(
            [*OTTLA, "pipeline", "status", "copying.py", "--json", "--bootstrap-server", self.bootstrap],
            cwd=self.directory,
            capture_output=True,
            text=True,
            check=True,
        )
        return str(json.loads(done.stdout)[0]["state"])


@pytest.fixture
def copy(tmp_path: Path, bootstrap: str, unique: Callable[[str], str]) -> Iterator[Copy]:
    topic = unique("copy")
    create_topic(bootstrap, topic, 1)
    found = Copy(tmp_path, topic, bootstrap)
    yield found
    for process in found.processes:
        if process.poll() is None:
            process.kill()
            process.wait()


def values(first: int, last: int) -> list[bytes | None]:
    return [str(number).encode() for number in range(first, last)]


def test_ctrl_c_stops_and_the_next_run_goes_on(copy: Copy) -> None:
    produce(copy.bootstrap, copy.topic, values(0, 50))
    process = copy.run()
    copy.wait_for(50)
    assert copy.status() == "running"
    second = copy.run("--once")
    assert second.wait(PATIENCE) == 1
    assert f"is already running, as process {process.pid}." in second.communicate()[1]
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, err) == (0, "")
    assert "copy: 50 rows in 1 batches" in out
    assert copy.status() == "stopped"

    produce(copy.bootstrap, copy.topic, values(50, 60))
    again = copy.run("--once")
    out, err = again.communicate(timeout=PATIENCE)
    assert (again.returncode, err) == (0, "")
    assert "copy: 10 rows in 1 batches" in out
    assert copy.copied() == Counter(map(bytes, values(0, 60)))  # type: ignore[arg-type]


def test_killed_in_the_middle_nothing_is_lost_or_doubled(copy: Copy) -> None:
    produce(copy.bootstrap, copy.topic, values(0, 20))
    process = copy.run("--trigger", "100 milliseconds")
    copy.wait_for(20)
    for number in range(20, 200, 10):
        produce(copy.bootstrap, copy.topic, values(number, number + 10))
        time.sleep(0.05)
    process.kill()
    process.wait()
    assert copy.status() == "died"
    again = copy.run("--once")
    out, err = again.communicate(timeout=PATIENCE)
    assert (again.returncode, err) == (0, ""), out
    assert copy.copied() == Counter(map(bytes, values(0, 200)))  # type: ignore[arg-type]


def test_a_terminal_shows_a_table_and_takes_ctrl_c(copy: Copy) -> None:
    """The key reaches every process of the terminal's group; Spark's must not be among them."""
    produce(copy.bootstrap, copy.topic, values(0, 5))
    terminal, inside = pty.openpty()
    process = subprocess.Popen(
        [*OTTLA, "pipeline", "run", "copying.py", "--master", "local[2]"],
        cwd=copy.directory,
        env={**os.environ, "OTTLA_BOOTSTRAP_SERVER": copy.bootstrap, "TERM": "xterm", "COLUMNS": "120"},
        stdin=inside,
        stdout=inside,
        stderr=inside,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    os.close(inside)
    shown = b""
    try:
        while chunk := os.read(terminal, 4096):
            shown += chunk
            if copy.copied().total() == 5 and b"^C" not in shown:
                os.write(terminal, b"\x03")
    except OSError:
        pass  # Linux reports the end of a terminal as an error.
    os.close(terminal)
    assert process.wait() == 0, shown
    for expected in (b"Starting Spark", b"rows/s", b"Ctrl-C stops"):
        assert expected in shown
    # The key may come after the rows are there and before Spark has said so.
    assert re.search(rb"copy: (5 rows in 1|0 rows in 0) batches", shown)
    assert b"WARN" not in shown
    assert copy.status() == "stopped"


def test_the_demo_ends_with_a_report(tmp_path: Path) -> None:
    done = subprocess.run(
        [*OTTLA, "pipeline", "demo", "--seconds", "15", "--dir", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=560,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert done.stdout.endswith(f"The report is {tmp_path / 'report.html'}: open it in a browser.\n")
    text = (tmp_path / "report.html").read_text()
    for expected in ("Ottla at work", "page views", "Most viewed pages", "Reasons of dead letters", "The last run"):
        assert expected in text
    assert text.count("<svg") >= 10
    assert "no data" not in text


def test_a_broker_that_goes_away_ends_the_run_with_a_sentence(tmp_path: Path, unique: Callable[[str], str]) -> None:
    import ottla

    with ottla.embedded() as broker:
        create_topic(broker.bootstrap_servers, "gone", 1)
        produce(broker.bootstrap_servers, "gone", values(0, 5))
        assert len(list(read_messages(broker.bootstrap_servers, "gone"))) == 5
        file = FILE.replace('"{topic}"', '"gone", options={{"kafka.default.api.timeout.ms": "2000"}}').format()
        job = Copy(tmp_path, "gone", broker.bootstrap_servers)
        (tmp_path / "copying.py").write_text(file)
        process = job.run()
        job.wait_for(5)
    try:
        out, err = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    assert process.returncode == 1, out
    [line] = err.splitlines()
    assert line.startswith("Pipeline copy failed: ")
    assert "no broker could be reached" in line
