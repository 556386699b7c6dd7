"""`cluster.rebalance.enable` on brokers that are processes: one joins, one is killed for good."""

import time
from collections import Counter
from pathlib import Path

from tests.cli.conftest import Cli
from tests.cli.operated_cluster import create, fill, join, look, replica_counts
from tests.server.zookeeper_cluster import TOPIC, ProcessCluster, Writer, eventually, process_cluster

SETTINGS = {
    "cluster.rebalance.enable": "true",
    "cluster.rebalance.delay.ms": "1000",
    "cluster.rebalance.throttled.rate": "20000000",
}


def is_even(cluster: ProcessCluster, brokers: list[int]) -> bool:
    partitions = look(cluster).partitions.values()
    counts = replica_counts(cluster)
    leaders = Counter(it.leader for it in partitions)
    return (
        all(len(it.assigned) == len(it.in_sync) == 3 for it in partitions)
        and set(counts) == set(brokers)
        and max(counts.values()) - min(counts.values()) <= 1
        and max(leaders.values()) - min(leaders[broker] for broker in brokers) <= 1
    )


def test_a_broker_joins_and_another_is_killed_for_good(tmp_path: Path) -> None:
    with process_cluster(tmp_path, None, brokers=3, settings=SETTINGS) as cluster:
        create(cluster, TOPIC, [1, 2, 3])
        create(cluster, "more", *[[1, 2, 3], [2, 3, 1], [3, 1, 2]] * 3)
        fill(cluster, "more", 9, 1)
        with Writer(cluster.bootstrap_servers) as writer:
            join(cluster, 4)
            eventually(lambda: is_even(cluster, [1, 2, 3, 4]), "the new broker has its share of replicas and leaders")
            writer.wait_for_more()
            cluster.brokers.pop(1).kill()
            eventually(lambda: is_even(cluster, [2, 3, 4]), "the replicas of the dead broker are on the others")
            writer.wait_for_more()
        assert not writer.failures
        assert set(writer.acknowledged) <= set(cluster.values())


def test_without_the_setting_nothing_moves(tmp_path: Path) -> None:
    """Until it is switched on, which needs no restart."""
    with process_cluster(tmp_path, None, brokers=2) as cluster:
        create(cluster, "more", [1, 2], [2, 1], [1, 2])
        before = look(cluster).partitions
        join(cluster, 3)
        create(cluster, "later", [3])
        assert {key: it for key, it in look(cluster).partitions.items() if key.topic == "more"} == before
        cli = Cli(cluster.bootstrap_servers)
        for broker in ("1", "2", "3"):
            cli.ok("configs", "alter", "--broker", broker, "--add-config", "cluster.rebalance.enable=true")
        eventually(lambda: sorted(replica_counts(cluster).values()) == [2, 2, 3], "the third broker has its share")


def test_new_replicas_are_copied_at_the_rate_of_the_setting(tmp_path: Path) -> None:
    """Without a throttle of the operator. The first fetch brings a megabyte, which has to be paid for first."""
    settings = {"cluster.rebalance.throttled.rate": "300000"}
    with process_cluster(tmp_path, None, brokers=2, settings=settings) as cluster:
        create(cluster, "more", [1])
        fill(cluster, "more", 1, 3)
        started = time.monotonic()
        Cli(cluster.bootstrap_servers).ok("cluster", "reassign", "--topic", "more", "--to", "2", "--execute")
        assert time.monotonic() - started > 5.0
        assert replica_counts(cluster) == {2: 1}
