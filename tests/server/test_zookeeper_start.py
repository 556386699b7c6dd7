"""Errors and timeouts of a broker that cannot reach ZooKeeper."""

import json
import shutil
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_digest_acl

from ottla.server.former_session import SESSION_FILE
from tests.compat.processes import free_port
from tests.server.broker_process import BrokerProcess, broker_process, command
from tests.store.conftest import new_server

SESSION_MS = 2000
WAITING = "waiting for the previous session of broker 1 to expire"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    server = new_server(tmp_path_factory.mktemp("zookeeper"))
    server.start()
    yield server.address
    server.stop()


@pytest.fixture
def connect(address: str) -> str:
    return f"{address}/{uuid.uuid4().hex}"


def settings(connect: str, **others: str) -> dict[str, str]:
    return {"zookeeper.connect": connect, "zookeeper.session.timeout.ms": str(SESSION_MS), **others}


def complaint(data_dir: Path, wanted: dict[str, str]) -> str:
    done = subprocess.run(command(data_dir, wanted), capture_output=True, text=True, timeout=120)
    assert done.returncode == 1, done.stdout
    [line] = done.stderr.splitlines()
    return line.removeprefix("Ottla cannot start: ")


def test_the_second_of_two_with_one_id_says_so_and_touches_nothing(tmp_path: Path, connect: str) -> None:
    with broker_process(tmp_path / "first", settings(connect)) as first:
        said = complaint(tmp_path / "second", settings(connect))
        assert said == "A broker with id 1 is already running in this cluster; set another node.id."
        assert not (tmp_path / "second" / "meta.properties").exists()
        assert first.terminate() == 0
        assert not any("WARNING" in line or "epoch 2" in line for line in first.output)


def test_a_killed_broker_ends_its_own_session(tmp_path: Path, connect: str) -> None:
    """The start would fail here if it waited for the session, whose timeout is longer than the timeout of a start."""
    long = settings(connect, **{"zookeeper.session.timeout.ms": "36000"})
    with broker_process(tmp_path, long):
        file = tmp_path / SESSION_FILE
        assert file.stat().st_mode & 0o777 == 0o600
        first = file.read_bytes()
    with broker_process(tmp_path, long) as again:
        assert any(", which this broker left behind when it was killed" in line for line in again.output)
        assert not any(WAITING in line for line in again.output)
        assert file.read_bytes() != first
        assert again.terminate() == 0
    with broker_process(tmp_path, long) as third:
        assert not any("session" in line and "left behind" in line for line in third.output), "a clean stop left none"


def test_a_session_of_another_machine_has_to_time_out(tmp_path: Path, connect: str) -> None:
    long = settings(connect, **{"zookeeper.session.timeout.ms": "9000"})
    with broker_process(tmp_path, long):
        pass
    file = tmp_path / SESSION_FILE
    file.write_text(json.dumps(json.loads(file.read_bytes()) | {"boot_id": "another"}))
    with broker_process(tmp_path, long) as again:
        assert any(f"{WAITING}, 10 s at most" in line for line in again.output)
        assert not any("left behind" in line for line in again.output)


def test_a_copy_of_a_directory_does_not_end_the_session_of_the_living_broker(tmp_path: Path, connect: str) -> None:
    with broker_process(tmp_path / "first", settings(connect)) as living:
        shutil.copytree(tmp_path / "first", tmp_path / "copy")
        said = complaint(tmp_path / "copy", settings(connect))
        assert said == "A broker with id 1 is already running in this cluster; set another node.id."
        assert living.terminate() == 0
        assert not any("the session with the store is lost" in line for line in living.output)


def test_nobody_is_there(tmp_path: Path) -> None:
    nobody = f"127.0.0.1:{free_port()}"
    assert complaint(tmp_path, settings(nobody)) == f"ZooKeeper at {nobody} has not been reached for 2 seconds."


def test_a_host_that_does_not_exist(tmp_path: Path) -> None:
    said = complaint(tmp_path, settings("no-such-host.invalid:2181"))
    assert said == "ZooKeeper at no-such-host.invalid:2181 has not been reached for 2 seconds."


