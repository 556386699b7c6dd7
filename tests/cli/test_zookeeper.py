"""The development ZooKeeper: started, asked, stopped, and what is said when it cannot be."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ottla.cli.app import app
from ottla.cli.command_error import CommandError
from ottla.cli.zookeeper_server import require_jars, require_java
from ottla.env import java
from tests.cli.process_tree import ended
from tests.store.conftest import new_server

OTTLA = [sys.executable, "-c", "import sys; from ottla.cli.main import main; sys.exit(main())"]


def complaint(*arguments: str, **environment: str) -> str:
    result = CliRunner(env=environment).invoke(app, ["zookeeper", *arguments], catch_exceptions=False)
    assert result.exit_code == 1, result.output
    [line] = result.stderr.splitlines()
    return line


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_it_says_when_it_is_ready_and_stops_when_told(tmp_path: Path, number: signal.Signals) -> None:
    jars = new_server(tmp_path)._jars
    command = [*OTTLA, "zookeeper", "--data-dir", str(tmp_path / "data"), "--port", "0", "--jars", str(jars)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        ready = process.stdout.readline().split()
        assert ready[0] == "ZooKeeper"
        assert ready[2:4] == ["is", "ready:"]
        host, _, port = ready[4].partition(":")
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(b"srvr")
            assert b"Mode: standalone" in connection.recv(4096)
        process.send_signal(number)
        out, err = process.communicate(timeout=120)
    finally:
        ended(process)
    assert (process.returncode, out, err) == (0, "Stopping ZooKeeper ...\n", "")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)))
    assert (tmp_path / "data" / "version-2").is_dir()


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    jars = new_server(tmp_path)._jars
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        said = complaint("--data-dir", str(tmp_path / "data"), "--port", port, "--jars", str(jars))
    assert said == f"127.0.0.1:{port} cannot be listened on: Address already in use; choose another port with --port."


def test_a_server_that_cannot_start_says_where_to_look(tmp_path: Path) -> None:
    """A log of another server: ZooKeeper refuses to serve from it."""
    jars = new_server(tmp_path)._jars
    data = tmp_path / "data" / "version-2"
    data.mkdir(parents=True)
    (data / "snapshot.5").write_bytes(b"not a snapshot")
    (data / "log.6").write_bytes(b"not a log")
    said = complaint("--data-dir", str(tmp_path / "data"), "--port", "0", "--jars", str(jars))
    assert said.startswith("ZooKeeper ended with exit code ")
    assert said.endswith(f"; see {tmp_path}/data/zookeeper.log.")


def test_no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "_bundled", lambda: None)
    with pytest.raises(CommandError, match="ZooKeeper needs Java 17 or newer and there is none: install Java 17"):
        require_java({"PATH": str(tmp_path)})
    with pytest.raises(CommandError, match=f"and {tmp_path}/bin/java does not run: install Java 17"):
        require_java({"PATH": str(tmp_path), "JAVA_HOME": str(tmp_path)})


def test_a_directory_without_jars(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"There is no zookeeper-\*\.jar in"):
        require_jars(tmp_path, {})
    with pytest.raises(CommandError, match=r"There is no zookeeper-\*\.jar in"):
        require_jars(None, {"ZOOKEEPER_JARS": str(tmp_path)})


def test_jars_come_from_pyspark_when_nothing_else_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    carried = tmp_path / "pyspark" / "jars"
    carried.mkdir(parents=True)
    (tmp_path / "pyspark" / "__init__.py").touch()
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(CommandError, match="run `pip install pyspark`"):
        require_jars(None, {})
    (carried / "zookeeper-jute-3.9.5.jar").touch()
    with pytest.raises(CommandError, match="run `pip install pyspark`"):
        require_jars(None, {})
    (carried / "zookeeper-3.9.5.jar").touch()
    assert require_jars(None, {}) == carried


def test_the_jars_can_be_named_in_the_environment(tmp_path: Path) -> None:
    (tmp_path / "zookeeper-3.9.5.jar").touch()
    assert require_jars(None, {"ZOOKEEPER_JARS": os.fspath(tmp_path)}) == tmp_path
