import pytest

from ottla.config.broker import BrokerConfig
from ottla.config.definition import ConfigError, UnknownKeyError
from ottla.config.group import group_values, validate_group_overrides


def test_a_group_follows_the_broker_until_it_has_a_value_of_its_own() -> None:
    broker = BrokerConfig({"group.consumer.session.timeout.ms": "50000"})
    assert group_values(broker, {})["consumer.session.timeout.ms"] == 50_000
    assert group_values(broker, {"consumer.session.timeout.ms": "60000"})["consumer.session.timeout.ms"] == 60_000
    assert group_values(broker, {})["share.auto.offset.reset"] == "latest"


@pytest.mark.parametrize(
    "overrides",
    [
        {},
        {"consumer.session.timeout.ms": "45000", "consumer.heartbeat.interval.ms": "14000"},
        {"share.auto.offset.reset": "by_duration:PT1H", "share.renew.acknowledge.enable": "false"},
        {"streams.num.standby.replicas": "2"},
    ],
)
def test_valid(overrides: dict[str, str]) -> None:
    validate_group_overrides(overrides, BrokerConfig())


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("consumer.session.timeout.ms", "1", "greater than or equal to group.consumer.min.session.timeout.ms"),
        ("consumer.session.timeout.ms", "70000", "less than or equal to group.consumer.max.session.timeout.ms"),
        ("consumer.heartbeat.interval.ms", "20000", "group.consumer.max.heartbeat.interval.ms"),
        ("consumer.assignment.interval.ms", "99999", "group.consumer.max.assignment.interval.ms"),
        ("share.delivery.count.limit", "99", "group.share.max.delivery.count.limit"),
        ("share.record.lock.duration.ms", "1000", "group.share.min.record.lock.duration.ms"),
        ("share.record.lock.duration.ms", "10", "at least 1000"),
        ("share.partition.max.record.locks", "99999", "group.share.max.partition.max.record.locks"),
        ("streams.num.standby.replicas", "9", "group.streams.max.standby.replicas"),
        ("share.isolation.level", "x", "one of: read_committed, read_uncommitted"),
    ],
)
def test_refused(name: str, value: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        validate_group_overrides({name: value}, BrokerConfig())
    assert message in str(caught.value)


def test_a_session_outlasts_a_heartbeat() -> None:
    broker = BrokerConfig({"group.consumer.min.session.timeout.ms": "1"})
    with pytest.raises(
        ConfigError, match=r"^consumer\.session\.timeout\.ms must be greater than consumer\.heartbeat\.interval\.ms$"
    ):
        validate_group_overrides({"consumer.session.timeout.ms": "5000"}, broker)


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(UnknownKeyError, match=r"^Unknown group config name: nope$"):
        validate_group_overrides({"nope": "1"}, BrokerConfig())
