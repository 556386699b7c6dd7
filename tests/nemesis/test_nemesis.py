"""The short run. `make torture` is the long one."""

from pathlib import Path

import pytest

from tests.nemesis.cluster import Cluster
from tests.nemesis.history import Fate
from tests.nemesis.run import Plan, Run
from tests.nemesis.schedule import WITHOUT_ZOOKEEPER, Kind, draw

pytestmark = pytest.mark.slow


@pytest.mark.timeout(600)
def test_a_cluster_in_trouble_tells_its_clients_the_truth(tmp_path: Path) -> None:
    plan = Plan(seed=7, seconds=16, fault_every=1.8)
    cluster = Cluster(tmp_path, plan.brokers)
    try:
        cluster.start()
        outcome = Run(plan, cluster, print).run()
    finally:
        cluster.close()
        for node in cluster.nodes:
            print(node.name, node.log()[-20_000:], sep="\n")
    assert outcome.findings == []
    assert set(outcome.faults) == set(Kind)
    assert outcome.acknowledged > 500
    assert outcome.consumed > outcome.acknowledged, "transactions are read, too"
    assert outcome.transactions[Fate.COMMITTED] > 0
    assert outcome.epochs > 4, "no leader ever changed: nothing was proved"


def test_a_seed_gives_its_schedule_again() -> None:
    first = draw(5, 60, 3, session=2, every=2)
    assert first == draw(5, 60, 3, session=2, every=2)
    assert first != draw(6, 60, 3, session=2, every=2)
    assert {fault.kind for fault in first[: len(Kind)]} == set(Kind)
    assert all(fault.broker != fault.other for fault in first)


def test_without_zookeeper_nothing_happens_to_it() -> None:
    drawn = {fault.kind for fault in draw(5, 600, 5, session=2, every=2, kinds=WITHOUT_ZOOKEEPER)}
    assert drawn == set(WITHOUT_ZOOKEEPER)
