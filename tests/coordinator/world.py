"""A broker from the coordinators down: real cores, real partitions, real store; no sockets, no waiting."""

import asyncio
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ottla.cluster.image import ClusterImage
from ottla.config.broker import BrokerConfig
from ottla.coordinator.groups import GroupCoordinator
from ottla.coordinator.markers import Markers
from ottla.coordinator.producer_ids import ProducerIds
from ottla.coordinator.transactions import TransactionCoordinator
from ottla.errors import ErrorCode
from ottla.groups.commands import Commit, Join, LeavingMember, PartitionCommit, Sync
from ottla.groups.commands import Protocol as AssignmentProtocol
from ottla.groups.results import JoinResult, SyncResult
from ottla.metadata.cluster_metadata import ClusterMetadata
from ottla.metadata.membership import elect_self_controller, ensure_cluster_id, register
from ottla.metadata.peers import Peers
from ottla.model import GROUP_OFFSETS_TOPIC
from ottla.replication.partition import Partition
from ottla.replication.replicas import Replicas
from ottla.store.interface import Store
from ottla.store.memory import MemoryTree
from ottla.store.sqlite import SqliteStore
from tests.manual_clock import ManualClock
from tests.metadata.world import TroubledStore
from tests.replication.cluster import broker_znode
from tests.replication.world import ManualBackground, WatchedDisk, kill, open_directory, settle

SETTINGS = {
    "node.id": "1",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
}
STORES = ("memory", "sqlite")


