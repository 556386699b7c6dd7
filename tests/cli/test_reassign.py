"""`ottla cluster reassign`, `elect`, `disks` and `status`, on brokers that are processes."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.cli.command_error import CommandError
from ottla.cli.reassign import read_assignment
from ottla.model import TopicPartition
from tests.cli.conftest import Cli
from tests.cli.operated_cluster import create, fill, look
from tests.server.zookeeper_cluster import ProcessCluster, eventually, process_cluster


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ProcessCluster]:
    with process_cluster(tmp_path, None, brokers=3) as found:
        yield found


def assigned(cluster: ProcessCluster) -> list[list[int]]:
    return [replicas.assigned for replicas in look(cluster).partitions.values()]


def test_a_topic_moves_to_the_brokers_that_are_named(cluster: ProcessCluster) -> None:
    create(cluster, "clicks", [1, 2], [2, 1])
    written = fill(cluster, "clicks", 2, 1)
    cli = Cli(cluster.bootstrap_servers)
    preview = cli("cluster", "reassign", "--topic", "clicks", "--to", "2,3")
    assert preview.exit_code == 0
    assert preview.stderr == "Nothing was changed; add --execute to move the replicas.\n"
    assert assigned(cluster) == [[1, 2], [2, 1]]
    said = cli.ok("cluster", "reassign", "--topic", "clicks", "--to", "2,3", "--execute", "--throttle", "20MB")
    assert said.splitlines()[-1] == "All moves are done."
    assert sorted(assigned(cluster)) == [[2, 3], [3, 2]]
    assert sorted(it.leader or 0 for it in look(cluster).partitions.values()) == [2, 3]
    assert len(cli.ok("consume", "clicks", "--from-beginning", "--exit-at-end").splitlines()) == written
    assert "clicks-0 has 2 replicas, more than the brokers of --to (1)" in cli.fails(
        "cluster", "reassign", "--topic", "clicks", "--to", "1"
    )
    assert cli.fails("cluster", "reassign", "--topic", "clicks", "--to", "7").startswith("Broker 7 is not running;")
    assert cli.fails("cluster", "reassign", "--topic", "nosuch", "--to", "1,2").startswith("Topic 'nosuch' does not")


def test_a_file_of_kafkas_tools(cluster: ProcessCluster, tmp_path: Path) -> None:
    """Fewer and more replicas, and a way back."""
    create(cluster, "clicks", [1, 2], [2, 1])
    cli = Cli(cluster.bootstrap_servers)
    plan = tmp_path / "plan.json"
    wanted = [
        {"topic": "clicks", "partition": 0, "replicas": [3, 1, 2]},
        {"topic": "clicks", "partition": 1, "replicas": [3]},
    ]
    plan.write_text(json.dumps({"version": 1, "partitions": wanted}))
    done = cli.json("cluster", "reassign", "--file", str(plan), "--execute")
    assert done["state"] == "done"
    assert assigned(cluster) == [[3, 1, 2], [3]]
    assert [it.leader for it in look(cluster).partitions.values()] == [3, 3]
    plan.write_text(json.dumps(done["rollback"]))
    cli.ok("cluster", "reassign", "--reassignment-json-file", str(plan), "--execute")
    assert assigned(cluster) == [[1, 2], [2, 1]]
    wanted[0]["replicas"] = [1, 9]
    plan.write_text(json.dumps({"version": 1, "partitions": wanted[:1]}))
    refused = cli("cluster", "reassign", "--file", str(plan), "--execute")
    assert refused.exit_code == 1
    assert "The controller refused 1 partition: clicks-0: " in refused.stderr
    assert cli.json("cluster", "reassign", "--list") == []
    assert cli.ok("cluster", "reassign", "--list") == "No partition is being moved.\n"
    assert cli.ok("cluster", "reassign", "--cancel") == "There is no move to cancel.\n"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "Expecting property name"),
        ('{"version": 1}', "'partitions' is missing"),
        ('{"partitions": [{"topic": "t", "partition": 0}]}', "'replicas' is missing"),
        ('{"partitions": [{"topic": "t", "partition": "x", "replicas": [1]}]}', "invalid literal"),
        ('{"partitions": [{"topic": "t", "partition": 0, "replicas": [1], "log_dirs": ["a", "b"]}]}', "zip"),
        ('{"partitions": []}', "names no partition"),
        ("[]", "list indices"),
    ],
)
def test_files_that_are_no_assignment(tmp_path: Path, text: str, reason: str) -> None:
    file = tmp_path / "plan.json"
    file.write_text(text)
    with pytest.raises(CommandError, match=reason):
        read_assignment(file)


def test_an_assignment_with_directories(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    entry = {"topic": "t", "partition": 3, "replicas": [1, 2], "log_dirs": ["/a", "any"]}
    file.write_text(json.dumps({"version": 1, "partitions": [entry]}))
    found = read_assignment(file)
    assert found.replicas == {TopicPartition("t", 3): (1, 2)}
    assert found.directories == {1: {TopicPartition("t", 3): "/a"}}


def test_wrong_usage(cli: Cli) -> None:
    assert "give --file, or --topic with --to, or one of --list" in cli.refuses("cluster", "reassign")
    assert "--topic and --to belong together" in cli.refuses("cluster", "reassign", "--topic", "t")
    assert "different commands" in cli.refuses("cluster", "reassign", "--list", "--cancel")
    assert "--throttle is for new moves" in cli.refuses("cluster", "reassign", "--list", "--throttle", "1MB")
    assert "neither --preview nor" in cli.refuses("cluster", "rebalance", "--cancel", "--preview")
    assert "name topics with --topic, or give --all" in cli.refuses("cluster", "elect")
    assert "--partition needs exactly one --topic" in cli.refuses("cluster", "elect", "--all", "-p", "1")
    assert "OLD and NEW are the same broker" in cli.refuses("cluster", "replace", "1", "1")
    assert cli.fails("cluster", "status", "-X", "security.protocol=ssl").startswith(
        "This command connects to every broker without"
    )


def test_partitions_move_between_directories(tmp_path: Path) -> None:
    one, two = str(tmp_path / "one"), str(tmp_path / "two")
    with process_cluster(
        tmp_path, None, brokers=1, settings={"log.dirs": f"{one},{two}", "broker.rack": "cellar"}
    ) as cluster:
        create(cluster, "clicks", [1], [1])
        written = fill(cluster, "clicks", 2, 1)
        cli = Cli(cluster.bootstrap_servers)
        assert [row["rack"] for row in cli.json("cluster", "status")["brokers"]] == ["cellar"]
        assert "RACK" in cli.ok("cluster", "status").splitlines()[1]
        rows = cli.json("cluster", "disks")
        assert [row["directory"] for row in rows] == [one, two]
        assert sum(row["replicas"] for row in rows) == 2
        assert all(row["usable_bytes"] for row in rows)
        plan = tmp_path / "plan.json"
        wanted = [{"topic": "clicks", "partition": it, "replicas": [1], "log_dirs": [two]} for it in (0, 1)]
        plan.write_text(json.dumps({"version": 1, "partitions": wanted}))
        cli.ok("cluster", "reassign", "--file", str(plan), "--execute")
        assert [row["replicas"] for row in cli.json("cluster", "disks")] == [0, 2]
        assert cli.ok("cluster", "disks").splitlines()[0].split()[:3] == ["BROKER", "DIRECTORY", "REPLICAS"]
        assert len(cli.ok("consume", "clicks", "--from-beginning", "--exit-at-end").splitlines()) == written


def leaders(cluster: ProcessCluster) -> list[int | None]:
    """Empty if the broker that answers has not seen the topic yet."""
    return [partition.leader for partition in look(cluster).partitions.values()]


def in_sync(cluster: ProcessCluster) -> list[list[int]]:
    return [list(partition.in_sync) for partition in look(cluster).partitions.values()]


def test_elections(cluster: ProcessCluster) -> None:
    create(cluster, "clicks", [1, 2], [2, 3])
    cli = Cli(cluster.bootstrap_servers)
    assert cli.ok("cluster", "elect", "--all") == "No election was needed.\n"
    cluster.brokers[1].restart()
    eventually(lambda: all(len(it.in_sync) == 2 for it in look(cluster).partitions.values()), "all are in sync")
    eventually(lambda: leaders(cluster)[:1] == [2], "broker 2 leads")
    status = cli("cluster", "status")
    assert "1 partition not led by the preferred leader: clicks-0" in status.stderr
    assert status.exit_code == 0
    answer = cli.json("cluster", "elect", "--topic", "clicks")
    assert answer == {
        "elected": [{"topic": "clicks", "partition": 0}],
        "not_needed": [{"topic": "clicks", "partition": 1}],
        "failed": [],
    }
    eventually(lambda: leaders(cluster)[:1] == [1], "broker 1 leads")
    assert cli.fails("cluster", "elect", "-t", "clicks", "-p", "7").startswith(
        "1 partition got no new leader: clicks-7"
    )


def test_an_unclean_election_and_what_status_says_before(cluster: ProcessCluster) -> None:
    """Broker 2 dies, then broker 1, which alone is in sync; broker 2 comes back."""
    create(cluster, "clicks", [1, 2])
    cluster.brokers[2].kill()
    cli = Cli(cluster.bootstrap_servers)
    eventually(lambda: in_sync(cluster)[:1] == [[1]], "broker 2 is not in sync")
    cluster.brokers[1].kill()
    shutil.rmtree(cluster.brokers[1].data_dir)
    cluster.brokers[2].start()
    eventually(lambda: [it.id for it in look(cluster).brokers] == [2, 3], "broker 1 is gone, broker 2 is back")
    eventually(lambda: leaders(cluster)[:1] == [None], "there is no leader")
    problems = cli("cluster", "status", "--json")
    assert problems.exit_code == 1
    found = json.loads(problems.stdout)
    assert not found["healthy"]
    assert found["without_leader"] == [{"topic": "clicks", "partition": 0}]
    assert found["dead_brokers"] == [1]
    assert "1 partition of broker 1 without a leader cannot be copied (clicks-0)" in cli.fails("cluster", "drain", "1")
    assert "the preferred leader is not in sync or not running" in cli.fails("cluster", "elect", "--all")
    said = cli.ok("cluster", "elect", "--topic", "clicks", "--partition", "0", "--unclean")
    assert said == "Elected the leader of 1 partition.\n"
    eventually(lambda: leaders(cluster)[:1] == [2], "broker 2 leads")
    cli.ok("cluster", "drain", "1")
    assert assigned(cluster) == [[3, 2]] or assigned(cluster) == [[2, 3]]
    assert cli.ok("cluster", "status").splitlines()[-1] == "The cluster is healthy."


def test_partitions_that_reject_acks_all(cluster: ProcessCluster) -> None:
    cluster.create_topic("clicks")
    for broker in (2, 3):
        cluster.brokers[broker].kill()
    eventually(lambda: in_sync(cluster)[:1] == [[1]], "only broker 1 is in sync")
    result = Cli(cluster.brokers[1].bootstrap_servers)("cluster", "status")
    assert result.exit_code == 1
    assert "FAIL 1 partition rejects acks=all, with too few in-sync replicas: clicks-0" in result.stdout


def test_a_missing_file_is_wrong_usage(cli: Cli) -> None:
    assert "'/nosuch.json' does not exist" in cli.refuses("cluster", "reassign", "--file", "/nosuch.json")
