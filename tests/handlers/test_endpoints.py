"""Which address a client is told: the advertised one of its listener, or else the one that it dialled itself."""

from pathlib import Path

from ottla.cluster.registration import register_broker
from ottla.cluster.znodes import BrokerZnode, Endpoint
from ottla.env.network import Address
from ottla.wire.api.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from ottla.wire.api.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.api.metadata import MetadataRequest, MetadataResponse
from tests.server.worlds import Running, asynchronous, running

TWO_LISTENERS = {
    "listeners": "INSIDE://127.0.0.1:9092,OUTSIDE://127.0.0.1:9093",
    "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
    "inter.broker.listener.name": "INSIDE",
    "broker.rack": "r1",
}


async def told(world: Running, dialled: Address) -> set[tuple[str, int]]:
    """What all requests that name a broker say; they must agree."""
    metadata = await world.call(MetadataRequest(topics=[]), 9, MetadataResponse, dialled)
    cluster = await world.call(DescribeClusterRequest(), 0, DescribeClusterResponse, dialled)
    coordinator = await world.call(FindCoordinatorRequest(key="g"), 1, FindCoordinatorResponse, dialled)
    assert [broker.rack for broker in metadata.brokers] == [broker.rack for broker in cluster.brokers] == ["r1"]
    addresses = {(broker.host, broker.port) for broker in metadata.brokers}
    addresses |= {(broker.host, broker.port) for broker in cluster.brokers}
    return addresses | {(coordinator.host, coordinator.port)}


@asynchronous
async def test_nothing_is_advertised(tmp_path: Path) -> None:
    async with running(tmp_path, TWO_LISTENERS) as world:
        for dialled in (Address("127.0.0.1", 9092), Address("::1", 9092), Address("198.51.100.7", 9093)):
            assert await told(world, dialled) == {tuple(dialled)}


@asynchronous
async def test_every_listener_is_advertised(tmp_path: Path) -> None:
    advertised = {"advertised.listeners": "INSIDE://ottla.internal:19092,OUTSIDE://ottla.example:443"}
    async with running(tmp_path, TWO_LISTENERS | advertised) as world:
        assert await told(world, Address("127.0.0.1", 9092)) == {("ottla.internal", 19092)}
        assert await told(world, Address("127.0.0.1", 9093)) == {("ottla.example", 443)}


@asynchronous
async def test_one_listener_is_advertised(tmp_path: Path) -> None:
    async with running(tmp_path, TWO_LISTENERS | {"advertised.listeners": "INSIDE://ottla.internal:19092"}) as world:
        assert await told(world, Address("127.0.0.1", 9092)) == {("ottla.internal", 19092)}
        assert await told(world, Address("198.51.100.7", 9093)) == {("198.51.100.7", 9093)}


@asynchronous
async def test_another_broker_on_every_interface_of_this_machine(tmp_path: Path) -> None:
    """The client has reached this machine by some address; the other broker has that one, too."""
    async with running(tmp_path, TWO_LISTENERS) as world:
        neighbour = BrokerZnode((Endpoint("INSIDE", "0.0.0.0", 9095, "PLAINTEXT"),), "r1", 0)
        elsewhere = BrokerZnode((Endpoint("INSIDE", "other.example", 9092, "PLAINTEXT"),), "r1", 0)
        await world.broker.metadata._store.commit([*register_broker(2, neighbour), *register_broker(3, elsewhere)])
        await world.broker.metadata.refresh()
        reply = await world.call(MetadataRequest(topics=[]), 9, MetadataResponse, Address("198.51.100.7", 9092))
    found = {broker.node_id: (broker.host, broker.port) for broker in reply.brokers}
    assert found == {1: ("198.51.100.7", 9092), 2: ("198.51.100.7", 9095), 3: ("other.example", 9092)}
