"""Values that contradict each other, and values with which nobody could connect any more."""

import pytest

from ottla.config.alter import Operation, Resource, apply_full, apply_incremental
from ottla.config.broker import BrokerConfig
from ottla.config.definition import ConfigError
from ottla.errors import ErrorCode, KafkaError

REFUSED = (
    ("max.connections", "0", "or no client can connect"),
    ("max.connection.creation.rate", "0", "or no client can connect"),
    ("max.connections.per.ip", "0", "or no client can connect"),
    ("max.connections.per.ip.overrides", "x", "write address:number instead of x"),
    ("max.connections.per.ip.overrides", "127.0.0.1:x", "x in 127.0.0.1:x is not an integer"),
    ("max.connections.per.ip.overrides", "a b:5", "write address:number instead of a b:5"),
    ("log.cleaner.threads", "0", "at least 1"),
    ("log.cleaner.dedupe.buffer.size", "0", "for each of 1 log.cleaner.threads"),
    ("log.cleaner.dedupe.buffer.size", "1048576", "for each of 1 log.cleaner.threads"),
    ("log.cleaner.io.max.bytes.per.second", "0", "stop compaction for ever"),
    ("log.cleaner.io.max.bytes.per.second", "-0.0", "stop compaction for ever"),
    ("log.cleaner.io.buffer.load.factor", "0", "finite and above 0"),
    ("log.cleaner.io.buffer.load.factor", "-1", "finite and above 0"),
    ("log.cleaner.io.buffer.load.factor", "NaN", "finite and above 0"),
    ("log.cleaner.io.buffer.load.factor", "Infinity", "finite and above 0"),
    ("group.consumer.assignment.interval.ms", "15001", "at most group.consumer.max.assignment.interval.ms"),
    ("group.share.assignment.interval.ms", "15001", "at most group.share.max.assignment.interval.ms"),
    ("group.streams.assignment.interval.ms", "15001", "at most group.streams.max.assignment.interval.ms"),
)
AT_RUN_TIME = (
    ("log.local.retention.ms", "-1", "at most log.retention.ms"),
    ("log.local.retention.ms", "604800001", "at most log.retention.ms"),
    ("metric.reporters", "x", "cannot load this class"),
    ("principal.builder.class", "x", "cannot load this class"),
    ("num.io.threads", "17", "from 8"),
    ("num.io.threads", "3", "from 8"),
    ("log.cleaner.threads", "3", "from 1"),
    ("listener.name.plaintext.max.connections", "0", "or no client can connect"),
)
STATIC_ONLY = (
    ("group.consumer.heartbeat.interval.ms", "4999", "at least group.consumer.min.heartbeat.interval.ms"),
    ("group.share.record.lock.duration.ms", "60001", "at most group.share.max.record.lock.duration.ms"),
    ("group.share.max.share.sessions", "100", "at most group.share.max.share.sessions"),
    ("group.share.assignors", "a,b", "exactly one"),
    ("group.streams.num.standby.replicas", "3", "at most group.streams.max.standby.replicas"),
    ("group.coordinator.rebalance.protocols", "consumer", "classic must be among them"),
    ("share.coordinator.state.topic.compression.codec", "5", "between 0 and 4"),
    ("replica.fetch.wait.max.ms", "30001", "at most replica.socket.timeout.ms"),
    ("connections.max.idle.ms", "100", "above connection.failed.authentication.delay.ms"),
)


@pytest.mark.parametrize(("name", "value", "message"), [*REFUSED, *STATIC_ONLY])
def test_a_broker_does_not_start_with(name: str, value: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        BrokerConfig({name: value})
    assert message in str(caught.value)


@pytest.mark.parametrize(("name", "value", "message"), [*REFUSED, *AT_RUN_TIME])
def test_a_running_broker_refuses(name: str, value: str, message: str) -> None:
    broker = BrokerConfig()
    for resource in (Resource.BROKER, Resource.BROKER_DEFAULT):
        with pytest.raises(KafkaError) as full:
            apply_full(resource, broker, [(name, value)])
        with pytest.raises(KafkaError) as incremental:
            apply_incremental(resource, broker, {}, [(name, Operation.SET, value)])
        for refusal in (full.value, incremental.value):
            assert refusal.code is ErrorCode.INVALID_REQUEST
            assert message in str(refusal.message) or "only be set for one broker" in str(refusal.message)


@pytest.mark.parametrize(("name", "value", "message"), REFUSED)
def test_a_broker_starts_in_spite_of_a_bad_value_in_the_store(name: str, value: str, message: str) -> None:
    for config in (BrokerConfig().with_dynamic({name: value}, {}), BrokerConfig().with_dynamic({}, {name: value})):
        assert config.get(name) == BrokerConfig().get(name)
        [warning] = config.warnings
        assert message in warning


def test_an_address_may_be_the_only_one_that_is_served() -> None:
    given = {"max.connections.per.ip": "0", "max.connections.per.ip.overrides": "::1:5, 10.0.0.1:0"}
    assert BrokerConfig(given).integer("max.connections.per.ip") == 0
    with pytest.raises(ConfigError, match="or no client can connect"):
        BrokerConfig(given | {"max.connections.per.ip.overrides": "10.0.0.1:0"})


def test_threads_may_double_and_halve() -> None:
    broker = BrokerConfig({"num.io.threads": "8", "log.cleaner.threads": "2"})
    for name, value in (("num.io.threads", "16"), ("num.io.threads", "4"), ("log.cleaner.threads", "1")):
        assert apply_full(Resource.BROKER, broker, [(name, value)]) == {name: value}


def test_a_file_may_name_classes_that_apache_kafka_would_load() -> None:
    given = {"metric.reporters": "com.example.Reporter", "log.local.retention.ms": "-1"}
    broker = BrokerConfig(given)
    assert apply_full(Resource.BROKER, broker, [("log.segment.bytes", "2000000")]) == {"log.segment.bytes": "2000000"}
