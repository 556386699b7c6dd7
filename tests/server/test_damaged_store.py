"""Nodes of the store that no broker can read stop neither failover nor the creation of topics."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.cli.zookeeper_server import ZooKeeperServer
from ottla.cluster import znodes
from ottla.store.interface import Delete, Put
from tests.cli.conftest import Cli
from tests.server.zookeeper_cluster import ProcessCluster, eventually, process_cluster
from tests.store.conftest import new_server

pytestmark = pytest.mark.timeout(180)

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

    # A broker that starts has no last good value: it keeps the log, and follows when the topic's node is mended.
    cluster.brokers[dead].start()
    cluster.wait_for_log(dead, "written-0 is kept: nobody can read whether the cluster wants it")
    cluster.write(*(Delete(path) for path in FOREIGN), Put(topic, good))
    cluster.wait_until_in_sync()
    for broker_id in cluster.brokers:
        cluster.wait_for_log(broker_id, f"the node {topic!r} of the store is not damaged any more")
