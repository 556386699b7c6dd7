"""Apache Kafka's own command-line tools. Every call starts a JVM, so each test does much with few calls.

`KAFKA_JARS=/path/to/kafka/libs` switches them on.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kafka.partitioner.default import murmur2

from tests.compat.confluent_client import Record, produce, read_partition
from tests.compat.conftest import MakeTopic

JARS = os.environ.get("KAFKA_JARS", "")
pytestmark = [
    pytest.mark.skipif(not (JARS and Path(JARS).is_dir()), reason="KAFKA_JARS names no directory of Kafka's jars"),
    pytest.mark.skipif(shutil.which("java") is None, reason="java is not installed"),
    pytest.mark.slow,
]

Tool = Callable[..., str]


@pytest.fixture
def tool(bootstrap: str) -> Tool:
    """Run one of Kafka's tools against the broker; returns what it printed, fails when the tool does."""

    def run(name: str, *arguments: str, stdin: str = "") -> str:
        java = ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", f"{JARS}/*"]
        command = [*java, name, "--bootstrap-server", bootstrap, *arguments]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=240)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


TOPICS = "org.apache.kafka.tools.TopicCommand"
CONFIGS = "kafka.admin.ConfigCommand"
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
CONSOLE_PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
OFFSETS = "org.apache.kafka.tools.GetOffsetShell"


def test_topics_from_creation_to_deletion(tool: Tool, unique: Callable[[], str]) -> None:
    topic = unique()
    created = tool(TOPICS, "--create", "--topic", topic, "--partitions", "2", "--config", "retention.ms=5000")
    assert created.strip() == f"Created topic {topic}."
    tool(TOPICS, "--alter", "--topic", topic, "--partitions", "3")
    first, *partitions = tool(TOPICS, "--describe", "--topic", topic).splitlines()
    assert f"Topic: {topic}\t" in first
    assert "PartitionCount: 3\tReplicationFactor: 1\t" in first
    assert "retention.ms=5000" in first
    assert [line.split("\t")[2] for line in partitions] == ["Partition: 0", "Partition: 1", "Partition: 2"]
    assert all("Leader: none" not in line for line in partitions)
    tool(TOPICS, "--delete", "--topic", topic)
    assert topic not in tool(TOPICS, "--list").split()


def test_configurations(tool: Tool, topic: str) -> None:
    entity = ("--entity-type", "topics", "--entity-name", topic)
    tool(CONFIGS, *entity, "--alter", "--add-config", "segment.ms=60000,cleanup.policy=[compact,delete]")
    described = tool(CONFIGS, *entity, "--describe")
    assert "segment.ms=60000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:segment.ms=60000}" in described
    assert "cleanup.policy=compact,delete" in described
    everything = tool(CONFIGS, *entity, "--describe", "--all")
    assert "retention.ms=604800000" in everything
    tool(CONFIGS, *entity, "--alter", "--delete-config", "segment.ms")
    assert "segment.ms" not in tool(CONFIGS, *entity, "--describe")


def test_the_brokers_configuration(tool: Tool) -> None:
    described = tool(CONFIGS, "--entity-type", "brokers", "--all", "--describe")
    assert "num.partitions=1 " in described
    assert "log.segment.bytes=1073741824 " in described


def test_console_producer_and_consumer(tool: Tool, make_topic: MakeTopic, group: str) -> None:
    topic = make_topic(partitions=3)
    keys = [f"key-{n}" for n in range(20)]
    parse = ("--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
    tool(CONSOLE_PRODUCER, "--topic", topic, *parse, stdin="".join(f"{key}:value of {key}\n" for key in keys))
    show = [f"print.{what}=true" for what in ("key", "partition", "offset")]
    options = [argument for each in show for argument in ("--formatter-property", each)]
    output = tool(
        CONSOLE_CONSUMER,
        *("--topic", topic, "--group", group, "--from-beginning", "--max-messages", "20", "--timeout-ms", "20000"),
        *options,
    )
    rows = [line.split("\t") for line in output.splitlines() if line.startswith("Partition:")]
    assert {row[2]: row[3] for row in rows} == {key: f"value of {key}" for key in keys}
    landed = {row[2]: int(row[0].removeprefix("Partition:")) for row in rows}
    assert landed == {key: (murmur2(key.encode()) & 0x7FFFFFFF) % 3 for key in keys}
    described = tool(GROUPS, "--describe", "--group", group)
    lags = {line.split()[2]: line.split()[5] for line in described.splitlines() if line.startswith(group)}
    assert lags == {"0": "0", "1": "0", "2": "0"}


def test_a_groups_offsets_are_reset_and_deleted(tool: Tool, bootstrap: str, topic: str, group: str) -> None:
    produce(bootstrap, topic, [Record(b"x", timestamp=1_600_000_000_000 + 1000 * n) for n in range(10)])
    selection = ("--group", group, "--topic", topic)
    by_time = tool(GROUPS, *selection, "--reset-offsets", "--to-datetime", "2020-09-13T12:26:44.000", "--execute")
    assert by_time.split()[-4:] == [group, topic, "0", "4"]
    assert group in tool(GROUPS, "--list").split()
    deleted = tool(GROUPS, *selection, "--delete-offsets")
    assert "Successful" in deleted
    tool(GROUPS, "--group", group, "--delete")
    assert group not in tool(GROUPS, "--list").split()


def test_offsets_records_and_log_directories(tool: Tool, bootstrap: str, make_topic: MakeTopic, tmp_path: Path) -> None:
    topic = make_topic(partitions=2)
    produce(bootstrap, topic, [Record(b"x" * 100, partition=0)] * 10)
    assert tool(OFFSETS, "--topic", topic).split() == [f"{topic}:0:10", f"{topic}:1:0"]
    plan = tmp_path / "delete.json"
    plan.write_text(json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": 0, "offset": 4}]}))
    deleted = tool("org.apache.kafka.tools.DeleteRecordsCommand", "--offset-json-file", str(plan))
    assert f"partition: {topic}-0\tlow_watermark: 4" in deleted
    assert tool(OFFSETS, "--topic", topic, "--time", "-2").split() == [f"{topic}:0:4", f"{topic}:1:0"]
    report = tool("org.apache.kafka.tools.LogDirsCommand", "--describe", "--topic-list", topic)
    [broker] = json.loads(report.splitlines()[-1])["brokers"]
    [directory] = broker["logDirs"]
    sizes = {each["partition"]: each["size"] for each in directory["partitions"]}
    assert sizes.keys() == {f"{topic}-0", f"{topic}-1"}
    assert sizes[f"{topic}-0"] > 1000


def test_the_newest_versions_are_usable(tool: Tool) -> None:
    output = tool("org.apache.kafka.tools.BrokerApiVersionsCommand")
    for line in (
        "Produce(0): 0 to 13 [usable: 13]",
        "Fetch(1): 4 to 18 [usable: 18]",
        "JoinGroup(11): 0 to 9 [usable: 9]",
    ):
        assert line in output


def test_a_leader_election_is_not_needed(tool: Tool, topic: str) -> None:
    arguments = ("--election-type", "preferred", "--topic", topic, "--partition", "0")
    output = tool("org.apache.kafka.tools.LeaderElectionCommand", *arguments)
    assert f"Valid replica already elected for partitions {topic}-0" in output


@pytest.mark.parametrize("compression", ["none", "lz4"])
def test_performance_tools(tool: Tool, make_topic: MakeTopic, compression: str) -> None:
    topic = make_topic(partitions=3)
    count = "20000"
    load = ("--topic", topic, "--num-records", count, "--record-size", "100", "--throughput", "-1")
    codec = ("--command-property", f"compression.type={compression}")
    sent = tool("org.apache.kafka.tools.ProducerPerformance", *load, *codec)
    assert f"{count} records sent" in sent
    read = tool("org.apache.kafka.tools.ConsumerPerformance", "--topic", topic, "--num-records", count)
    assert read.splitlines()[-1].split(", ")[4] == count


def test_verifiable_clients(tool: Tool, bootstrap: str, topic: str, group: str) -> None:
    def events(output: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in output.splitlines() if line.startswith("{")]

    produced = events(tool("org.apache.kafka.tools.VerifiableProducer", "--topic", topic, "--max-messages", "50"))
    acknowledged = [e for e in produced if e["name"] == "producer_send_success"]
    assert [e["offset"] for e in acknowledged] == list(range(50))
    assert [m.value() for m in read_partition(bootstrap, topic, 50)] == [str(n).encode() for n in range(50)]
    settings = ("--group-id", group, "--reset-policy", "earliest", "--max-messages", "50")
    consumed = events(tool("org.apache.kafka.tools.VerifiableConsumer", "--topic", topic, *settings))
    assert sum(e["count"] for e in consumed if e["name"] == "records_consumed") == 50
    assert all(e["success"] for e in consumed if e["name"] == "offsets_committed")
