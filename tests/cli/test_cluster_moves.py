"""`ottla cluster rebalance`, `drain` and `replace`, on brokers that are processes, while a producer writes."""

import json
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.cli.moving import MoveProgress, duration, parse_rate
from tests.cli.conftest import Cli
from tests.cli.operated_cluster import RATES, create, fill, join, look, replica_counts, throttles
from tests.cli.process_tree import running
from tests.server.zookeeper_cluster import TOPIC, ProcessCluster, Writer, eventually, process_cluster


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ProcessCluster]:
    """Three brokers on one SQLite file."""
    with process_cluster(tmp_path, None, brokers=3) as found:
        yield found


def test_a_broker_that_joined_gets_its_share(cluster: ProcessCluster) -> None:
    create(cluster, TOPIC, [1, 2, 3])
    create(cluster, "more", *[[1, 2, 3], [2, 3, 1], [3, 1, 2]] * 3)
    fill(cluster, "more", 9, 1)
    join(cluster, 4)
    cli = Cli(cluster.bootstrap_servers)
    before = look(cluster).partitions
    preview = cli.json("cluster", "rebalance", "--preview")
    assert look(cluster).partitions == before, "a preview changes nothing"
    assert preview["state"] == "preview"
    assert sorted(row["replicas_after"] for row in preview["brokers"]) == [7, 7, 8, 8]
    assert {broker for move in preview["moves"] for broker in set(move["to"]) - set(move["from"])} == {4}
    shown = cli.ok("cluster", "rebalance", "--preview", "--throttle", "1MB")
    assert "PARTITION" in shown
    assert "to copy" in shown.splitlines()[-2]
    assert shown.splitlines()[-1] == "At 1.0 MB/s for each broker, copying takes about 7 s."
    with Writer(cluster.bootstrap_servers) as writer:
        assert "The cluster is balanced." in cli.ok("cluster", "rebalance", "--throttle", "50MB")
        writer.wait_for_more()
    counts = replica_counts(cluster)
    assert max(counts.values()) - min(counts[broker] for broker in cluster.brokers) <= 1
    leaders = Counter(it.leader for it in look(cluster).partitions.values())
    assert max(leaders.values()) - min(leaders[broker] for broker in cluster.brokers) <= 1
    assert throttles(cli, "more", [1, 2, 3, 4]) == []
    assert cli.json("cluster", "status")["healthy"]
    assert cli.ok("cluster", "rebalance").splitlines()[-2:] == [
        "Nothing to move: the cluster is balanced.",
        "The cluster is balanced.",
    ]
    assert not writer.failures
    assert set(writer.acknowledged) <= set(cluster.values())


def test_a_drained_broker_can_be_stopped_and_replaced(cluster: ProcessCluster) -> None:
    cli = Cli(cluster.bootstrap_servers)
    create(cluster, TOPIC, [1, 2, 3])
    refused = cli.fails("cluster", "drain", "1")
    assert "cannot leave broker 1" in refused
    assert refused.endswith("add a broker first.")
    assert cli.fails("cluster", "drain", "9") == "There is no broker 9; the cluster has 1, 2, 3."
    join(cluster, 4)
    create(cluster, "more", [1, 2], [2, 1], [1, 3])
    fill(cluster, "more", 3, 1)
    with Writer(cluster.bootstrap_servers) as writer:
        said = cli.ok("cluster", "drain", "1").splitlines()
        assert said[-1] == "Broker 1 has no replicas and leads nothing. It can be stopped."
        assert replica_counts(cluster)[1] == 0
        eventually(lambda: not list(cluster.brokers[1].data_dir.glob("more-?")), "its logs are deleted")
        cluster.brokers[1].stop()
        writer.wait_for_more()
        del cluster.brokers[1]
        join(cluster, 5)
        cli = Cli(cluster.bootstrap_servers)
        held = {key for key, it in look(cluster).partitions.items() if 2 in it.assigned}
        assert cli.ok("cluster", "replace", "2", "5").splitlines()[-1].startswith("Broker 2 has no replicas")
        assert {key for key, it in look(cluster).partitions.items() if 5 in it.assigned} == held
        writer.wait_for_more()
    assert not writer.failures
    assert set(writer.acknowledged) <= set(cluster.values())
    assert cli.json("cluster", "status")["healthy"]
    assert cli.fails("cluster", "replace", "3", "7") == "Broker 7 is not running; start it first."


def test_the_replicas_of_a_dead_broker_are_copied_from_the_others(cluster: ProcessCluster) -> None:
    create(cluster, "more", [1, 2], [2, 3], [3, 1])
    written = fill(cluster, "more", 3, 1)
    cluster.brokers.pop(3).kill()
    cli = Cli(cluster.bootstrap_servers)
    eventually(lambda: 3 not in {it.id for it in look(cluster).brokers}, "broker 3 is gone")
    eventually(lambda: all(it.leader is not None for it in look(cluster).partitions.values()), "all have a leader")
    assert cli.fails("cluster", "rebalance").startswith("Broker 3 is not running and has 2 replicas; start it, or move")
    behind = "FAIL 2 partitions are under-replicated: more-1, more-2"
    eventually(lambda: behind in cli("cluster", "status").stdout, "the dead broker has left the in-sync replicas")
    result = cli("cluster", "status")
    assert result.exit_code == 1
    assert result.stderr == "The cluster is not healthy: 2 problems.\n"
    assert "FAIL Broker 3 is not running; it has replicas of 2 partitions" in result.stdout
    assert cli.ok("cluster", "drain", "3").splitlines()[-1] == (
        "Broker 3 has no replicas and leads nothing. It is not running, and is not needed any more."
    )
    assert cli.ok("cluster", "status").splitlines()[-1] == "The cluster is healthy."
    records = cli.ok("consume", "more", "--from-beginning", "--exit-at-end")
    assert len(records.splitlines()) == written