class Broker:
    """One life of a broker. Everything that outlives it belongs to `Machine`."""

    def __init__(self, machine: "Machine", settings: Mapping[str, str]) -> None:
        self._machine = machine
        self.clock = machine.clock
        self.background = ManualBackground()
        self.store = machine.open_store(self.background)
        config = BrokerConfig({**SETTINGS, **settings})
        self.metadata = ClusterMetadata(1, self.store, config, random.Random(machine.lives).randbytes)
        self.directory = open_directory(machine.path / "logs", machine.disk, machine.clock)
        self.replicas = Replicas(1, [self.directory], machine.clock, self.background)
        self.groups = GroupCoordinator(self.metadata, self.replicas, self.store, machine.clock, self.background)
        peers = Peers(self.metadata)
        self.transactions = TransactionCoordinator(
            self.metadata,
            self.replicas,
            ProducerIds(1, self.store),
            Markers(self.metadata, self.replicas, self.groups, peers),
            peers,
            machine.clock,
            self.background,
        )

    async def start(self) -> None:
        """Returns before the groups are loaded."""
        await self.store.start()
        await ensure_cluster_id(self.store, random.Random(1).randbytes, None)
        await self.metadata.start()
        await elect_self_controller(self.metadata, self.store, 1, self.clock)
        await register(self.store, 1, broker_znode(1))
        await self.metadata.refresh()
        self.metadata.apply_with(self._apply)
        self.groups.start()
        self.transactions.start()

    def _apply(self, image: ClusterImage, config: BrokerConfig) -> None:
        self.replicas.apply(image, config)
        self.groups.apply(image, config)
        self.transactions.apply(image, config)

    async def stop(self, *, clean: bool = True) -> None:
        self.transactions.stop()
        self.groups.stop()
        self.replicas.close()
        self.metadata.stop()
        await self.store.close()
        if clean:
            self.directory.close()
        else:
            kill(self.directory)

    async def pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)
        await settle()

    async def create_topic(self, name: str, partitions: int = 1) -> None:
        await self.metadata.create_topic(name, partitions=partitions)

    async def locate(self, group: str = "readers") -> None:
        """As FindCoordinator does, until the group can be used."""
        await self.groups.locate(group)
        await settle()

    @property
    def journal(self) -> Partition:
        return self.replicas.leader_of(GROUP_OFFSETS_TOPIC, 0)

    async def commit(
        self, offsets: Mapping[int, int], group: str = "readers", topic: str = "clicks", **details: Any
    ) -> set[ErrorCode]:
        """Commit offsets by partition, as a consumer that assigns itself its partitions."""
        topic_id = self.metadata.image.topics[topic].topic_id
        partitions = [PartitionCommit(topic, index, offset, topic_id=topic_id) for index, offset in offsets.items()]
        return set((await self.groups.commit(Commit(group, partitions, **details))).errors)

    def committed(self, group: str = "readers") -> dict[str, int]:
        return {
            f"{committed.topic}-{committed.partition}": committed.offset
            for committed in self.groups.committed(group).all()
        }

    def join(
        self, member_id: str = "", group: str = "readers", instance: str | None = None, session: float = 10
    ) -> "asyncio.Future[JoinResult]":
        """Joins with a known member id right away, as clients older than KIP-394 do."""
        command = Join(
            group_id=group,
            member_id=member_id,
            group_instance_id=instance,
            client_id="test",
            client_host="/127.0.0.1",
            session_timeout_ms=round(session * 1000),
            rebalance_timeout_ms=60_000,
            protocol_type="consumer",
            protocols=(AssignmentProtocol("range", b"subscription"),),
            require_known_member_id=False,
        )
        return asyncio.ensure_future(self.groups.join(command))

    async def join_alone(self, group: str = "readers", session: float = 10) -> JoinResult:
        """A group of one, up to the generation it begins."""
        joining = self.join(group=group, session=session)
        await settle()
        await self.pass_time(0)
        return await joining

    async def sync(self, joined: JoinResult, group: str = "readers", assignment: bytes = b"all") -> SyncResult:
        assignments = {joined.member_id: assignment} if joined.leader == joined.member_id else None
        return await self.groups.sync(
            Sync(group, joined.member_id, None, joined.generation_id, "consumer", "range", assignments)
        )

    async def form_group(self, group: str = "readers", session: float = 10) -> JoinResult:
        """A stable group of one."""
        joined = await self.join_alone(group, session)
        assert (await self.sync(joined, group)).error is ErrorCode.NONE
        return joined

    def heartbeat(self, joined: JoinResult, group: str = "readers") -> ErrorCode:
        return self.groups.heartbeat(group, joined.member_id, None, joined.generation_id)

    async def leave(self, joined: JoinResult, group: str = "readers") -> ErrorCode:
        return (await self.groups.leave(group, [LeavingMember(joined.member_id)])).error

    @property
    def troubled(self) -> TroubledStore:
        assert isinstance(self.store, TroubledStore)
        return self.store


class Machine:
    """What stays when a broker stops or crashes: the disk, the store, and time."""

    def __init__(self, path: Path, store: str = "memory") -> None:
        self.path = path
        self.clock = ManualClock()
        self.disk = WatchedDisk()
        self.lives = 0
        self._store = store
        self._tree = MemoryTree()

    def open_store(self, background: ManualBackground) -> Store:
        if self._store == "memory":
            return TroubledStore(self._tree, self.clock)
        return SqliteStore(str(self.path / "store.sqlite"), self.clock, background, self.disk)

    async def boot(self, settings: Mapping[str, str] | None = None) -> Broker:
        """Start a broker; its groups are still being loaded."""
        self.lives += 1
        broker = Broker(self, settings or {})
        await broker.start()
        return broker

    async def start(self, settings: Mapping[str, str] | None = None) -> Broker:
        """Start a broker with a topic `clicks` of three partitions, ready to coordinate groups and transactions."""
        broker = await self.boot(settings)
        if "clicks" not in broker.metadata.image.topics:
            await broker.create_topic("clicks", 3)
        await broker.locate()
        await broker.transactions.locate("any")
        await settle()
        return broker

    async def restart(self, broker: Broker, settings: Mapping[str, str] | None = None, *, clean: bool = True) -> Broker:
        await broker.stop(clean=clean)
        return await self.start(settings)
