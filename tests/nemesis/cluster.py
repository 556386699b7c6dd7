"""Brokers and their ZooKeeper as processes, with a network that can be cut."""

import signal
import sys
from collections.abc import Callable
from pathlib import Path

from ottla.cli.zookeeper_server import ZooKeeperServer, require_jars, require_java
from tests.compat.processes import BrokerProcess, free_port
from tests.nemesis.network import Network, Way, broker

ZOOKEEPER = "zookeeper"
CLIENTS = "clients"
SESSION_SECONDS = 2.0
REPLICATION_FACTOR = 3

SETTINGS = {
    "listener.security.protocol.map": "CLIENTS:PLAINTEXT,BROKERS:PLAINTEXT",
    "inter.broker.listener.name": "BROKERS",
    "zookeeper.session.timeout.ms": str(int(SESSION_SECONDS * 1000)),
    "replica.lag.time.max.ms": "2000",
    "replica.socket.timeout.ms": "2000",
    "min.insync.replicas": "2",
    "default.replication.factor": str(REPLICATION_FACTOR),
    "offsets.topic.replication.factor": str(REPLICATION_FACTOR),
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.replication.factor": str(REPLICATION_FACTOR),
    "transaction.state.log.min.isr": "2",
    "transaction.state.log.num.partitions": "3",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "leader.imbalance.check.interval.seconds": "5",
}
"""Short timeouts, so that failures are detected quickly."""


class Node(BrokerProcess):
    """One broker, with a listener for clients and one for other brokers. Both are reached through the network."""

    def __init__(self, number: int, directory: Path, network: Network, zookeeper_port: int | None) -> None:
        """Without a port of ZooKeeper, the brokers share a SQLite file."""
        super().__init__(directory / f"broker-{number}")
        self.number = number
        self.name = broker(number)
        among_brokers = free_port()
        self.client_port = network.listen(self.name, self.port, CLIENTS)
        brokers_port = network.listen(self.name, among_brokers)
        self.settings = {
            **SETTINGS,
            "node.id": str(number),
            "listeners": f"CLIENTS://127.0.0.1:{self.port},BROKERS://127.0.0.1:{among_brokers}",
            "advertised.listeners": f"CLIENTS://127.0.0.1:{self.client_port},BROKERS://127.0.0.1:{brokers_port}",
        }
        if zookeeper_port is None:
            self.settings["store.file"] = str(directory / "store.sqlite")
        else:
            way = network.listen(ZOOKEEPER, zookeeper_port, self.name)
            self.settings["zookeeper.connect"] = f"127.0.0.1:{way}/ottla"

    def command(self) -> list[str]:
        settings = [argument for key, value in self.settings.items() for argument in ("--set", f"{key}={value}")]
        return [sys.executable, "-m", "ottla", "serve", "--data-dir", str(self.data_dir), *settings]

    def terminate(self) -> Callable[[], bool]:
        """Send SIGTERM without waiting. Returns a function that tells whether the process has ended."""
        process = self._process
        if process is None:
            return lambda: True
        process.terminate()
        return lambda: process.poll() is not None

    def pause(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)


class Cluster:
    def __init__(self, directory: Path, brokers: int, *, zookeeper: bool = True) -> None:
        self.network = Network()
        self.zookeeper = (
            ZooKeeperServer(require_java(), require_jars(None), directory / "zookeeper", 0, tick_ms=200)
            if zookeeper
            else None
        )
        port = None if self.zookeeper is None else self.zookeeper.port
        self.nodes = [Node(number, directory, self.network, port) for number in range(1, brokers + 1)]

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"127.0.0.1:{node.client_port}" for node in self.nodes)

    def start(self) -> None:
        self.start_zookeeper()
        for node in self.nodes:
            node.launch()
        self.wait_until_ready()

    def wait_until_ready(self) -> None:
        for node in self.nodes:
            node.wait_until_ready()

    def close(self) -> None:
        """Kill all processes."""
        for node in self.nodes:
            node.resume()
            node.kill()
        if self.zookeeper is not None:
            self.zookeeper.stop()
        self.network.close()

    def start_zookeeper(self) -> None:
        if self.zookeeper is not None and self.zookeeper.process is None:
            self.zookeeper.start()

    def kill_zookeeper(self) -> None:
        if self.zookeeper is not None and self.zookeeper.process is not None:
            self.zookeeper.process.kill()
            self.zookeeper.process.wait()
            self.zookeeper.process = None

    def around(self, node: Node) -> list[Way]:
        """The links between a broker and all others."""
        others = [other.name for other in self.nodes if other is not node]
        return [way for other in others for way in (Way(node.name, other), Way(other, node.name))]

    def heal(self) -> None:
        """Start all processes and restore all links."""
        self.network.mend_all()
        self.start_zookeeper()
        for node in self.nodes:
            node.resume()
            if not node.runs():
                node.launch()
        self.wait_until_ready()
