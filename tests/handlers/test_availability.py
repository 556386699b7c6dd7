"""What Metadata, DescribeTopicPartitions and DescribeCluster say when some brokers are away."""

from pathlib import Path

from ottla.errors import ErrorCode
from ottla.wire.api.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from ottla.wire.api.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from ottla.wire.api.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
)
from tests.handlers.brokers import Brokers, brokers
from tests.server.worlds import asynchronous


async def metadata(cluster: Brokers, version: int | None = None) -> list[MetadataResponsePartition]:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in ("t", "alone")])
    reply = await cluster.call(request, MetadataResponse, 1, version)
    return [partition for topic in reply.topics for partition in topic.partitions]


@asynchronous
async def test_replicas_that_are_away(tmp_path: Path) -> None:
    async with brokers(tmp_path, 3) as cluster:
        await cluster.create("t", [1, 2], [3, 1])
        await cluster.create("alone", [3])
        await cluster.stop(3)
        await cluster.state_becomes(lambda state: state.leader == -1, "alone")
        first, second, third = await metadata(cluster)
        assert (first.error_code, first.leader_id, first.offline_replicas) == (ErrorCode.NONE, 1, [])
        assert (second.error_code, second.leader_id, second.offline_replicas) == (ErrorCode.NONE, 1, [3])
        assert (second.replica_nodes, second.isr_nodes) == ([3, 1], [1])
        assert (third.error_code, third.leader_id, third.offline_replicas) == (ErrorCode.LEADER_NOT_AVAILABLE, -1, [3])
        assert (third.replica_nodes, third.isr_nodes) == ([3], [3])
        oldest = await metadata(cluster, 0)
        assert [(it.error_code, it.replica_nodes) for it in oldest] == [
            (ErrorCode.NONE, [1, 2]),
            (ErrorCode.REPLICA_NOT_AVAILABLE, [1]),
            (ErrorCode.LEADER_NOT_AVAILABLE, []),
        ]
        request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name="t")])
        reply = await cluster.call(request, DescribeTopicPartitionsResponse, 1)
        assert [(it.leader_id, it.isr_nodes, it.offline_replicas) for it in reply.topics[0].partitions] == [
            (1, [1, 2], []),
            (1, [1], [3]),
        ]


@asynchronous
async def test_brokers_and_their_racks(tmp_path: Path) -> None:
    async with brokers(tmp_path, 0) as cluster:
        for broker_id, rack in ((3, "b"), (1, "a"), (2, None)):
            await cluster.start(broker_id, {} if rack is None else {"broker.rack": rack})
        reply = await cluster.call(DescribeClusterRequest(), DescribeClusterResponse, 1)
        assert [(node.broker_id, node.rack) for node in reply.brokers] == [(1, "a"), (2, None), (3, "b")]
        assert reply.controller_id == cluster.image.controller_id
        for endpoint_type, code in (
            (2, ErrorCode.MISMATCHED_ENDPOINT_TYPE),
            (3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
        ):
            refused = await cluster.call(DescribeClusterRequest(endpoint_type=endpoint_type), DescribeClusterResponse)
            assert refused.error_code == code


@asynchronous
async def test_a_leader_without_the_clients_listener(tmp_path: Path) -> None:
    async with brokers(tmp_path, 1) as cluster:
        both = "PLAINTEXT://127.0.0.1:0,OTHER://127.0.0.1:0"
        protocols = "PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT"
        await cluster.start(2, {"listeners": both, "listener.security.protocol.map": protocols})
        await cluster.create("t", [1])
        request = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
        cluster.listener = "OTHER"
        [answer] = (await cluster.call(request, MetadataResponse, 2)).topics[0].partitions
        assert (answer.error_code, answer.leader_id) == (ErrorCode.LISTENER_NOT_FOUND, -1)
        [answer] = (await cluster.call(request, MetadataResponse, 2, 5)).topics[0].partitions
        assert answer.error_code == ErrorCode.LEADER_NOT_AVAILABLE
