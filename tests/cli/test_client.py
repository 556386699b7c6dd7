import socket

import pytest
import typer
from confluent_kafka import KafkaError

from ottla.cli.client import Client, SilentBrokerError, dial, parse_address
from ottla.cli.command_error import CommandError


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("localhost:9093", ("localhost", 9093)),
        ("localhost", ("localhost", 9092)),
        ("[::1]:9094", ("::1", 9094)),
        ("[::1]", ("::1", 9092)),
        ("PLAINTEXT://broker.example:19092", ("broker.example", 19092)),
        (" spaced:1 ", ("spaced", 1)),
    ],
)
def test_bootstrap_addresses(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["", ":9092", "host:port", "host:99999", "host:-1"])
def test_what_is_no_address_is_wrong_usage(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        parse_address(text)


def test_one_of_several_addresses_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        dial(f"127.0.0.1:{_closed_port()},127.0.0.1:{port}")


def test_nobody_there() -> None:
    address = f"127.0.0.1:{_closed_port()}"
    with pytest.raises(CommandError) as failure:
        dial(address)
    assert str(failure.value) == (
        f"No broker answered at {address}; start one with `ottla serve` or pass --bootstrap-server."
    )


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        (KafkaError.TOPIC_ALREADY_EXISTS, "Topic 'x' already exists; choose another name or pass --if-not-exists."),
        (KafkaError.NON_EMPTY_GROUP, "Consumer group 'x' still has active members; stop its consumers first."),
        (KafkaError.INVALID_CONFIG, "The broker rejected the request for 'x': because."),
    ],
)
def test_errors_become_sentences(code: int, sentence: str) -> None:
    assert str(Client("127.0.0.1:9092", None).failure(KafkaError(code, "because."), "x")) == sentence


def test_an_error_without_words_is_named() -> None:
    failure = Client("127.0.0.1:9092", None).failure(KafkaError(KafkaError.POLICY_VIOLATION, ""))
    assert str(failure) == "The broker rejected the request: POLICY_VIOLATION."


def test_a_silent_broker_is_told_from_one_that_is_gone() -> None:
    timed_out = KafkaError(KafkaError._TIMED_OUT)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        failure = Client(address, None).failure(timed_out)
        assert isinstance(failure, SilentBrokerError)
        assert "ottla doctor" in str(failure)
    assert "No broker answered" in str(Client(address, None).failure(timed_out))


def _closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
