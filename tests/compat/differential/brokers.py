"""Apache Kafka, from the jars that KAFKA_JARS names, and Ottla: one node each, with the same settings."""

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from bench.kafka import CLUSTER_ID, server_properties
from tests.compat.processes import BrokerProcess, free_port
from tests.server.wire_client import is_served

START_TIMEOUT = 240.0

SETTINGS = {
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "group.max.session.timeout.ms": "60000",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "log.segment.delete.delay.ms": "1000",
}
_QUICK_START = ("-Xmx512M", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


class Pair(NamedTuple):
    """The addresses of both brokers."""

    kafka: str
    ottla: str


def missing() -> str | None:
    """Why Apache Kafka cannot be started here."""
    jars = os.environ.get("KAFKA_JARS", "")
    if not jars or not any(Path(jars).glob("kafka_2.13-*.jar")):
        return "KAFKA_JARS names no directory of Kafka's jars"
    return None if shutil.which("java") else "there is no Java"


@contextlib.contextmanager
def running_pair(directory: Path) -> Iterator[Pair]:
    """Both brokers, for a `with` block."""
    ottla = BrokerProcess(directory / "ottla", {**SETTINGS, "log.dirs": log_directories(directory / "ottla")})
    with apache_kafka(directory) as kafka:
        ottla.start()
        try:
            yield Pair(kafka, ottla.bootstrap_servers)
        finally:
            ottla.kill()


def log_directories(directory: Path) -> str:
    return f"{directory / 'first'},{directory / 'second'}"


@contextlib.contextmanager
def apache_kafka(directory: Path) -> Iterator[str]:
    port, properties, log = free_port(), directory / "server.properties", directory / "kafka.log"
    settings = {**SETTINGS, "log.dirs": log_directories(directory / "kafka")}
    properties.write_text(server_properties(directory / "kafka", port, free_port(), settings))
    java = ["java", *_QUICK_START, "-cp", f"{os.environ['KAFKA_JARS']}/*"]
    # Eligible leader replicas would come with a dynamic min.insync.replicas for all brokers.
    feature = ["--feature", "eligible.leader.replicas.version=0"]
    tool = ["kafka.tools.StorageTool", "format", "--cluster-id", CLUSTER_ID, "--config", str(properties), *feature]
    subprocess.run([*java, *tool], check=True, capture_output=True, timeout=START_TIMEOUT)
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*java, "kafka.Kafka", str(properties)], stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
    try:
        _wait_until_served(f"127.0.0.1:{port}", process, log)
        yield f"127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def _wait_until_served(bootstrap: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT
    while True:
        with contextlib.suppress(OSError, EOFError):
            if is_served(bootstrap):
                return
        if process.poll() is not None or time.monotonic() > deadline:
            raise AssertionError(f"Apache Kafka did not start: {log.read_text(errors='replace')[-2000:]}")
        time.sleep(0.05)
