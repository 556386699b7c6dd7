"""Checks of the broker after a run: no open transaction, and Kafka's tool reads the log."""

import os
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from kafka import KafkaAdminClient

_TIMEOUT = 60.0
_OPEN_STATES = {"Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence"}
_DECODERS = {"__transaction_state": "--transaction-log-decoder", "__consumer_offsets": "--offsets-decoder"}

_COMPLAINTS = ("isvalid: false", "Exception", "Mismatches in", "is corrupt")
_SHOWN = 5


def open_transactions(bootstrap: str, prefix: str) -> list[str]:
    """The transactional ids with this prefix that have an open transaction."""
    admin: Any = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        listings = [it for each in admin.list_transactions().values() for it in each]
    finally:
        admin.close()
    found = {it.transactional_id: str(getattr(it.state, "value", it.state)) for it in listings}
    assert any(name.startswith(prefix) for name in found), f"none of {len(found)} listed transactions is of this run"
    return sorted(
        f"{name} is {state}" for name, state in found.items() if name.startswith(prefix) and state in _OPEN_STATES
    )


def unstable_partitions(bootstrap: str, topics: Iterable[str]) -> list[str]:
    """The partitions whose last stable offset is below the high watermark."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    known = admin.list_topics(timeout=_TIMEOUT).topics
    places = [TopicPartition(topic, partition) for topic in topics for partition in known[topic].partitions]
    stable = _ends(admin, places, IsolationLevel.READ_COMMITTED)
    ends = _ends(admin, places, IsolationLevel.READ_UNCOMMITTED)
    return [
        f"{place.topic}-{place.partition} is stable up to {stable[place]} of {ends[place]}"
        for place in places
        if stable[place] != ends[place]
    ]


def _ends(admin: Any, places: list[Any], level: Any) -> dict[Any, int]:
    answers = admin.list_offsets({place: OffsetSpec.latest() for place in places}, isolation_level=level)
    return {place: answer.result(_TIMEOUT).offset for place, answer in answers.items()}


def dump_log(data_dir: Path, topics: Iterable[str]) -> list[str]:
    """The errors of Kafka's dump-log for the files of these topics, while no broker has them open."""
    findings = []
    for topic in topics:
        files = [it for it in sorted(data_dir.glob(f"**/{topic}-[0-9]*/*")) if it.name[:20].isdecimal()]
        assert files, f"{topic} has no files under {data_dir}"
        findings += _complaints(topic, files)
    return findings


def _complaints(topic: str, files: list[Path]) -> list[str]:
    java = ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", f"{os.environ['KAFKA_JARS']}/*"]
    tool = ["org.apache.kafka.tools.DumpLogSegments", _DECODERS.get(topic, "--deep-iteration")]
    command = [*java, *tool, "--files", ",".join(map(str, files))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    lines = (done.stdout + done.stderr).splitlines()
    found = [line for line in lines if any(sign in line for sign in _COMPLAINTS)]
    if done.returncode != 0:
        found.append(f"ended with {done.returncode}: {done.stderr[-500:]}")
    return [f"dump-log on {topic}: {line}" for line in found[:_SHOWN]]
