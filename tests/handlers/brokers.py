"""Several brokers on one event loop and one store, and requests to each of them."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import TypeVar

from ottla.client.connection import Connection, connect
from ottla.cluster.image import ClusterImage, PartitionState
from ottla.config.broker import BrokerConfig
from ottla.controller.controller import Controller
from ottla.env.clock import SystemClock
from ottla.env.disk import Disk, OsDisk
from ottla.env.network import Address
from ottla.handlers.context import Broker
from ottla.metadata.cluster_metadata import ClusterMetadata
from ottla.records.builder import NewRecord, build_batch
from ottla.server.broker import BrokerServer, World
from ottla.server.roles import Roles
from ottla.store.interface import Store
from ottla.store.memory import MemoryStore, MemoryTree
from ottla.wire.api.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from ottla.wire.schema import Request, Response
from tests.server.worlds import until

R = TypeVar("R", bound=Response)

TIMESTAMP = 1_700_000_000_000

SETTINGS = {
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "replica.fetch.wait.max.ms": "50",
    "auto.leader.rebalance.enable": "false",
}


class ObservedServer(BrokerServer):
    """Lets a test look at the broker it runs."""

    broker: Broker

    def _assemble(
        self, cluster_id: str, store: Store, metadata: ClusterMetadata, controller: Controller
    ) -> tuple[Broker, Roles]:
        self.broker, roles = super()._assemble(cluster_id, store, metadata, controller)
        return self.broker, roles


class Brokers:
    def __init__(self, directory: Path, settings: Mapping[str, str]) -> None:
        self.running: dict[int, ObservedServer] = {}
        self.listener = "PLAINTEXT"
        """Through which new connections are made."""
        self._directory = directory
        self._settings = {**SETTINGS, **settings}
        self.tree = MemoryTree()
        self._connections: dict[int, Connection] = {}

    async def start(self, broker_id: int, settings: Mapping[str, str] | None = None, disk: Disk | None = None) -> None:
        own = {"node.id": str(broker_id), "log.dirs": str(self._directory / f"broker{broker_id}")}
        config = BrokerConfig({**self._settings, **own, **(settings or {})})
        world = World(store=lambda: MemoryStore(self.tree, SystemClock()), disk=disk or OsDisk())
        server = ObservedServer(config, world)
        await server.start()
        self.running[broker_id] = server
        await until(lambda: all(broker_id in server.broker.metadata.image.brokers for server in self.running.values()))

    async def stop(self, broker_id: int) -> None:
        server = self.running.pop(broker_id)
        connection = self._connections.pop(broker_id, None)
        if connection is not None:
            connection.close()
        await server.stop()

    @property
    def any(self) -> int:
        return next(iter(self.running))

    @property
    def image(self) -> ClusterImage:
        return self.running[self.any].broker.metadata.image

    def address(self, broker_id: int) -> Address:
        return self.running[broker_id].addresses[self.listener]

    def state(self, topic: str, partition: int = 0) -> PartitionState:
        state = self.image.partition(topic, partition)
        assert state is not None
        return state

    async def state_becomes(self, condition: Callable[[PartitionState], bool], topic: str, partition: int = 0) -> None:
        """Until every broker sees the partition as it should be."""

        def seen(server: ObservedServer) -> bool:
            state = server.broker.metadata.image.partition(topic, partition)
            return state is not None and condition(state)

        try:
            await until(lambda: all(map(seen, self.running.values())))
        except AssertionError:
            raise AssertionError(f"{self.state(topic, partition)}") from None

    async def call(
        self, request: Request, response: type[R], broker_id: int | None = None, version: int | None = None
    ) -> R:
        """In the newest version, or one that is not above `version`, on a connection that stays open."""
        broker_id = self.any if broker_id is None else broker_id
        connection = self._connections.get(broker_id)
        if connection is None or connection.closed:
            connection = await connect(self.address(broker_id), client_id="test", within=60.0)
            self._connections[broker_id] = connection
        return await connection.call(request, response, within=60.0, highest=version)

    async def create(self, topic: str, *replicas: list[int], configs: Mapping[str, str] | None = None) -> None:
        """A topic with the replicas of each partition, which all brokers know when this returns."""
        metadata = self.running[self.any].broker.metadata
        await metadata.create_topic(topic, assignment=dict(enumerate(replicas)), overrides=configs)
        await self.state_becomes(lambda state: True, topic)

    async def produce(self, topic: str, count: int, partition: int = 0, size: int = 100) -> None:
        """To the leader, one batch for each record, with acks=all."""
        topic_id = self.image.topics[topic].topic_id
        for number in range(count):
            batch = bytes(build_batch([NewRecord(None, b"%d" % number + bytes(size), timestamp=TIMESTAMP)]))
            data = PartitionProduceData(index=partition, records=batch)
            request = ProduceRequest(
                acks=-1, timeout_ms=10_000, topic_data=[TopicProduceData(topic_id=topic_id, partition_data=[data])]
            )
            reply = await self.call(request, ProduceResponse, self.state(topic, partition).leader)
            [answer] = reply.responses[0].partition_responses
            assert answer.error_code == 0, answer

    async def close(self) -> None:
        for broker_id in list(self.running):
            await self.stop(broker_id)


@contextlib.asynccontextmanager
async def brokers(directory: Path, count: int = 3, settings: Mapping[str, str] | None = None) -> AsyncIterator[Brokers]:
    """Brokers numbered from 1 on."""
    cluster = Brokers(directory, settings or {})
    try:
        for broker_id in range(1, count + 1):
            await cluster.start(broker_id)
        yield cluster
    finally:
        await cluster.close()
        await asyncio.sleep(0)
