"""What the controller does without being asked, in clusters of real brokers on one store."""

from pathlib import Path

import pytest

from ottla.cluster import znodes
from ottla.store.interface import Op, Put
from tests.handlers.brokers import Brokers, brokers
from tests.server.worlds import asynchronous, until

REBALANCING = {"auto.leader.rebalance.enable": "true"}
"""The regular check of the leaders is five minutes away."""


@asynchronous
async def test_a_broker_that_comes_back_leads_its_partitions_again_soon(tmp_path: Path) -> None:
    async with brokers(tmp_path, 3, REBALANCING) as cluster:
        await cluster.create("t", [3, 1], [2, 3], [3, 2])
        await cluster.stop(3)
        for partition in range(3):
            await cluster.state_becomes(lambda state: state.leader in (1, 2) and 3 not in state.isr, "t", partition)
        await cluster.start(3)
        for partition, leader in enumerate((3, 2, 3)):
            await cluster.state_becomes(lambda state, wanted=leader: state.leader == wanted, "t", partition)  # type: ignore[misc]


@asynchronous
async def test_a_cluster_that_was_restarted_as_a_whole_has_its_leaders_back_soon(tmp_path: Path) -> None:
    async with brokers(tmp_path, 3, REBALANCING) as cluster:
        await cluster.create("t", [1, 2, 3], [2, 3, 1], [3, 1, 2])
        for broker_id in (1, 2, 3):
            await cluster.stop(broker_id)
        for broker_id in (3, 1, 2):
            await cluster.start(broker_id)
        for partition in range(3):
            await cluster.state_becomes(
                lambda state: state.leader == state.replicas[0] and len(state.isr) == 3, "t", partition
            )


@asynchronous
async def test_leaders_stay_where_they_are_if_the_operator_wants_that(tmp_path: Path) -> None:
    async with brokers(tmp_path, 2, {"auto.leader.rebalance.enable": "false"}) as cluster:
        await cluster.create("t", [2, 1])
        await cluster.stop(2)
        await cluster.start(2)
        await cluster.state_becomes(lambda state: len(state.isr) == 2, "t")
        controller = cluster.running[1].broker.metadata
        await controller.create_topic("later")
        assert cluster.state("t").leader == 1


async def mark(cluster: Brokers, *names: str) -> None:
    """As `kafka-topics.sh --zookeeper --delete` did."""
    ops: list[Op] = [Put(znodes.delete_topic_path(name), b"") for name in names]
    cluster.tree.commit(ops, 0)


@pytest.mark.parametrize("enabled", [True, False])
@asynchronous
async def test_topics_that_a_tool_has_marked_are_deleted(tmp_path: Path, enabled: bool) -> None:
    async with brokers(tmp_path, 2, {"delete.topic.enable": str(enabled).lower()}) as cluster:
        await cluster.create("t", [1, 2], [2, 1])
        await cluster.create("kept", [1])
        await mark(cluster, "t", "nosuch")
        await until(lambda: not any(path.startswith(znodes.DELETE_TOPICS + "/") for path in cluster.tree.nodes))
        expected = {"kept"} if enabled else {"kept", "t"}
        for server in cluster.running.values():
            await until(lambda server=server: set(server.broker.metadata.image.topics) == expected)  # type: ignore[misc]
            await until(lambda server=server: (server.broker.replicas.get("t", 0) is None) is enabled)  # type: ignore[misc]


@asynchronous
async def test_a_mark_that_cannot_be_removed_stops_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with brokers(tmp_path, 2, REBALANCING) as cluster:
        await cluster.create("t", [2, 1])
        await mark(cluster, "odd", "odd/child")
        await until(lambda: "the store failed; the controller retries" in caplog.text)
        await cluster.stop(2)
        await cluster.state_becomes(lambda state: state.leader == 1, "t")
