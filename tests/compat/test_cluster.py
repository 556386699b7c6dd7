"""Three brokers as processes on one store: confluent-kafka while one stops, and Kafka's own tools that move partitions.

The tools need `KAFKA_JARS=/path/to/kafka/libs`, see `test_java.py`.
"""

import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.compat.conftest import EXTERNAL_BROKER
from tests.compat.processes import BrokerProcess

JARS = os.environ.get("KAFKA_JARS", "")
has_tools = pytest.mark.skipif(
    not (JARS and Path(JARS).is_dir() and shutil.which("java")), reason="KAFKA_JARS names no directory of Kafka's jars"
)
pytestmark = [
    pytest.mark.skipif(bool(EXTERNAL_BROKER), reason="only brokers that this suite starts itself can be stopped"),
    pytest.mark.slow,
]

REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
DEADLINE = 120.0
IDS = (1, 2, 3)


class ThreeBrokers:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.processes = {broker_id: self._process(broker_id) for broker_id in IDS}
        self.bootstrap = ",".join(process.bootstrap_servers for process in self.processes.values())

    def _process(self, broker_id: int) -> BrokerProcess:
        directories = ",".join(str(self.log_dir(broker_id, number)) for number in (0, 1))
        settings = {
            "node.id": str(broker_id),
            "broker.rack": f"rack-{broker_id}",
            "log.dirs": directories,
            "store.file": str(self.directory / "store.sqlite"),
            "offsets.topic.num.partitions": "3",
            "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
            "auto.leader.rebalance.enable": "false",
        }
        return BrokerProcess(self.log_dir(broker_id, 0), settings)

    def log_dir(self, broker_id: int, number: int) -> Path:
        return self.directory / f"broker{broker_id}-{number}"

    def create(self, topic: str, replicas: list[list[int]]) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        partitions = len(replicas)
        for future in admin.create_topics([NewTopic(topic, partitions, replica_assignment=replicas)]).values():
            future.result(DEADLINE)
        self.wait(topic, lambda states: len(states) == partitions and all(leader > 0 for leader, _ in states.values()))

    def states(self, topic: str) -> dict[int, tuple[int, set[int]]]:
        """By partition, who leads and who is in sync."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        found = admin.list_topics(topic, timeout=DEADLINE).topics[topic].partitions
        return {index: (partition.leader, set(partition.isrs)) for index, partition in found.items()}

    def wait(self, topic: str, condition: Callable[[dict[int, tuple[int, set[int]]]], bool]) -> None:
        deadline = time.monotonic() + DEADLINE
        while not condition(states := self.states(topic)):
            assert time.monotonic() < deadline, states
            time.sleep(0.05)

    def tool(self, name: str, *arguments: str) -> str:
        java = ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", f"{JARS}/*"]
        command = [*java, name, "--bootstrap-server", self.bootstrap, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ThreeBrokers]:
    brokers = ThreeBrokers(tmp_path)
    for process in brokers.processes.values():
        process.launch()
    for process in brokers.processes.values():
        process.wait_until_ready()
    yield brokers
    for process in brokers.processes.values():
        process.kill()
        print(process.log())


def write(cluster: ThreeBrokers, topic: str, count: int, partition: int = 0, size: int = 100) -> None:
    failures: list[Any] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})

    def delivered(error: Any, _: Any) -> None:
        if error:
            failures.append(error)

    for number in range(count):
        producer.produce(topic, b"%08d" % number + bytes(size), partition=partition, on_delivery=delivered)
        producer.poll(0)
    assert producer.flush(DEADLINE) == 0
    assert not failures


def test_a_producer_of_default_settings_does_not_notice_a_broker_that_stops(cluster: ThreeBrokers) -> None:
    cluster.create("t", [[1, 2, 3], [2, 3, 1], [3, 1, 2]])
    cluster.wait("t", lambda states: all(len(isr) == 3 for _, isr in states.values()))
    acknowledged: list[int] = []
    failures: list[Any] = []
    stop = threading.Event()
    producer = Producer({"bootstrap.servers": cluster.bootstrap})

    def delivered(error: Any, message: Any) -> None:
        if error:
            failures.append(error)
        else:
            acknowledged.append(int(message.value()))

    def pump() -> None:
        number = 0
        while not stop.wait(0.002):
            producer.produce("t", b"%d" % number, partition=number % 3, on_delivery=delivered)
            producer.poll(0)
            number += 1

    thread = threading.Thread(target=pump)
    thread.start()
    try:
        for broker_id in IDS:
            _grow(acknowledged, 50)
            cluster.processes[broker_id].stop()
            leaders = {leader for leader, _ in cluster.states("t").values()}
            assert broker_id not in leaders, "it handed over before it stopped"
            cluster.processes[broker_id].start()
            cluster.wait("t", lambda states: all(len(isr) == 3 for _, isr in states.values()))
    finally:
        stop.set()
        thread.join()
    assert producer.flush(DEADLINE) == 0
    assert not failures
    assert set(acknowledged) == set(range(max(acknowledged) + 1))
    assert set(_read(cluster, "t", 3, len(set(acknowledged)))) == set(acknowledged)


def _grow(acknowledged: list[int], count: int) -> None:
    enough = len(acknowledged) + count
    _until(lambda: len(acknowledged) >= enough)


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _read(cluster: ThreeBrokers, topic: str, partitions: int, distinct: int) -> list[int]:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "reader", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
    found: list[int] = []
    deadline = time.monotonic() + DEADLINE
    while len(set(found)) < distinct and time.monotonic() < deadline:
        message: Any = consumer.poll(0.2)
        if message is not None and message.error() is None:
            found.append(int(message.value()))
    consumer.close()
    return found


def test_a_consumer_reads_from_its_rack(cluster: ThreeBrokers) -> None:
    cluster.create("t", [[1, 2, 3]])
    cluster.wait("t", lambda states: states[0] == (1, {1, 2, 3}))
    write(cluster, "t", 100)
    reported: list[Any] = []
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "near",
            "client.rack": "rack-2",
            "statistics.interval.ms": 100,
            "stats_cb": lambda text: reported.append(json.loads(text)),
        }
    )
    consumer.assign([TopicPartition("t", 0, 0)])
    found = 0

    def asked() -> dict[int, int]:
        brokers = reported[-1]["brokers"].values() if reported else []
        return {broker["nodeid"]: broker["req"].get("Fetch", 0) for broker in brokers}

    deadline = time.monotonic() + DEADLINE
    while (found < 100 or asked().get(2, 0) == 0) and time.monotonic() < deadline:
        message: Any = consumer.poll(0.1)
        found += message is not None and message.error() is None
    consumer.close()
    assert found == 100
    assert asked()[2] > 0, "the follower was read"
    assert asked()[1] == 1, "the leader was asked once, and said where to go"


@has_tools
def test_kafkas_tool_moves_partitions(cluster: ThreeBrokers, tmp_path: Path) -> None:
    cluster.create("t", [[1, 2], [2, 1]])
    write(cluster, "t", 2000, size=2000)
    wanted, plan = tmp_path / "topics.json", tmp_path / "plan.json"
    wanted.write_text(json.dumps({"version": 1, "topics": [{"topic": "t"}]}))
    generated = cluster.tool(REASSIGN, "--topics-to-move-json-file", str(wanted), "--broker-list", "2,3", "--generate")
    proposal = json.loads(generated.splitlines()[-1])
    assert [set(each["replicas"]) for each in proposal["partitions"]] == [{2, 3}, {2, 3}]
    target = cluster.log_dir(3, 1)
    moves = [{"topic": "t", "partition": 0, "replicas": [3, 2], "log_dirs": [str(target), "any"]}]
    plan.write_text(json.dumps({"version": 1, "partitions": moves}))
    file = ("--reassignment-json-file", str(plan))
    started = cluster.tool(REASSIGN, *file, "--execute", "--throttle", "1000")
    assert "Successfully started partition reassignment for t-0" in started
    assert "t-0: replicas: 3,2,1. adding: 3. removing: 1." in cluster.tool(REASSIGN, "--list")
    assert "still in progress" in cluster.tool(REASSIGN, *file, "--verify")
    cancelled = cluster.tool(REASSIGN, *file, "--cancel")
    assert "Successfully cancelled partition reassignment for: t-0" in cancelled
    assert "No partition reassignments found." in cluster.tool(REASSIGN, "--list")
    cluster.tool(REASSIGN, *file, "--execute")
    cluster.wait("t", lambda states: states[0][1] == {2, 3})
    verified = cluster.tool(REASSIGN, *file, "--verify")
    assert "Reassignment of partition t-0 is completed." in verified
    assert "Clearing broker-level throttles" in verified
    assert (target / "t-0").exists(), "the tool's choice of a directory counts"
    elected = cluster.tool(
        "org.apache.kafka.tools.LeaderElectionCommand", "--election-type", "preferred", "--all-topic-partitions"
    )
    assert "Error" not in elected
    assert cluster.states("t")[0][0] == 3


@has_tools
def test_kafkas_tool_moves_between_directories(cluster: ThreeBrokers, tmp_path: Path) -> None:
    cluster.create("t", [[1]])
    write(cluster, "t", 50)
    here, there = sorted((cluster.log_dir(1, 0), cluster.log_dir(1, 1)), key=lambda path: not (path / "t-0").exists())
    plan = tmp_path / "plan.json"
    moves = [{"topic": "t", "partition": 0, "replicas": [1], "log_dirs": [str(there)]}]
    plan.write_text(json.dumps({"version": 1, "partitions": moves}))
    cluster.tool(REASSIGN, "--reassignment-json-file", str(plan), "--execute")
    _until(lambda: (there / "t-0").exists() and not (here / "t-0").exists())
    verified = cluster.tool(REASSIGN, "--reassignment-json-file", str(plan), "--verify")
    assert "Reassignment of replica t-0-1 completed successfully." in verified
    report = cluster.tool(
        "org.apache.kafka.tools.LogDirsCommand", "--describe", "--broker-list", "1", "--topic-list", "t"
    )
    [broker] = json.loads(report.splitlines()[-1])["brokers"]
    placed = {it["logDir"]: [each["partition"] for each in it["partitions"]] for it in broker["logDirs"]}
    assert placed == {str(here): [], str(there): ["t-0"]}
