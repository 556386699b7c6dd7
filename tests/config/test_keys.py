"""The table against Kafka's own, fact by fact."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

import ottla
from ottla.config.checks import ListOf, OneOf, Range
from ottla.config.definition import Effect, Key, Update
from ottla.config.keys import BROKER_KEYS, BROKER_SUBJECTS, CLIENT_METRICS_KEYS, GROUP_KEYS, TOPIC_KEYS
from ottla.config.values import format_value, parse
from tests.config.facts import FIXED_AT_START, KEYS, OTTLA_ONLY_TOPIC

TABLES: dict[str, Mapping[str, Key]] = {
    "broker": BROKER_KEYS,
    "topic": TOPIC_KEYS,
    "group": GROUP_KEYS,
    "client_metrics": CLIENT_METRICS_KEYS,
}
OLDER_KAFKA = {
    "broker.id.generation.enable",
    "offsets.storage",
    "reserved.broker.max.id",
    "zookeeper.connect",
    "zookeeper.connection.timeout.ms",
    "zookeeper.max.in.flight.requests",
    "zookeeper.session.timeout.ms",
    "zookeeper.set.acl",
}
OTTLA_ONLY = {
    "cluster.rebalance.delay.ms",
    "cluster.rebalance.enable",
    "cluster.rebalance.throttled.rate",
    "store.file",
    "zookeeper.auth.digest",
}
RUN_TIME_ONLY = {
    "follower.replication.throttled.rate",
    "leader.replication.throttled.rate",
    "replica.alter.log.dirs.io.max.bytes.per.second",
}
OTTLA_DEFAULTS = {
    "broker.id": "1",
    "group.initial.rebalance.delay.ms": "0",
    "listeners": "PLAINTEXT://127.0.0.1:9092",
    "log.dir": "data",
    "node.id": "1",
    "offsets.topic.replication.factor": "1",
    "process.roles": "broker",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.replication.factor": "1",
}
OTHER_RULES = {
    "authorizer.class.name",
    "controller.quorum.bootstrap.servers",
    "controller.quorum.voters",
    "remote.log.metadata.manager.class.name",
    "remote.log.metadata.manager.impl.prefix",
    "remote.log.metadata.manager.listener.name",
    "remote.log.storage.manager.class.name",
    "remote.log.storage.manager.impl.prefix",
    "compression.gzip.level",
    "follower.replication.throttled.replicas",
    "leader.replication.throttled.replicas",
    "share.auto.offset.reset",
    "interval.ms",
}
"""Rules that Kafka does not state as a range or a list of words; their own tests are in test_checks."""
ALL = [key for keys in TABLES.values() for key in keys.values()]


def test_every_key_of_kafka_is_there_and_only_declared_ones_more() -> None:
    extra = OLDER_KAFKA | RUN_TIME_ONLY | OTTLA_ONLY
    assert set(BROKER_KEYS) == set(KEYS["broker"]) | extra
    assert not extra & set(KEYS["broker"])
    assert set(TOPIC_KEYS) == set(KEYS["topic"]) | OTTLA_ONLY_TOPIC
    for table in ("group", "client_metrics"):
        assert set(TABLES[table]) == set(KEYS[table])


def test_keys_that_the_broker_reads_are_marked_as_served() -> None:
    package = Path(ottla.__file__).parent
    sources = [path.read_text() for path in package.rglob("*.py") if "config" not in path.relative_to(package).parts]
    read = set(re.findall(r"\.(?:integer|boolean|double|string|list|get)\(\s*\"([a-z.]+)\"", "\n".join(sources)))
    described = {name for name in read & BROKER_KEYS.keys() if BROKER_KEYS[name].effect is not Effect.SERVED}
    assert not described


def test_no_key_stands_in_two_subjects() -> None:
    assert sum(len(keys) for _, keys in BROKER_SUBJECTS) == len(BROKER_KEYS)


@pytest.mark.parametrize("table", TABLES)
def test_type_default_importance_and_visibility_are_kafkas(table: str) -> None:
    ours = {
        name: (key.kind.name, key.kafka_default, key.importance.name, key.internal)
        for name, key in TABLES[table].items()
        if name in KEYS[table]
    }
    theirs = {
        name: (fact["type"], fact["default"], fact["importance"], fact.get("internal", False))
        for name, fact in KEYS[table].items()
    }
    assert ours == theirs


def test_only_declared_defaults_differ() -> None:
    changed = {key.name: key.default for key in ALL if key.default != key.kafka_default}
    assert changed == OTTLA_DEFAULTS


def test_what_can_change_at_run_time_is_kafkas_list() -> None:
    words = {"per-broker": Update.PER_BROKER, "cluster-wide": Update.CLUSTER_WIDE}
    assert {BROKER_KEYS[name].update for name in FIXED_AT_START} == {Update.READ_ONLY}
    for name, fact in KEYS["broker"].items():
        if name in FIXED_AT_START:
            continue
        assert BROKER_KEYS[name].update is words.get(fact.get("update", ""), Update.READ_ONLY), name
    for name in RUN_TIME_ONLY:
        assert BROKER_KEYS[name].update is Update.CLUSTER_WIDE


@pytest.mark.parametrize("table", ["topic", "group"])
def test_server_keys_are_kafkas(table: str) -> None:
    ours = {name: key.server_key for name, key in TABLES[table].items() if name not in OTTLA_ONLY_TOPIC}
    assert ours == {name: fact.get("server_key") for name, fact in KEYS[table].items()}
    for key in TABLES[table].values():
        if key.server_key is not None:
            assert BROKER_KEYS[key.server_key].kind in {key.kind, BROKER_KEYS["log.roll.ms"].kind}


@pytest.mark.parametrize("table", TABLES)
def test_allowed_values_are_kafkas(table: str) -> None:
    for name, fact in KEYS[table].items():
        if name not in OTHER_RULES:
            assert _allowed(TABLES[table][name]) == fact.get("allowed", ""), name


def _allowed(key: Key) -> str:
    """The rule of a key in the notation of Kafka's own table."""
    match key.check:
        case Range(low=low, high=None):
            return f"[{low},...]"
        case Range(low=low, high=high):
            return f"[{low},...,{high}]"
        case OneOf(choices=choices, ignore_case=ignore_case):
            return ("(case insensitive) " if ignore_case else "") + f"[{', '.join(choices)}]"
        case ListOf(choices=choices, may_be_empty=may_be_empty):
            words = f"[{', '.join(choices)}]" if choices else ""
            return f"{words}{'' if may_be_empty else ' not empty'}".strip()
    return ""


def test_defaults_are_valid_and_print_as_they_are_written() -> None:
    for key in ALL:
        for default in (key.default, key.kafka_default):
            if default is not None:
                assert format_value(parse(key, default)) == default, key


def test_every_key_is_explained_in_a_sentence_or_two() -> None:
    for key in ALL:
        assert key.doc[0].isupper(), key
        assert key.doc.endswith("."), key
        assert len(key.doc) <= 110, key
        assert "|" not in key.doc, key
