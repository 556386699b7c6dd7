from ottla.cli.admin import Broker, Cluster, Replicas
from ottla.cli.cluster_admin import ClusterState
from ottla.cli.plan_view import broker_rows, plan_document, summary
from ottla.cluster.rebalance import Move, Plan
from ottla.model import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def state() -> ClusterState:
    """Broker 2 is dead; broker 3 is new."""
    partitions = {T0: Replicas(1, [1, 2], [1]), T1: Replicas(1, [2, 1], [1])}
    cluster = Cluster("id", [Broker(1, "a", 1), Broker(3, "c", 3)], ["t"], partitions, 1)
    return ClusterState(cluster, {1: "r", 3: "s"}, {}, {}, {T0: 100, T1: 50})


def plan() -> Plan:
    return Plan((Move(T0, (1, 2), (1, 3), 100), Move(T1, (2, 1), (3, 1), 50)), (), (T1,))


def test_brokers_before_and_after() -> None:
    rows = {row.pop("broker"): list(row.values()) for row in broker_rows(state(), plan())}
    assert rows == {
        1: ["r", True, 2, 2, 2, 1, 150, 150],
        2: [None, False, 2, 0, 0, 0, 150, 0],
        3: ["s", True, 0, 2, 0, 1, 0, 150],
    }


def test_a_plan_in_one_sentence() -> None:
    assert summary(plan()) == "2 partitions to move, 150 B to copy; 1 partition to get another leader."
    assert summary(Plan((), (), ())) == "Nothing to move: the cluster is balanced."
    reorder = Plan((), (Move(T0, (1, 2), (2, 1), 1),), ())
    assert summary(reorder) == "1 partition to get another order of replicas."


def test_the_documents_of_kafkas_tools() -> None:
    document = plan_document(state(), plan())
    assert document["bytes_to_copy"] == 150
    assert document["reassignment"] == {
        "version": 1,
        "partitions": [
            {"topic": "t", "partition": 0, "replicas": [1, 3]},
            {"topic": "t", "partition": 1, "replicas": [3, 1]},
        ],
    }
    assert [entry["replicas"] for entry in document["rollback"]["partitions"]] == [[1, 2], [2, 1]]


def test_the_state_of_a_cluster_for_a_plan() -> None:
    assert state().dead() == {2: 2}
    assert [(it.id, it.rack, it.usable) for it in state().plan_brokers(without=[3])] == [
        (1, "r", True),
        (3, "s", False),
    ]
    assert [it.size for it in state().placed()] == [100, 50]
    assert state().placed(["other"]) == []
