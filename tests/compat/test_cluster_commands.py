"""`ottla cluster ...` operates Apache Kafka too. Needs Java and Kafka's jars, named by KAFKA_JARS."""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bench.kafka import server_properties
from ottla.cli.cluster_admin import ClusterAdmin
from tests.cli.conftest import Cli
from tests.cli.process_tree import eventually
from tests.compat.processes import free_port

JARS = os.environ.get("KAFKA_JARS", "")
CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAA"
START_SECONDS = 120.0

pytestmark = pytest.mark.skipif(
    not JARS or shutil.which("java") is None, reason="set KAFKA_JARS to a directory with Kafka's jars, and have java"
)


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Two brokers; the first one is the controller too."""
    directory = tmp_path_factory.mktemp("kafka")
    controller, ports = free_port(), (free_port(), free_port())
    second = {
        "process.roles": "broker",
        "node.id": "2",
        "listeners": f"PLAINTEXT://127.0.0.1:{ports[1]}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{ports[1]}",
    }
    settings: list[dict[str, str]] = [{}, second]
    with contextlib.ExitStack() as stack:
        for number, (port, own) in enumerate(zip(ports, settings, strict=True), start=1):
            properties = directory / f"{number}.properties"
            dirs = {"log.dirs": f"{directory}/{number}a,{directory}/{number}b"}
            properties.write_text(server_properties(directory, port, controller, {**own, **dirs}))
            stack.enter_context(_running(properties))
        servers = ",".join(f"127.0.0.1:{port}" for port in ports)
        admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        eventually(lambda: len(admin.list_topics(timeout=START_SECONDS).brokers) == 2, "both brokers run")
        yield servers


@contextlib.contextmanager
def _running(properties: Path) -> Iterator[None]:
    java = ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{JARS}/*"]
    tool = ["kafka.tools.StorageTool", "format", "--cluster-id", CLUSTER_ID, "--config", str(properties)]
    subprocess.run([*java, *tool], check=True, capture_output=True, timeout=START_SECONDS)
    with properties.with_suffix(".log").open("wb") as output:
        process = subprocess.Popen(
            [*java, "kafka.Kafka", str(properties)], stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
    try:
        yield
    finally:
        process.kill()
        process.wait()


def assigned(servers: str, topic: str) -> list[list[int]]:
    partitions = ClusterAdmin(servers, None).cluster().partitions
    return [it.assigned for key, it in partitions.items() if key.topic == topic]


def test_kafka_is_balanced_drained_and_described(kafka: str) -> None:
    cli = Cli(kafka)
    admin = AdminClient({"bootstrap.servers": kafka, "log_level": 0})
    admin.create_topics([NewTopic("clicks", 4, replica_assignment=[[1]] * 4)])["clicks"].result(60)
    producer = Producer({"bootstrap.servers": kafka, "log_level": 0})
    for number in range(2000):
        producer.produce("clicks", f"{number}{'x' * 1000}", partition=number % 4)
    assert producer.flush(60) == 0
    assert cli.json("cluster", "status")["healthy"]
    preview = cli.json("cluster", "rebalance", "--preview")
    assert [row["replicas_after"] for row in preview["brokers"]] == [2, 2]
    assert preview["bytes_to_copy"] > 900_000
    assert "The cluster is balanced." in cli.ok("cluster", "rebalance", "--throttle", "50MB")
    assert sorted(assigned(kafka, "clicks")) == [[1], [1], [2], [2]]
    for kind in (("--topic", "clicks"), ("--broker", "1"), ("--broker", "2")):
        changed = [entry["name"] for entry in cli.json("configs", "describe", *kind)]
        assert not [name for name in changed if "throttled" in name]
    cli.ok("cluster", "replace", "2", "1")
    assert assigned(kafka, "clicks") == [[1]] * 4
    cli.ok("cluster", "reassign", "--topic", "clicks", "--to", "2", "--execute")
    assert assigned(kafka, "clicks") == [[2]] * 4
    assert cli.ok("cluster", "drain", "2").splitlines()[-1].startswith("Broker 2 has no replicas")
    assert cli.ok("cluster", "elect", "--topic", "clicks") == "No election was needed.\n"
    assert cli.ok("cluster", "reassign", "--cancel") == "There is no move to cancel.\n"
    rows = cli.json("cluster", "disks")
    assert sorted({row["broker"] for row in rows}) == [1, 2]
    assert sum(row["replicas"] for row in rows if row["broker"] == 1) == 4
    assert len(cli.ok("consume", "clicks", "--from-beginning", "--exit-at-end").splitlines()) == 2000
