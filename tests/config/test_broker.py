import pytest

from ottla.config.broker import BrokerConfig
from ottla.config.definition import ConfigError

HOUR_MS = 3_600_000


def test_defaults() -> None:
    config = BrokerConfig()
    assert config.integer("num.partitions") == 1
    assert config.boolean("auto.create.topics.enable") is True
    assert config.double("log.cleaner.min.cleanable.ratio") == 0.5
    assert config.string("compression.type") == "producer"
    assert config.list("listeners") == ("PLAINTEXT://127.0.0.1:9092",)
    assert config.get("zookeeper.connect") is None
    assert config.warnings == ()


def test_layers_in_kafkas_order() -> None:
    static = BrokerConfig({"message.max.bytes": "1"})
    assert static.integer("message.max.bytes") == 1
    cluster = static.with_dynamic({}, {"message.max.bytes": "2"})
    assert cluster.integer("message.max.bytes") == 2
    broker = cluster.with_dynamic({"message.max.bytes": "3"}, {"message.max.bytes": "2"})
    assert broker.integer("message.max.bytes") == 3
    assert static.integer("message.max.bytes") == 1, "a config never changes"
    assert broker.with_dynamic({}, {}).integer("message.max.bytes") == 1


@pytest.mark.parametrize(
    ("static", "name", "value"),
    [
        ({}, "log.retention.ms", 168 * HOUR_MS),
        ({"log.retention.hours": "2"}, "log.retention.ms", 2 * HOUR_MS),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, "log.retention.ms", 180_000),
        ({"log.retention.minutes": "3", "log.retention.ms": "4"}, "log.retention.ms", 4),
        ({"log.retention.hours": "-1"}, "log.retention.ms", -1),
        ({"log.retention.ms": "-9"}, "log.retention.ms", -1),
        ({}, "log.roll.ms", 168 * HOUR_MS),
        ({"log.roll.hours": "1"}, "log.roll.ms", HOUR_MS),
        ({"log.roll.hours": "1", "log.roll.ms": "5"}, "log.roll.ms", 5),
        ({}, "log.roll.jitter.ms", 0),
        ({"log.roll.jitter.hours": "1"}, "log.roll.jitter.ms", HOUR_MS),
        ({}, "log.flush.interval.ms", 2**63 - 1),
        ({"log.flush.scheduler.interval.ms": "7"}, "log.flush.interval.ms", 7),
        ({"log.flush.scheduler.interval.ms": "7", "log.flush.interval.ms": "8"}, "log.flush.interval.ms", 8),
        ({"zookeeper.session.timeout.ms": "9"}, "zookeeper.connection.timeout.ms", 9),
    ],
)
def test_a_key_that_is_unset_follows_the_next_one(static: dict[str, str], name: str, value: int) -> None:
    assert BrokerConfig(static).integer(name) == value


def test_log_dirs_follow_log_dir() -> None:
    assert BrokerConfig().list("log.dirs") == ("data",)
    assert BrokerConfig({"log.dir": "/a"}).list("log.dirs") == ("/a",)
    assert BrokerConfig({"log.dir": "/a", "log.dirs": "/b, /c"}).list("log.dirs") == ("/b", "/c")


def test_what_was_set_stays_visible_beside_what_follows_from_it() -> None:
    assert BrokerConfig({"log.retention.hours": "2"}).parsed["log.retention.ms"] is None


@pytest.mark.parametrize(
    ("static", "number"),
    [
        ({}, 1),
        ({"node.id": "5"}, 5),
        ({"broker.id": "0"}, 0),
        ({"broker.id": "7", "node.id": " 7"}, 7),
        ({"broker.id": "-1", "node.id": "3"}, 3),
        ({"broker.id": "-1"}, 1),
    ],
)
def test_node_id_and_broker_id_are_one_number(static: dict[str, str], number: int) -> None:
    config = BrokerConfig(static)
    assert (config.integer("node.id"), config.integer("broker.id")) == (number, number)


def test_two_different_ids_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"^Invalid value 2 for configuration broker.id: .* node.id, which is 1"):
        BrokerConfig({"broker.id": "2", "node.id": "1"})


def test_an_unknown_key_warns_and_does_no_harm() -> None:
    config = BrokerConfig({"confluent.balancer": "x", "listener.name.plaintext.max.connections": "4"})
    assert config.warnings == ("confluent.balancer is not a broker key; it has no effect",)


@pytest.mark.parametrize(
    ("static", "message"),
    [
        ({"num.partitions": "0"}, "Invalid value 0 for configuration num.partitions: Value must be at least 1"),
        ({"num.partitions": "many"}, "Not a number of type INT"),
        ({"log.retention.ms": "0"}, "at least 1, or -1 for no limit"),
        ({"log.retention.hours": "0"}, "at least 1, or -1 for no limit"),
        ({"log.roll.ms": "0"}, "log.roll.ms: the value must be at least 1"),
        ({"log.roll.jitter.ms": "-1"}, "log.roll.jitter.ms: the value must be at least 0"),
        (
            {"log.cleaner.min.compaction.lag.ms": "9", "log.cleaner.max.compaction.lag.ms": "8"},
            "at most log.cleaner.max.compaction.lag.ms, which is 8",
        ),
        ({"offsets.topic.compression.codec": "5"}, "between 0 and 4"),
        ({"queued.max.request.bytes": "1000"}, "must not be below socket.request.max.bytes"),
        ({"log.dirs": ""}, "the list must not be empty"),
        ({"listeners": "a,,b"}, "members of the list must not be empty"),
    ],
)
def test_refused(static: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        BrokerConfig(static)
    assert message in str(caught.value)


def test_a_bad_stored_value_is_left_out_with_a_warning() -> None:
    config = BrokerConfig({"zzz": "1"}).with_dynamic(
        {"log.retention.ms": "0", "log.segment.bytes": "2000000"}, {"max.connections": "lots"}
    )
    assert config.integer("log.retention.ms") == 168 * HOUR_MS
    assert config.integer("log.segment.bytes") == 2_000_000
    assert config.integer("max.connections") == 2**31 - 1
    assert len(config.warnings) == 3
    assert "max.connections" not in config.cluster
    assert len(config.with_dynamic({}, {}).warnings) == 1


def test_reading_a_key_as_the_wrong_type_says_so() -> None:
    config = BrokerConfig()
    with pytest.raises(ConfigError, match=r"broker\.rack: the value must be a string"):
        config.string("broker.rack")
    with pytest.raises(ConfigError, match="an integer"):
        config.integer("listeners")
    with pytest.raises(ConfigError, match="true or false"):
        config.boolean("num.partitions")
    with pytest.raises(ConfigError, match="a number"):
        config.double("num.partitions")
    with pytest.raises(ConfigError, match="a list"):
        config.list("num.partitions")
    with pytest.raises(KeyError):
        config.get("no.such.key")


def test_a_stored_value_that_contradicts_the_file_is_left_out_with_a_warning() -> None:
    static = BrokerConfig({"log.cleaner.min.compaction.lag.ms": "10"})
    config = static.with_dynamic({}, {"log.cleaner.max.compaction.lag.ms": "5", "log.retention.ms": "1000"})
    assert config.integer("log.retention.ms") == 1000
    assert config.cluster == {"log.retention.ms": "1000"}
    assert any("log.cleaner.max.compaction.lag.ms" in warning for warning in config.warnings)
