import pytest

from ottla.config.definition import ConfigError
from ottla.config.load import from_environment, parse_properties, static_config


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("a=1", {"a": "1"}),
        ("a = 1\r\nb: 2\rc 3\n", {"a": "1", "b": "2", "c": "3"}),
        ("# note\n  ! note\n\n   a=1", {"a": "1"}),
        ("a=x#y", {"a": "x#y"}),
        ("a=", {"a": ""}),
        ("a", {"a": ""}),
        ("a==b", {"a": "=b"}),
        ("a = : b", {"a": ": b"}),
        ("a\t \t=\t b ", {"a": "b "}),
        ("a=1,\\\n   2,\\\n   3", {"a": "1,2,3"}),
        ("a=1\\\n# not a note", {"a": "1# not a note"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("a=1\\", {"a": "1"}),
        ("a=1\na=2", {"a": "2"}),
        ("path=c:\\\\data\\ttab\\u00e9\\q", {"path": "c:\\data\ttabéq"}),
        ("a\\ b\\=c=d", {"a b=c": "d"}),
        ("listeners=PLAINTEXT://:9092", {"listeners": "PLAINTEXT://:9092"}),
    ],
)
def test_properties(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


@pytest.mark.parametrize("text", ["a=\\u12", "a=\\uwxyz", "a=\\u"])
def test_a_broken_unicode_escape_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="four hexadecimal digits"):
        parse_properties(text)


def test_environment() -> None:
    assert from_environment(
        {
            "KAFKA_LOG_RETENTION_HOURS": "5",
            "KAFKA_LISTENER_NAME_SASL__SSL_SCRAM___SHA___256_SASL_JAAS_CONFIG": "x",
            "KAFKA_CFG_NUM_PARTITIONS": "3",
            "KAFKA_HEAP_OPTS": "-Xmx1g",
            "KAFKA_OPTS": "",
            "PATH": "/bin",
        }
    ) == {
        "log.retention.hours": "5",
        "listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config": "x",
        "num.partitions": "3",
    }


def test_later_sources_win() -> None:
    merged = static_config("a=file\nb=file", {"KAFKA_B": "env"})
    assert merged == {"a": "file", "b": "env"}
    assert static_config() == {}


def test_an_environment_that_advertises_also_listens() -> None:
    advertised = {"KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://kafka:9092, BROKER://[::1]:9093"}
    assert static_config("", advertised)["listeners"] == "PLAINTEXT://0.0.0.0:9092,BROKER://0.0.0.0:9093"
    assert static_config("listeners=PLAINTEXT://:1", advertised)["listeners"] == "PLAINTEXT://:1"
    assert "listeners" not in static_config("advertised.listeners=PLAINTEXT://a:1")
