"""Start, measure and stop the brokers under test, each with its own temporary directory."""

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from bench import wire
from bench.kafka import CLUSTER_ID, SERVER_JVM_FLAGS, java, server_properties
from bench.measurement import CONNECTOR, KAFKA, NULL, NULL_FSYNC, OTTLA, TUNED_CONNECTOR
from bench.usage import Usage, cpu_seconds_of, usage_of

START_TIMEOUT = 90.0
_ROOT = Path(__file__).parent.parent
_LOG_TAIL = 2000
_REST_SECONDS = 0.2
_REST_SHARE = 0.15
"""Brokers that use less than this share of a core count as idle."""
_REST_TIMEOUT = 20.0

SETTINGS = {"group.initial.rebalance.delay.ms": "0", "log.segment.delete.delay.ms": "500"}
"""Set for both brokers: do not wait for more group members, and remove deleted topics from the disk quickly."""


SERVED_BY = {CONNECTOR: OTTLA, TUNED_CONNECTOR: OTTLA}
"""Clients that are compared with Ottla's own client, on the same broker."""

_READY_LINES = {OTTLA: "Ottla is ready: "}
"""Kafka opens its port when it is ready, and its log output depends on the logging configuration."""


class BrokerError(Exception):
    """A broker did not start or ended unexpectedly."""


class Client(Protocol):
    """A client that uses a broker for several passes."""

    def close(self) -> None: ...


@dataclass(slots=True)
class Broker:
    """A running broker process on a loopback port, or the first node of a cluster."""

    name: str
    """Name of the measured subject: the broker, or one of the clients in SERVED_BY."""
    process: subprocess.Popen[bytes]
    bootstrap: str
    directory: Path
    log: Path
    started: float
    """`time.perf_counter()` just before the process was started."""
    clients: dict[str, Client] = field(default_factory=dict)
    """Clients to close before the broker ends."""
    others: "tuple[Broker, ...]" = ()
    """The other nodes of the cluster."""

    @property
    def nodes(self) -> "tuple[Broker, ...]":
        return (self, *self.others)

    @property
    def cluster_bootstrap(self) -> str:
        return ",".join(node.bootstrap for node in self.nodes)

    def usage(self) -> Usage:
        self.check()
        return usage_of(self.process.pid)

    def cpu_seconds(self) -> float:
        """CPU time of all nodes."""
        for node in self.nodes:
            node.check()
        return sum(cpu_seconds_of(node.process.pid) for node in self.nodes)

    def check(self) -> None:
        if self.process.poll() is not None:
            raise BrokerError(f"{self.name} ended with status {self.process.returncode}: {self._log_tail()}")

    def wait_until_serving(self, timeout: float = START_TIMEOUT) -> None:
        """Wait until the broker has printed its ready line, if it has one, and answers a request."""
        deadline = time.monotonic() + timeout
        while not (_READY_LINES.get(self.name, "") in self._output() and wire.answers(self.bootstrap)):
            self.check()
            if time.monotonic() > deadline:
                raise BrokerError(f"{self.name} was not ready in {timeout:.0f} s: {self._log_tail()}")
            time.sleep(0.02)

    def stop(self) -> None:
        """Close the clients and kill the process. A clean stop is not needed, because the data is deleted next."""
        try:
            while self.clients:
                self.clients.popitem()[1].close()
        finally:
            self.process.kill()
            self.process.wait()

    def _log_tail(self) -> str:
        return self._output()[-_LOG_TAIL:]

    def _output(self) -> str:
        return self.log.read_text(errors="replace")


@contextlib.contextmanager
def start(name: str, settings: Mapping[str, str] | None = None, *, wait: bool = True) -> Iterator[Broker]:
    """Run a broker during a `with` block. At the end, stop the broker and delete its data."""
    directory = Path(tempfile.mkdtemp(prefix="ottla-bench-"))
    try:
        port = free_port()
        command = _COMMANDS[name](directory, port, {**SETTINGS, **(settings or {})})
        broker = _spawn(name, command, port, directory)
        try:
            if wait:
                broker.wait_until_serving()
            yield broker
        finally:
            broker.stop()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextlib.contextmanager
def start_cluster(name: str, nodes: int) -> Iterator[Broker]:
    """Run a cluster during a `with` block. Topics have a replica on every node and min.insync.replicas=2."""
    directory = Path(tempfile.mkdtemp(prefix="ottla-bench-"))
    ports = [free_port() for _ in range(2 * nodes)]
    started: list[Broker] = []
    try:
        for number, port in enumerate(ports[:nodes], 1):
            own = directory / str(number)
            own.mkdir()
            settings = _CLUSTER_SETTINGS[name](directory, number, ports[:nodes], ports[nodes:])
            command = _COMMANDS[name](own, port, {**SETTINGS, **_replicated(nodes), **settings})
            started.append(_spawn(name, command, port, own))
        for broker in started:
            broker.wait_until_serving()
        yield replace(started[0], others=tuple(started[1:]))
    finally:
        for broker in started:
            broker.stop()
        shutil.rmtree(directory, ignore_errors=True)


