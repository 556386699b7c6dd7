"""Damaged nodes in the store stop neither failover nor the creation of topics."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.cli.zookeeper_server import ZooKeeperServer
from ottla.cluster import znodes
from ottla.store.interface import Delete, Put
from tests.cli.conftest import Cli
from tests.server.zookeeper_cluster import ProcessCluster, Writer, eventually, process_cluster
from tests.store.conftest import new_server

pytestmark = pytest.mark.timeout(600)

NONSENSE = b"nonsense"
FOREIGN = ["/config/topics/nosuch", "/brokers/topics/odd", "/brokers/ids/99", "/config/brokers/%zz"]


@pytest.fixture(params=["sqlite", "zookeeper"])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ProcessCluster]:
    zookeeper: ZooKeeperServer | None = None
    if request.param == "zookeeper":
        zookeeper = new_server(tmp_path / "zookeeper")
        zookeeper.start()
    try:
        with process_cluster(tmp_path, zookeeper, brokers=2) as cluster:
            yield cluster
    finally:
        if zookeeper is not None:
            zookeeper.stop()


def test_brokers_go_on_with_the_last_good_values(cluster: ProcessCluster) -> None:
    cluster.create_topic()
    with Writer(cluster.bootstrap_servers) as writer:
        pass  # Both brokers have applied the topic's good node once they have stored and acknowledged records.
    topic = znodes.topic_path("written")
    good = cluster.read(topic)
    damaged = [*FOREIGN, znodes.CONTROLLER_EPOCH, topic, znodes.partition_state_path("written", 0)]
    cluster.write(*(Put(path, NONSENSE) for path in damaged))
    for broker_id in cluster.brokers:
        for path in damaged:
            cluster.wait_for_log(broker_id, f"the node {path!r} of the store is damaged")
    doctor = Cli(cluster.brokers[1].bootstrap_servers)
    sentence = doctor.fails("doctor")
    assert all(repr(path) in sentence for path in damaged), sentence

    dead = cluster.leader()
    alive = 3 - dead
    cluster.brokers[dead].kill()
    eventually(lambda: cluster.partition(asked=alive) == (alive, [alive]), "the other broker leads")
    Cli(cluster.brokers[alive].bootstrap_servers).ok("topics", "create", "later")

    # A broker that starts has no last good value. It keeps the log, and follows when the topic's node is repaired.
    cluster.brokers[dead].start()
    cluster.wait_for_log(dead, "keeping written-0: the topic's node in the store is damaged")
    cluster.write(*(Delete(path) for path in FOREIGN), Put(topic, good))
    cluster.wait_until_in_sync()
    for broker_id in cluster.brokers:
        cluster.wait_for_log(broker_id, f"the node {topic!r} of the store is repaired")
    assert set(writer.acknowledged) <= set(cluster.values())
