"""Ottla's answers beside those of a real Apache Kafka 4.3.1 that was set up in the same way."""

from typing import Any

import pytest

from ottla.config.broker import BrokerConfig
from ottla.config.describe import (
    ConfigEntry,
    Source,
    describe_broker,
    describe_broker_default,
    describe_client_metrics,
    describe_group,
    describe_topic,
)
from ottla.config.keys import BROKER_KEYS
from tests.config.facts import DESCRIBED, FIXED_AT_START, KEYS, OTTLA_ONLY_TOPIC

GIVEN: dict[str, dict[str, str]] = DESCRIBED["given"]
BROKER = BrokerConfig(GIVEN["static"], GIVEN["per_broker"], GIVEN["cluster"])


def with_our_defaults(name: str, synonyms: list[list[Any]]) -> list[list[Any]]:
    """What Kafka answers, with our default where it is declared to differ."""
    adapted = []
    for synonym, value, source in synonyms:
        if source == Source.DEFAULT and synonym in BROKER_KEYS:
            assert value == BROKER_KEYS[synonym].kafka_default
            adapted.append([synonym, BROKER_KEYS[synonym].default, source])
        else:
            adapted.append([synonym, value, source])
    if name in {"node.id", "process.roles"}:  # Kafka demands a value, so it has no default.
        adapted.append([name, BROKER_KEYS[name].default, Source.DEFAULT])
    return adapted


def as_fact(entry: ConfigEntry) -> dict[str, Any]:
    return {
        "value": entry.value,
        "source": entry.source,
        "sensitive": entry.sensitive,
        "read_only": entry.read_only,
        "type": entry.kind,
        "synonyms": [list(synonym) for synonym in entry.synonyms],
    }


def assert_same(entries: list[ConfigEntry], resource: str, *, complete: bool) -> None:
    ours = {entry.name: as_fact(entry) for entry in entries}
    theirs = DESCRIBED[resource]
    assert len(ours) == len(entries)
    if complete:
        assert set(ours) - OTTLA_ONLY_TOPIC == set(theirs)
    for name, fact in theirs.items():
        if name in FIXED_AT_START:
            fact = {**fact, "read_only": True}
        assert ours[name] == {**fact, "synonyms": with_our_defaults(name, fact["synonyms"])}, name


def test_a_topic_with_many_values_of_its_own() -> None:
    assert_same(describe_topic(BROKER, GIVEN["topic t"]), "topic t", complete=True)


def test_a_topic_with_few_values_of_its_own() -> None:
    assert_same(describe_topic(BROKER, GIVEN["topic u"]), "topic u", complete=False)


def test_a_broker() -> None:
    assert_same(describe_broker(BROKER), "broker", complete=False)


def test_all_brokers_at_once() -> None:
    assert_same(describe_broker_default(BROKER), "broker_default", complete=True)


def test_a_group() -> None:
    assert_same(describe_group(BROKER, GIVEN["group"]), "group", complete=True)


def test_a_client_metrics_subscription() -> None:
    assert_same(describe_client_metrics(GIVEN["client_metrics"]), "client_metrics", complete=True)
    fresh = describe_client_metrics({})
    assert [(entry.value, entry.source, entry.synonyms) for entry in fresh] == [
        ("300000", Source.DEFAULT, ()),
        ("", Source.DEFAULT, ()),
        ("", Source.DEFAULT, ()),
    ]


def test_a_fresh_topic_shows_every_visible_key_as_default() -> None:
    entries = describe_topic(BrokerConfig(), {})
    assert [entry.name for entry in entries if entry.source is not Source.DEFAULT] == []
    shown = {entry.name: entry.value for entry in entries if entry.name not in OTTLA_ONLY_TOPIC}
    assert shown == {name: fact["default"] for name, fact in KEYS["topic"].items() if not fact.get("internal")}
    by_name = {entry.name: entry for entry in entries}
    assert by_name["retention.ms"].synonyms == ()
    assert by_name["segment.bytes"].synonyms == (("log.segment.bytes", "1073741824", Source.DEFAULT),)


def test_a_fresh_broker_shows_every_visible_key() -> None:
    entries = describe_broker(BrokerConfig())
    assert [entry.name for entry in entries] == sorted(key.name for key in BROKER_KEYS.values() if not key.internal)
    for entry in entries:
        key = BROKER_KEYS[entry.name]
        assert (entry.value, entry.source, entry.kind) == (key.default, Source.DEFAULT, key.kind)
        assert entry.synonyms == (() if key.default is None else ((entry.name, key.default, Source.DEFAULT),)), entry
        assert entry.documentation == key.doc


def test_secrets_are_never_shown() -> None:
    broker = BrokerConfig({"ssl.key.password": "hunter2", "plugin.password": "hunter2"}).with_dynamic(
        {"listener.name.a.ssl.keystore.password": "hunter2"}, {"sasl.jaas.config": "hunter2"}
    )
    described = describe_broker(broker) + describe_broker_default(broker)
    assert "hunter2" not in repr(described)
    assert {entry.name for entry in described if entry.sensitive and entry.source is not Source.DEFAULT} == {
        "ssl.key.password",
        "plugin.password",
        "listener.name.a.ssl.keystore.password",
        "sasl.jaas.config",
    }


@pytest.mark.parametrize("names", [["retention.ms"], {"retention.ms", "no.such.key"}])
def test_only_what_was_asked_for(names: list[str]) -> None:
    assert [entry.name for entry in describe_topic(BROKER, {}, names)] == ["retention.ms"]
    assert [entry.name for entry in describe_group(BROKER, {}, ["share.isolation.level"])] == ["share.isolation.level"]
    assert [entry.name for entry in describe_broker(BROKER, ["nope", "num.partitions"])] == ["nope", "num.partitions"]
    assert [entry.name for entry in describe_broker_default(BROKER, ["log.retention.ms"])] == ["log.retention.ms"]
    assert [entry.name for entry in describe_client_metrics({}, ["match"])] == ["match"]


def test_an_internal_key_shows_once_it_is_set() -> None:
    hidden = {entry.name for entry in describe_broker(BrokerConfig())}
    assert "log.initial.task.delay.ms" not in hidden
    shown = {entry.name: entry for entry in describe_broker(BrokerConfig({"log.initial.task.delay.ms": "1"}))}
    assert shown["log.initial.task.delay.ms"].value == "1"