def test_ctrl_c_leaves_the_moves_running(cluster: ProcessCluster) -> None:
    create(cluster, "more", [1, 2], [2, 1])
    fill(cluster, "more", 2, 6)
    cli = Cli(cluster.bootstrap_servers)
    with running("cluster", "drain", "1", "--throttle", "50k", "-b", cluster.bootstrap_servers) as command:
        eventually(lambda: cli.json("cluster", "reassign", "--list"), "the moves have started")
        assert command.end(signal.SIGINT) == 130
        assert "The moves continue, and the throttle stays." in command.output[-1]
    moving = cli.json("cluster", "reassign", "--list")
    assert len(moving) == 2
    assert all(move["adding"] == [3] and move["removing"] == [1] for move in moving)
    assert "2 partitions of the cluster are being moved already" in cli.fails("cluster", "rebalance")
    assert cli.json("cluster", "status")["healthy"], "replicas that are being added are expected to lag"
    assert sorted(throttles(cli, "more", [1])) == sorted(
        [*RATES, "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"]
    )
    assert cli.ok("cluster", "drain", "2", "--cancel") == "There is no move to cancel.\n"
    cancelled = cli.json("cluster", "drain", "1", "--cancel")
    assert cancelled["throttle_removed"]
    assert [sorted(entry["replicas"]) for entry in cancelled["cancelled"]] == [[1, 2], [1, 2]]
    assert cli.json("cluster", "reassign", "--list") == []
    assert throttles(cli, "more", [1, 2, 3]) == []
    assert replica_counts(cluster) == {1: 2, 2: 2}


def test_moves_without_waiting_are_finished_later(cluster: ProcessCluster) -> None:
    create(cluster, "more", [1, 2], [2, 1])
    fill(cluster, "more", 2, 1)
    cli = Cli(cluster.bootstrap_servers)
    started = json.loads(cli.ok("cluster", "drain", "1", "--no-wait", "--throttle", "10MB", "--json"))
    assert started["state"] == "started"
    assert started["later_moves"] == []
    assert started["rollback"]["partitions"][0]["replicas"] == [1, 2]
    assert cli.ok("cluster", "reassign", "--wait").splitlines()[-1].endswith("o partition is being moved.")
    assert replica_counts(cluster)[1] == 0
    assert throttles(cli, "more", [1, 2, 3]) == []


@pytest.mark.parametrize(
    ("text", "rate"), [("20000000", 20_000_000), ("20MB", 20_000_000), ("1.5 MB/s", 1_500_000), ("500k", 500_000)]
)
def test_rates(text: str, rate: int) -> None:
    assert parse_rate(text) == rate


@pytest.mark.parametrize("text", ["0", "fast", "-3", "1TB"])
def test_rates_that_make_no_sense(cli: Cli, text: str) -> None:
    assert "is no number of bytes per second" in cli.refuses("cluster", "rebalance", "--throttle", text)


def test_progress() -> None:
    progress = MoveProgress(4, 2_000_000, shown=True)
    assert progress.text(0, 0, 0.0) == "0 of 4 partitions moved, 0 B of 2.0 MB copied"
    assert progress.text(1, 500_000, 250_000) == (
        "1 of 4 partitions moved, 500 kB of 2.0 MB copied, 250 kB/s, about 6 s left"
    )
    assert progress.text(4, 2_100_000, 250_000) == "4 of 4 partitions moved, 2.0 MB of 2.0 MB copied, 250 kB/s"
    assert [duration(seconds) for seconds in (5, 65, 3700)] == ["5 s", "1 min 5 s", "1 h 1 min"]


def test_moves_survive_the_death_of_the_controller(cluster: ProcessCluster) -> None:
    cli = Cli(cluster.bootstrap_servers)
    controller = look(cluster).controller
    assert controller is not None
    source, target = sorted(set(cluster.brokers) - {controller})
    create(cluster, "more", [source])
    written = fill(cluster, "more", 1, 4)
    plan = ("cluster", "reassign", "--topic", "more", "--to", str(target), "--execute")
    cli.ok(*plan, "--throttle", "600k", "--no-wait")
    cluster.brokers.pop(controller).kill()
    cli = Cli(cluster.bootstrap_servers)
    eventually(lambda: cli.json("cluster", "reassign", "--list"), "the others list the move")
    assert "1 move done" in cli.ok("cluster", "reassign", "--wait")
    assert [it.assigned for it in look(cluster).partitions.values()] == [[target]]
    assert throttles(cli, "more", [source, target]) == []
    assert len(cli.ok("consume", "more", "--from-beginning", "--exit-at-end").splitlines()) == written
