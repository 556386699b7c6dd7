"""The commands that start no Spark, and what is said before Spark starts."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.testing.embedded import EmbeddedBroker
from tests.cli.conftest import Cli

FILE = """\
from ottla.pipeline import pipeline, to_parquet, to_topic, topics

clicks = topics("{topic}", schema="user string", watermark=("at", "1 minute"))

@pipeline(clicks, to=[to_topic("out", key="user"), to_parquet("files")])
def counted(rows):
    \"\"\"Counts clicks.\"\"\"
    return rows
"""


@pytest.fixture
def cli(ottla_broker: EmbeddedBroker) -> Cli:
    return Cli(ottla_broker.bootstrap_servers)


@pytest.fixture
def file(tmp_path: Path, unique: Callable[[str], str]) -> Path:
    path = tmp_path / "job.py"
    path.write_text(FILE.format(topic=unique("clicks")))
    return path


def test_list(cli: Cli, file: Path) -> None:
    assert "activity" in cli.ok("pipeline", "list")
    assert [each["name"] for each in cli.json("pipeline", "list")] == [
        "activity",
        "logs",
        "metrics",
        "changes",
        "export",
    ]
    [listed] = cli.json("pipeline", "list", str(file))
    assert (listed["name"], listed["summary"]) == ("counted", "Counts clicks.")


def test_describe(cli: Cli, file: Path, tmp_path: Path) -> None:
    text = cli.ok("pipeline", "describe", str(file), "--dir", str(tmp_path))
    for expected in (
        "counted: Counts clicks.",
        "schema      user string",
        "watermark   at 1 minute",
        "writes      topic out, key user, at-least-once (append)",
        "writes      parquet in files (append)",
        f"checkpoint  {tmp_path}/checkpoints/job/counted",
    ):
        assert expected in text
    [document] = cli.json("pipeline", "describe", f"{file}:counted")
    assert document["sources"][0]["dead_letters"][0].endswith(".dlq")


def test_status_of_what_never_ran(cli: Cli, file: Path, tmp_path: Path) -> None:
    [status] = cli.json("pipeline", "status", str(file), "--dir", str(tmp_path))
    assert (status["state"], status["queries"][0]["lag"]) == ("never run", None)


def test_status_of_what_died_and_what_failed(cli: Cli, file: Path, tmp_path: Path) -> None:
    place = tmp_path / "checkpoints" / "job" / "counted"
    place.mkdir(parents=True)
    (place / "status.json").write_text(json.dumps({"state": "running", "pid": 1, "queries": []}))
    assert cli.json("pipeline", "status", str(file), "--dir", str(tmp_path))[0]["state"] == "died"
    (place / "status.json").write_text(json.dumps({"state": "failed", "reason": "It rained.", "queries": []}))
    assert "It rained." in cli.ok("pipeline", "status", str(file), "--dir", str(tmp_path))


def test_before_spark_starts(cli: Cli, file: Path, tmp_path: Path) -> None:
    assert "does not exist; see `ottla topics list`" in cli.fails("pipeline", "run", str(file), "--dir", str(tmp_path))
    assert cli.fails("pipeline", "run", "nowhere.py").startswith("There is no file nowhere.py")
    assert "has no pipeline other; it has counted" in cli.fails("pipeline", "run", f"{file}:other")
    assert "is not of the form KEY=VALUE" in cli.refuses("pipeline", "run", str(file), "--conf", "x")
    assert "nothing is not built in" in cli.fails("pipeline", "generate", "nothing")
    assert "has no result yet" in cli.fails("pipeline", "report", "logs", "--dir", str(tmp_path))


def test_a_checkpoint_of_another_query(cli: Cli, file: Path, tmp_path: Path) -> None:
    topic = cli.json("pipeline", "list", str(file))[0]["topics"][0]
    cli.ok("topics", "create", topic)
    place = tmp_path / "checkpoints" / "job" / "counted"
    place.mkdir(parents=True)
    (place / "pipeline.json").write_text(json.dumps({"name": "counted", "topics": [["other"]], "sinks": {}}))
    assert "that query reads other" in cli.fails("pipeline", "run", str(file), "--dir", str(tmp_path))


def test_nobody_there(file: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    expected = f"No broker answered at {address}; start one with `ottla serve` or pass --bootstrap-server."
    assert Cli(address).fails("pipeline", "run", str(file), "--dir", str(tmp_path)) == expected
    assert Cli(address).fails("sql", "select 1") == expected


def in_a_process(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=dict(os.environ)
    )


def test_without_pyspark() -> None:
    program = (
        "import sys, importlib.util as util\n"
        "find = util.find_spec\n"
        "util.find_spec = lambda name, *rest: None if name == 'pyspark' else find(name, *rest)\n"
        "from ottla.cli.main import main\n"
        "sys.argv = ['ottla', 'pipeline', 'describe', 'activity']\n"
        "print(main())\n"
    )
    done = in_a_process(program)
    assert done.stdout == "1\n"
    assert (
        done.stderr
        == 'Pipelines need pyspark, which is not installed: run `pip install ".[spark]"` in the checkout of Ottla.\n'
    )


def test_other_commands_do_not_wait_for_spark() -> None:
    program = (
        "import sys\n"
        "from ottla.cli.main import main\n"
        "sys.argv = ['ottla', 'pipeline', 'list']\n"
        "main()\n"
        "print([name for name in ('pyspark', 'pyarrow', 'pandas', 'numpy') if name in sys.modules])\n"
    )
    assert in_a_process(program).stdout.splitlines()[-1] == "[]"