def test_a_broker_waits_for_a_zookeeper_that_comes_later(tmp_path: Path) -> None:
    server = new_server(tmp_path / "zookeeper", port=free_port())
    patient = settings(server.address, **{"zookeeper.connection.timeout.ms": "60000"})
    waiting = f"waiting for ZooKeeper at {server.address}, 60 s at most"
    try:
        process = subprocess.Popen(command(tmp_path / "data", patient), stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert any(waiting in line for line in process.stdout)
        server.start()
        assert any("Ottla is ready" in line for line in process.stdout)
    finally:
        process.kill()
        process.communicate()
        server.stop()


def test_a_broker_that_waits_can_be_stopped(tmp_path: Path) -> None:
    patient = settings(f"127.0.0.1:{free_port()}", **{"zookeeper.connection.timeout.ms": "60000"})
    process = subprocess.Popen(command(tmp_path, patient), stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert any("waiting for ZooKeeper" in line for line in process.stdout)
    process.terminate()
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    assert "stopped before the broker was ready" in out


def test_credentials_that_are_not_the_right_ones(tmp_path: Path, address: str) -> None:
    chroot = "/" + uuid.uuid4().hex
    owner = KazooClient(address)
    owner.start()
    owner.create(chroot, acl=[make_digest_acl("ottla", "secret", all=True)])
    owner.stop()
    wrong = settings(address + chroot, **{"zookeeper.auth.digest": "ottla:wrong"})
    assert complaint(tmp_path / "data", wrong) == "ZooKeeper does not allow these credentials to do this."
    right = settings(address + chroot, **{"zookeeper.auth.digest": "ottla:secret", "zookeeper.set.acl": "true"})
    with broker_process(tmp_path / "data", right) as broker:
        assert broker.terminate() == 0
    anybody = KazooClient(address)
    anybody.start()
    acl, _ = anybody.get_acls(chroot + "/controller_epoch")
    anybody.stop()
    assert {entry.id.scheme for entry in acl} == {"auth", "world"} or {entry.id.scheme for entry in acl} == {
        "digest",
        "world",
    }
    assert all(entry.perms == 1 for entry in acl if entry.id.scheme == "world"), "others may only read"


def test_protection_needs_credentials(tmp_path: Path, connect: str) -> None:
    said = complaint(tmp_path, settings(connect, **{"zookeeper.set.acl": "true"}))
    assert said == "zookeeper.set.acl protects nothing without zookeeper.auth.digest=user:password; set both."


def test_data_of_a_cluster_that_zookeeper_does_not_know(tmp_path: Path, connect: str, address: str) -> None:
    with broker_process(tmp_path, settings(connect)) as broker:
        assert broker.terminate() == 0
    other = f"{address}/{uuid.uuid4().hex}"
    said = complaint(tmp_path, settings(other))
    assert said.startswith(f"{tmp_path} belongs to cluster ")
    assert said.endswith(f", but ZooKeeper at {other} is empty: it is the wrong store, or its data is lost.")


def test_without_kazoo(tmp_path: Path, connect: str) -> None:
    hidden = "import sys; sys.modules['kazoo'] = None; from ottla.cli.main import main; sys.exit(main())"
    arguments = command(tmp_path, settings(connect))
    program = [sys.executable, "-c", hidden, *arguments[arguments.index("serve") :]]
    done = subprocess.run(program, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert 'install it with: pip install "kazoo<2.12"' in done.stderr


def test_a_broker_on_every_interface_registers_its_name(tmp_path: Path, connect: str, address: str) -> None:
    arguments = [*command(tmp_path, settings(connect)), "--set", "listeners=PLAINTEXT://0.0.0.0:0"]
    broker = BrokerProcess(arguments)
    client = KazooClient(address)
    try:
        client.start()
        data, _ = client.get(f"/{connect.partition('/')[2]}/brokers/ids/1")
        assert f'"host":"{socket.getfqdn()}"' in data.decode()
    finally:
        client.stop()
        broker.kill()
