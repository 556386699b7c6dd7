import socket

from tests.cli.conftest import Cli


def test_a_healthy_broker(cli: Cli, topic: str) -> None:
    first, second, third, following = cli.ok("doctor").splitlines()
    assert first.startswith(f"ok   {cli.bootstrap_server} accepts connections")
    assert "brokers: 1" in second
    assert third.endswith(f"advertises {cli.bootstrap_server}, which can be reached from here")
    assert following.startswith("Next: ottla ")


def test_json(cli: Cli, topic: str) -> None:
    answer = cli.json("doctor")
    assert answer["topics"] >= 1
    assert answer["round_trip_ms"] > 0
    assert [(broker["address"], broker["reachable"]) for broker in answer["brokers"]] == [(cli.bootstrap_server, True)]


def test_nobody_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    sentence = Cli(address).fails("doctor")
    assert sentence.startswith(f"No broker answered at {address}; start one with `ottla serve`")
