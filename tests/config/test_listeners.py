import pytest

from ottla.config.broker import BrokerConfig
from ottla.config.definition import ConfigError
from ottla.config.keys import BROKER_KEYS
from ottla.config.listeners import (
    DEFAULT_PROTOCOL_MAP,
    Listener,
    advertised_listeners,
    broker_listeners,
    parse_listeners,
)


def test_a_listener() -> None:
    assert parse_listeners("PLAINTEXT://127.0.0.1:9092") == [Listener("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 9092)]
    assert parse_listeners("PLAINTEXT://:0") == [Listener("PLAINTEXT", "PLAINTEXT", "", 0)]
    assert parse_listeners(" ssl://host:1 , PLAINTEXT://[::1]:2 ") == [
        Listener("SSL", "SSL", "host", 1),
        Listener("PLAINTEXT", "PLAINTEXT", "::1", 2),
    ]


def test_names_get_their_protocol_from_the_map() -> None:
    listeners = parse_listeners(
        "PLAINTEXT://0.0.0.0:9093,BROKER://0.0.0.0:9092", "BROKER:PLAINTEXT, PLAINTEXT:sasl_ssl"
    )
    assert [(listener.name, listener.protocol) for listener in listeners] == [
        ("PLAINTEXT", "SASL_SSL"),
        ("BROKER", "PLAINTEXT"),
    ]


def test_the_default_map_is_the_tables() -> None:
    assert BROKER_KEYS["listener.security.protocol.map"].default == DEFAULT_PROTOCOL_MAP


@pytest.mark.parametrize("text", ["PLAINTEXT://127.0.0.1:9092", "SSL://:0", "PLAINTEXT://[::1]:2"])
def test_printing(text: str) -> None:
    assert str(parse_listeners(text)[0]) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "at least one listener"),
        ("127.0.0.1:9092", "write NAME://host:port"),
        ("PLAINTEXT://127.0.0.1", "write NAME://host:port"),
        ("PLAINTEXT://127.0.0.1:", "write NAME://host:port"),
        ("PLAINTEXT://127.0.0.1:x", "write NAME://host:port"),
        ("PLAINTEXT://127.0.0.1:-1", "write NAME://host:port"),
        ("PLAINTEXT://a/b:1", "write NAME://host:port"),
        ("://a:1", "write NAME://host:port"),
        ("PLAINTEXT://::1:9092", "brackets"),
        ("PLAINTEXT://a:65536", "between 0 and 65535"),
        ("INSIDE://a:1", "listener.security.protocol.map names no security protocol for INSIDE"),
        ("PLAINTEXT://a:1,PLAINTEXT://a:2", "its own name"),
    ],
)
def test_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_listeners(text)
    assert message in str(caught.value)
    assert caught.value.name == "listeners"


@pytest.mark.parametrize("text", ["A", "A:", ":PLAINTEXT", "A:TLS"])
def test_a_bad_protocol_map_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="write NAME:PROTOCOL"):
        parse_listeners("A://a:1", text)


def test_the_listeners_of_a_kraft_controller_are_left_out() -> None:
    config = BrokerConfig(
        {
            "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
            "advertised.listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
            "controller.listener.names": "CONTROLLER",
        }
    )
    assert broker_listeners(config) == (Listener("PLAINTEXT", "PLAINTEXT", "", 9092),)
    assert advertised_listeners(config) == (Listener("PLAINTEXT", "PLAINTEXT", "localhost", 9092),)
    with pytest.raises(ConfigError, match="clients need one, too"):
        broker_listeners(BrokerConfig({"listeners": "C://:1", "controller.listener.names": "C"}))


def test_addresses_are_used_once() -> None:
    with pytest.raises(ConfigError, match="another listener has the same address"):
        broker_listeners(BrokerConfig({"listeners": "PLAINTEXT://a:1,SSL://a:1"}))
    for text in ("PLAINTEXT://a:1,SSL://b:1", "PLAINTEXT://a:0,SSL://a:0"):
        assert len(broker_listeners(BrokerConfig({"listeners": text}))) == 2


def test_advertised_listeners_may_be_unset() -> None:
    assert advertised_listeners(BrokerConfig()) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SSL://a:1", "listeners has no listener SSL"),
        ("PLAINTEXT://0.0.0.0:9092", "the address of one interface"),
        ("PLAINTEXT://:9092", "the address of one interface"),
        ("nonsense", "write NAME://host:port"),
    ],
)
def test_advertised_listeners_a_client_could_not_use(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        advertised_listeners(BrokerConfig({"advertised.listeners": text}))
    assert message in str(caught.value)
    assert caught.value.name == "advertised.listeners"
