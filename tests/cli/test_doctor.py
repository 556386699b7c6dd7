import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ottla.cli.admin import Broker, Cluster, Replicas
from ottla.cli.doctor import Health, examine
from ottla.model import TopicPartition
from ottla.testing.embedded import embedded
from tests.cli.conftest import Cli


def test_a_healthy_broker(cli: Cli, topic: str) -> None:
    first, second, third, fourth, following = cli.ok("doctor").splitlines()
    assert first.startswith(f"ok   {cli.bootstrap_server} accepts connections")
    assert "brokers: 1" in second
    assert third.endswith(f"advertises {cli.bootstrap_server}, which can be reached from here")
    assert fourth.startswith("ok   Every partition has a leader and all its replicas in sync")
    assert following.startswith("Next: ottla ")


def test_json(cli: Cli, topic: str) -> None:
    answer = cli.json("doctor")
    assert answer["topics"] == len(cli.json("topics", "list")), "internal topics too, as in `cluster status`"
    assert answer["round_trip_ms"] > 0
    assert [(broker["address"], broker["reachable"]) for broker in answer["brokers"]] == [(cli.bootstrap_server, True)]


def test_partitions_that_are_not_well() -> None:
    partitions = {
        TopicPartition("clicks", 0): Replicas(1, [1, 2], [1, 2]),
        TopicPartition("clicks", 1): Replicas(2, [2, 3], [2]),
        TopicPartition("clicks", 2): Replicas(None, [3], [3]),
    }
    brokers = [Broker(1, "a", 1), Broker(2, "b", 2)]
    health = examine(Cluster("id", brokers, ["clicks"], partitions))
    assert health == Health({3: 2}, [TopicPartition("clicks", 2)], [TopicPartition("clicks", 1)])
    assert health.problems == [
        "Broker 3 is not running; it has replicas of 2 partitions",
        "1 partition has no leader: clicks-2",
        "1 partition is under-replicated: clicks-1",
    ]


def test_many_partitions_are_shortened() -> None:
    partitions = [TopicPartition("t", number) for number in range(8)]
    (problem,) = Health({}, partitions, []).problems
    assert problem == "8 partitions have no leader: t-0, t-1, t-2, t-3, t-4 and 3 more"


def test_a_dead_broker_fails_the_check(tmp_path: Path) -> None:
    """Two brokers with one store; the second one stops."""

    def settings(broker: int) -> dict[str, str]:
        return {
            "store.file": str(tmp_path / "store.sqlite"),
            "default.replication.factor": "2",
            "node.id": str(broker),
            "broker.id": str(broker),
        }

    with embedded(settings(1)) as first:
        cli = Cli(first.bootstrap_servers)
        with embedded(settings(2)):
            cli.ok("topics", "create", "clicks", "--partitions", "2")
            assert cli.json("doctor")["dead_brokers"] == []
        deadline = time.monotonic() + 60
        while 2 in [broker["broker"] for broker in json.loads(cli("doctor", "--json").stdout)["brokers"]]:
            assert time.monotonic() < deadline, "the first broker still lists the second one"
        for arguments in (["doctor"], ["doctor", "--json"]):
            result = cli(*arguments)
            assert result.exit_code == 1
            assert result.stderr.startswith("Not running: broker 2.")
        document = json.loads(result.stdout)
        assert document["dead_brokers"] == [2]
        assert len(document["under_replicated"]) == 2
        shown = cli("doctor").stdout
        assert "FAIL Broker 2 is not running; it has replicas of 2 partitions" in shown
        assert "FAIL 2 partitions are under-replicated: clicks-0, clicks-1" in shown


def test_nobody_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    sentence = Cli(address).fails("doctor")
    assert sentence.startswith(f"No broker answered at {address}; start one with `ottla serve`")


def test_one_broker_that_answers_is_healthy_whatever_the_others_do(cli: Cli) -> None:
    assert cli.ok("doctor", "--one-broker") == f"ok   {cli.bootstrap_server} answers\n"
    assert cli.json("doctor", "--one-broker") == {"bootstrap_server": cli.bootstrap_server}


def test_one_broker_that_does_not_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with ThreadPoolExecutor(1) as thread:
            thread.submit(_hang_up_twice, server)
            sentence = Cli(address).fails("doctor", "--one-broker")
    assert sentence == f"{address} accepts connections but does not answer Kafka's requests."
    assert Cli(address).fails("doctor", "--one-broker").startswith(f"No broker answered at {address}")


def _hang_up_twice(server: socket.socket) -> None:
    for _ in range(2):
        server.accept()[0].close()