def _replicated(nodes: int) -> dict[str, str]:
    factor = str(nodes)
    return {
        "default.replication.factor": factor,
        "min.insync.replicas": "2",
        "offsets.topic.replication.factor": factor,
        "transaction.state.log.replication.factor": factor,
    }


def _ottla_node(directory: Path, number: int, ports: Sequence[int], _: Sequence[int]) -> dict[str, str]:
    """Brokers on one machine share a SQLite file instead of ZooKeeper."""
    return {"node.id": str(number), "store.file": str(directory / "store.sqlite")}


def _kafka_node(directory: Path, number: int, ports: Sequence[int], controllers: Sequence[int]) -> dict[str, str]:
    listeners = f"PLAINTEXT://127.0.0.1:{ports[number - 1]},CONTROLLER://127.0.0.1:{controllers[number - 1]}"
    voters = ",".join(f"{voter}@127.0.0.1:{port}" for voter, port in enumerate(controllers, 1))
    return {"node.id": str(number), "listeners": listeners, "controller.quorum.voters": voters}


_CLUSTER_SETTINGS = {OTTLA: _ottla_node, KAFKA: _kafka_node}


def _spawn(name: str, command: Sequence[str], port: int, directory: Path) -> Broker:
    """Start the process in its own session. Ctrl-C reaches only the benchmark, which stops the brokers in order."""
    log = directory / "broker.out"
    with log.open("wb") as output:
        started = time.perf_counter()
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=_ROOT,
            env=_environment(),
            start_new_session=True,
        )
    return Broker(name, process, f"127.0.0.1:{port}", directory, log, started)


def _environment() -> dict[str, str]:
    """Allow bytecode files: without an installed package, Python writes them at the first start."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def _ottla_command(directory: Path, port: int, settings: Mapping[str, str]) -> list[str]:
    program = Path(sys.executable).with_name("ottla")
    chosen = [argument for key, value in settings.items() for argument in ("--set", f"{key}={value}")]
    return [str(program), "serve", "--data-dir", str(directory / "data"), "--listen", f"127.0.0.1:{port}", *chosen]


def _kafka_command(directory: Path, port: int, settings: Mapping[str, str]) -> list[str]:
    """Format the storage first. This is not part of the measured start."""
    properties = directory / "server.properties"
    properties.write_text(server_properties(directory / "data", port, free_port(), settings))
    arguments = ("format", "--cluster-id", CLUSTER_ID, "--config", str(properties))
    done = subprocess.run(
        [*java(["-Xmx256M"]), "kafka.tools.StorageTool", *arguments], capture_output=True, text=True, timeout=60
    )
    if done.returncode != 0:
        raise BrokerError(f"Kafka's storage could not be formatted: {done.stdout}{done.stderr}")
    logs = directory / "logs"
    logs.mkdir()
    gc_log = f"-Xlog:gc*:file={logs}/kafkaServer-gc.log:time,tags:filecount=10,filesize=100M"
    return [*java([*SERVER_JVM_FLAGS, gc_log]), "kafka.Kafka", str(properties)]


def _null_command(directory: Path, port: int, _: Mapping[str, str]) -> list[str]:
    return [sys.executable, "-m", "bench.null_broker", "--file", str(directory / "null.log"), "--port", str(port)]


def _null_fsync_command(directory: Path, port: int, settings: Mapping[str, str]) -> list[str]:
    return [*_null_command(directory, port, settings), "--fsync"]


_COMMANDS = {
    KAFKA: _kafka_command,
    OTTLA: _ottla_command,
    NULL: _null_command,
    NULL_FSYNC: _null_fsync_command,
}


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def touch_pages(size: int) -> None:
    """Fill and free this much page cache.

    A virtual machine may return free memory to its host. The first write to such a page is about ten times slower,
    because the host has to provide the memory again. Without this step, that would be measured instead of the broker.
    """
    zeros = bytes(1 << 20)
    with tempfile.TemporaryFile(prefix="ottla-bench-", buffering=0) as file:
        for _ in range(size >> 20):
            file.write(zeros)


def settle(seconds: float, running: Sequence[Broker]) -> None:
    """Wait until deleted topics are removed, dirty pages are written, and all brokers are idle.

    So a measurement contains no work that an earlier measurement caused.
    """
    time.sleep(seconds)
    os.sync()
    deadline = time.monotonic() + _REST_TIMEOUT
    while time.monotonic() < deadline:
        before = sum(broker.cpu_seconds() for broker in running)
        time.sleep(_REST_SECONDS)
        if sum(broker.cpu_seconds() for broker in running) - before <= _REST_SECONDS * _REST_SHARE:
            return
