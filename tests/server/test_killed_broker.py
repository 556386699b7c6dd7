"""A broker that is killed and restarted does not wait for its old session."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.cli.zookeeper_server import ZooKeeperServer
from tests.server.zookeeper_cluster import ProcessCluster, Writer, eventually, process_cluster
from tests.store.conftest import new_server

pytestmark = pytest.mark.timeout(600)

SESSION_SECONDS = 36.0
"""Longer than a start may take."""


@pytest.fixture(params=["sqlite", "zookeeper"])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ProcessCluster]:
    zookeeper: ZooKeeperServer | None = None
    if request.param == "zookeeper":
        zookeeper = new_server(tmp_path / "zookeeper")
        zookeeper.start()
    settings = {"auto.leader.rebalance.enable": "true"}
    try:
        with process_cluster(tmp_path, zookeeper, session_seconds=SESSION_SECONDS, settings=settings) as cluster:
            yield cluster
    finally:
        if zookeeper is not None:
            zookeeper.stop()


def test_a_killed_leader_is_back_and_leads(cluster: ProcessCluster) -> None:
    cluster.create_topic()
    with Writer(cluster.bootstrap_servers) as writer:
        killed = cluster.leader()
        cluster.brokers[killed].kill()
        cluster.brokers[killed].start()
        cluster.wait_until_in_sync()
        eventually(lambda: cluster.leader() == killed, "the preferred leader leads again")
        writer.wait_for_more()
    assert writer.failures == []
    cluster.wait_until_equal()
    assert cluster.values() == sorted(writer.acknowledged)
    log = cluster.brokers[killed].log()
    assert "waiting for the previous session" not in log
