"""A broker that stops: others lead before it is gone, and clients are told so."""

import asyncio
from pathlib import Path

from ottla.errors import ErrorCode
from ottla.records.builder import NewRecord, build_batch
from ottla.wire.api.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.wire.api.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.wire.api.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tests.handlers.brokers import TIMESTAMP, Brokers, brokers
from tests.server.worlds import asynchronous, until


def produce_request(cluster: Brokers) -> ProduceRequest:
    batch = bytes(build_batch([NewRecord(None, b"x", timestamp=TIMESTAMP)]))
    topic = TopicProduceData(
        name="t",
        topic_id=cluster.image.topics["t"].topic_id,
        partition_data=[PartitionProduceData(index=0, records=batch)],
    )
    return ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[topic])


@asynchronous
async def test_a_refusal_names_the_leader(tmp_path: Path) -> None:
    async with brokers(tmp_path, 2) as cluster:
        await cluster.create("t", [2])
        host, port = cluster.address(2)
        # More than once, so that the fast path has its turn as well.
        for _ in range(6):
            reply = await cluster.call(produce_request(cluster), ProduceResponse, 1)
            [answer] = reply.responses[0].partition_responses
            assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (2, 0)
            [node] = reply.node_endpoints
            assert (node.node_id, node.host, node.port) == (2, host, port)
        old = await cluster.call(produce_request(cluster), ProduceResponse, 1, 9)
        assert old.responses[0].partition_responses[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


@asynchronous
async def test_a_consumer_hears_it_too(tmp_path: Path) -> None:
    async with brokers(tmp_path, 2) as cluster:
        await cluster.create("t", [2])
        topic = FetchTopic(topic_id=cluster.image.topics["t"].topic_id, partitions=[FetchPartition()])
        for version, leader in ((17, 2), (15, -1)):
            reply = await cluster.call(FetchRequest(session_epoch=-1, topics=[topic]), FetchResponse, 1, version)
            [answer] = reply.responses[0].partitions
            assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert answer.current_leader.leader_id == leader
            assert [node.node_id for node in reply.node_endpoints] == ([2] if leader == 2 else [])


@asynchronous
async def test_who_follows_the_hints_always_gets_through(tmp_path: Path) -> None:
    async with brokers(tmp_path, 3) as cluster:
        await cluster.create("t", [1, 2, 3])
        request, leader, written = produce_request(cluster), 1, 0
        servers = dict(cluster.running)
        stopped = asyncio.ensure_future(servers[1].stop())
        while not (stopped.done() and written):
            reply = await cluster.call(request, ProduceResponse, leader)
            [answer] = reply.responses[0].partition_responses
            if answer.error_code == ErrorCode.NONE:
                written += 1
            else:
                assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
                leader = answer.current_leader.leader_id
                await asyncio.sleep(0.001)
        del cluster.running[1]
        assert leader in (2, 3)
        assert written
        assert 1 not in cluster.state("t").isr


@asynchronous
async def test_the_others_know_before_the_listeners_close(tmp_path: Path) -> None:
    async with brokers(tmp_path, 3) as cluster:
        await cluster.create("t", [1, 2, 3])
        answers = cluster.running[2].broker.metadata
        held = asyncio.Event()
        refresh = answers.refresh

        async def slow() -> None:
            await held.wait()
            await refresh()

        answers.refresh = slow  # type: ignore[method-assign]
        server = cluster.running[1]
        stopping = asyncio.ensure_future(server.stop())
        await until(lambda: server.broker.metadata.image.partition("t", 0).leader != 1)  # type: ignore[union-attr]
        request = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
        told = await cluster.call(request, MetadataResponse, 1)
        assert told.topics[0].partitions[0].leader_id in (2, 3), "it is still there, and says who leads"
        assert not stopping.done()
        held.set()
        await stopping
        del cluster.running[1]


@asynchronous
async def test_a_broker_may_stop_without_ado(tmp_path: Path) -> None:
    async with brokers(tmp_path, 2, {"controlled.shutdown.enable": "false"}) as cluster:
        await cluster.create("t", [2, 1])
        await cluster.stop(2)
        await cluster.state_becomes(lambda state: state.leader == 1, "t")
        assert cluster.state("t").leader_epoch == 1
