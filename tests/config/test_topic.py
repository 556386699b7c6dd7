import pytest

from ottla.config.broker import BrokerConfig
from ottla.config.definition import ConfigError, UnknownKeyError
from ottla.config.describe import Source, describe_topic
from ottla.config.keys import TOPIC_KEYS
from ottla.config.topic import (
    TopicConfig,
    topic_config,
    topic_values,
    unusable_topic_overrides,
    validate_topic_overrides,
)

DERIVED = {
    "compacted",
    "largest_batch",
    "log_append_time",
    "never_syncs",
    "syncs_before_visible",
    "takes_batches_as_they_are",
}


def test_every_topic_key_is_an_attribute() -> None:
    names = {name.replace(".", "_") for name in TOPIC_KEYS if name != "internal.segment.bytes"}
    assert set(TopicConfig.__slots__) == names | DERIVED


def test_every_attribute_has_the_value_of_its_key() -> None:
    broker = BrokerConfig()
    config, values = topic_config(broker, {}), topic_values(broker, {})
    for name, value in values.items():
        if name == "internal.segment.bytes":
            continue
        expected = frozenset(value) if name == "cleanup.policy" and isinstance(value, tuple) else value
        assert getattr(config, name.replace(".", "_")) == expected, name


def test_kafkas_defaults() -> None:
    config = topic_config(BrokerConfig(), {})
    assert config.segment_bytes == 1 << 30
    assert config.retention_ms == 7 * 24 * 3_600_000
    assert config.retention_bytes == -1
    assert config.flush_messages == config.flush_ms == 2**63 - 1
    assert config.max_message_bytes == 1_048_588
    assert config.cleanup_policy == {"delete"}
    assert not config.compacted
    assert not config.log_append_time


def test_a_topic_follows_the_broker_until_it_has_a_value_of_its_own() -> None:
    broker = BrokerConfig({"log.retention.minutes": "5", "log.cleanup.policy": "compact", "log.roll.hours": "1"})
    followed = topic_config(broker, {})
    assert (followed.retention_ms, followed.compacted, followed.segment_ms) == (300_000, True, 3_600_000)
    own = topic_config(broker, {"retention.ms": "-1", "cleanup.policy": "delete, compact", "segment.ms": "9"})
    assert (own.retention_ms, own.segment_ms) == (-1, 9)
    assert own.cleanup_policy == {"compact", "delete"}
    changed = topic_config(broker.with_dynamic({}, {"log.retention.ms": "77"}), {})
    assert changed.retention_ms == 77


def test_derived_attributes() -> None:
    config = topic_config(BrokerConfig(), {"message.timestamp.type": "LogAppendTime", "cleanup.policy": "compact"})
    assert config.log_append_time
    assert config.compacted
    assert topic_config(BrokerConfig(), {"cleanup.policy": ""}).cleanup_policy == frozenset()


def test_tests_may_have_segments_smaller_than_kafka_allows() -> None:
    with pytest.raises(ConfigError, match="at least 1048576"):
        validate_topic_overrides({"segment.bytes": "1000"})
    assert topic_config(BrokerConfig(), {"internal.segment.bytes": "1000"}).segment_bytes == 1000


def test_what_is_no_topic_key_is_passed_over_when_read() -> None:
    assert topic_config(BrokerConfig(), {"no.such.key": "1"}).retention_bytes == -1


@pytest.mark.parametrize(
    "overrides",
    [
        {},
        {"retention.bytes": "-7", "local.retention.ms": "999999999999"},
        {"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "5"},
        {"remote.log.copy.disable": "true", "remote.storage.enable": "false"},
        {"leader.replication.throttled.replicas": "*"},
        {"compression.gzip.level": "-1"},
    ],
)
def test_valid_overrides(overrides: dict[str, str]) -> None:
    validate_topic_overrides(overrides)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"retention.ms": "-5"}, "Invalid value -5 for configuration retention.ms: Value must be at least -1"),
        ({"retention.ms": ""}, "Not a number of type LONG"),
        ({"cleanup.policy": "foo"}, "members of the list must be one of compact, delete"),
        ({"compression.type": "Gzip"}, "must be one of: uncompressed, zstd, lz4, snappy, gzip, producer"),
        ({"compression.gzip.level": "0"}, "between 1 and 9, or -1"),
        ({"min.cleanable.dirty.ratio": "2"}, "Invalid value 2.0"),
        ({"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "4"}, "max.compaction.lag.ms, which is 4"),
        ({"max.compaction.lag.ms": "0"}, "at least 1"),
        ({"remote.storage.enable": "true"}, "tiered storage"),
        ({"leader.replication.throttled.replicas": "x"}, "partition:broker pairs"),
    ],
)
def test_refused_overrides(overrides: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        validate_topic_overrides(overrides)
    assert message in str(caught.value)


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(UnknownKeyError, match=r"^Unknown topic config name: nope$"):
        validate_topic_overrides({"nope": "1"})


def test_contradictions_with_the_brokers_values_are_found() -> None:
    broker = BrokerConfig({"log.cleaner.max.compaction.lag.ms": "100"})
    with pytest.raises(ConfigError, match="which is 100"):
        validate_topic_overrides({"min.compaction.lag.ms": "101"}, broker)


def test_a_stored_value_that_cannot_be_used_is_passed_over() -> None:
    overrides = {"segment.bytes": "1", "retention.ms": "5", "nope": "1"}
    config = topic_config(BrokerConfig(), overrides)
    assert (config.segment_bytes, config.retention_ms) == (2**30, 5)
    assert [problem.name for problem in unusable_topic_overrides(overrides)] == ["segment.bytes"]
    entries = {entry.name: entry for entry in describe_topic(BrokerConfig(), overrides)}
    assert (entries["segment.bytes"].value, entries["segment.bytes"].source) == ("1073741824", Source.DEFAULT)
