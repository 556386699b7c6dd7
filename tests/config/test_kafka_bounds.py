"""Every key with values around its bounds: Ottla takes what Apache Kafka takes, and refuses what it refuses.

Needs Java and Kafka's jars, named by KAFKA_JARS. `kafka-4.3.1-keys.json` has the bounds that Kafka declares; this test
also covers the rules that Kafka applies to several keys together.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from ottla.config.broker import BrokerConfig
from ottla.config.definition import ConfigError, Key, Kind
from ottla.config.group import validate_group_overrides
from ottla.config.keys import BROKER_KEYS, GROUP_KEYS, TOPIC_KEYS
from ottla.config.listeners import advertised_listeners, broker_listeners, inter_broker_listener
from ottla.config.topic import validate_topic_overrides
from tests.config.facts import KEYS

JARS = os.environ.get("KAFKA_JARS", "")

pytestmark = pytest.mark.skipif(
    not JARS or shutil.which("java") is None, reason="set KAFKA_JARS to a directory with Kafka's jars, and have java"
)

_TABLES: Mapping[str, Mapping[str, Key]] = {"broker": BROKER_KEYS, "topic": TOPIC_KEYS, "group": GROUP_KEYS}
_NUMBERS = {Kind.INT: 32, Kind.SHORT: 16, Kind.LONG: 64, Kind.DOUBLE: 0}

_KRAFT = "there is no KRaft controller, so that its keys are described only"
_CLASSES = "Ottla loads no Java class, and accepts the name of any, so that files written for Kafka work"
KNOWN: Mapping[str, str] = {
    "broker.id": "the program sets node.id to 1, which Ottla takes for the same setting",
    "node.id": "the program names node 1 as the only voter",
    "controller.listener.names": _KRAFT,
    "controller.quorum.bootstrap.servers": _KRAFT,
    "controller.quorum.voters": _KRAFT,
    "process.roles": _KRAFT,
    "early.start.listeners": _KRAFT,
    "cordoned.log.dirs": "Ottla has no cordoned log directories: the key is described only",
    "group.consumer.assignors": _CLASSES,
    "group.share.assignors": _CLASSES,
    "log.cleaner.io.max.bytes.per.second": "Kafka takes 0 and then never compacts again; Ottla refuses 0",
    "log.cleaner.io.buffer.load.factor": "Kafka takes 0 and less and then compacts nothing; Ottla refuses them",
    "max.connections": "Kafka starts with 0 and then serves nobody; Ottla refuses to start",
    "max.connection.creation.rate": "Kafka starts with 0 and then serves nobody; Ottla refuses to start",
}
"""Keys for which the two differ, with the reason."""


class Probe(NamedTuple):
    resource: str
    key: str
    value: str


def _values(key: Key, allowed: str) -> Iterator[str]:
    """Values at and around the bounds of a key."""
    if key.kind in _NUMBERS:
        bounds = {int(float(number)) for number in re.findall(r"-?\d+(?:\.\d+)?(?:E\d+)?", allowed)}
        if key.default is not None and "E" not in key.default:
            default = int(float(key.default))
            bounds |= {default, default // 2, default * 2}
        yield from map(str, sorted({near for it in bounds | {0} for near in (it - 1, it, it + 1)}))
        bits = _NUMBERS[key.kind]
        if bits:
            yield from (
                str(2 ** (bits - 1) - 1),
                str(2 ** (bits - 1)),
                str(-(2 ** (bits - 1))),
                str(-(2 ** (bits - 1)) - 1),
            )
        yield from ("", "x", "1.5", " 7 ")
    elif key.kind is Kind.BOOLEAN:
        yield from ("true", "FALSE", "", "1", "yes")
    elif key.kind in (Kind.STRING, Kind.LIST):
        yield from ("", "x", "x,y", "x,,y", *re.findall(r"\w+", allowed), *re.findall(r"\w+", allowed.lower()))


def _probes() -> Iterator[Probe]:
    for resource, table in _TABLES.items():
        for name, fact in KEYS[resource].items():
            for value in dict.fromkeys(_values(table[name], fact.get("allowed", ""))):
                yield Probe(resource, name, value)


def _kafkas_answers(probes: list[Probe]) -> list[str]:
    program = Path(__file__).with_name("KafkaBounds.java")
    lines = "".join("\t".join(probe) + "\n" for probe in probes)
    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{JARS}/*", str(program)]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=True, timeout=240)
    return done.stdout.splitlines()


def _our_answer(probe: Probe) -> str:
    try:
        if probe.resource == "broker":
            config = BrokerConfig({probe.key: probe.value})
            broker_listeners(config)
            advertised_listeners(config)
            inter_broker_listener(config)
        elif probe.resource == "topic":
            validate_topic_overrides({probe.key: probe.value})
        else:
            validate_group_overrides({probe.key: probe.value}, BrokerConfig())
    except ConfigError as error:
        return f"refused {error}"
    return "taken"


def test_ottla_takes_what_apache_kafka_takes() -> None:
    probes = list(_probes())
    different = []
    for probe, theirs in zip(probes, _kafkas_answers(probes), strict=True):
        ours = _our_answer(probe)
        if (ours == "taken") != (theirs == "taken") and probe.key not in KNOWN:
            different.append(f"{probe.resource} {probe.key}={probe.value!r}: Apache Kafka {theirs}; Ottla {ours}")
    assert not different, "\n".join(different)
