"""The broker under torture: Ottla, or Apache Kafka to validate the test itself."""

import subprocess
from pathlib import Path

from bench import kafka, wire
from tests.compat.processes import STOP_TIMEOUT, BrokerProcess, free_port

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "log.roll.ms": "5000",
    "log.cleaner.backoff.ms": "500",
    "log.cleaner.min.cleanable.ratio": "0.01",
}
"""Short timeouts for members and transactions. Small segments, so that transactions span segments, and the
coordinators' topics are compacted during the run."""

_KAFKA_SETTINGS = {"broker.session.timeout.ms": "1500", "broker.heartbeat.interval.ms": "300"}
"""A killed node can register again only after its old session has ended."""


class KafkaProcess(BrokerProcess):
    """A single Kafka node from its jars, which is broker and controller."""

    def __init__(self, data_dir: Path) -> None:
        super().__init__(data_dir, {**SETTINGS, **_KAFKA_SETTINGS})
        self._properties = data_dir.with_name("server.properties")
        self._properties.write_text(kafka.server_properties(data_dir, self.port, free_port(), self.settings))
        storage = ["kafka.tools.StorageTool", "format", "--cluster-id", kafka.CLUSTER_ID]
        command = [*kafka.java(["-Xmx256M"]), *storage, "--config", str(self._properties)]
        subprocess.run(command, check=True, capture_output=True, timeout=60)

    def command(self) -> list[str]:
        return [*kafka.java(["-Xmx512M", *kafka.PERFORMANCE_FLAGS]), "kafka.Kafka", str(self._properties)]

    def _said_ready(self, _: int) -> bool:
        """The log output depends on the logging setup, so readiness is checked with a request."""
        return wire.answers(self.bootstrap_servers)

    def stop(self) -> None:
        """After SIGTERM a JVM always exits with 143."""
        assert self._process is not None, "the broker is not running"
        self._process.terminate()
        self._process.wait(STOP_TIMEOUT)
        self._process = None


def ottla(directory: Path) -> BrokerProcess:
    return BrokerProcess(directory / "data", SETTINGS)


def apache_kafka(directory: Path) -> BrokerProcess:
    return KafkaProcess(directory / "data")


BROKERS = {"ottla": ottla, "kafka": apache_kafka}
