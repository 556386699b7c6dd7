"""Starts and stops a broker. `World` has everything that the broker needs from outside."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from ottla.cluster.znodes import CLUSTER_ID, BrokerZnode, Endpoint, InvalidZnodeError
from ottla.config.listeners import advertised_listeners, broker_listeners
from ottla.config.topic import topic_config
from ottla.controller.controller import Controller
from ottla.controller.disk_failover import DiskFailover
from ottla.controller.handover import until_known
from ottla.controller.rebalancing import AutomaticRebalance
from ottla.coordinator.groups import GroupCoordinator
from ottla.coordinator.markers import Markers
from ottla.coordinator.producer_ids import ProducerIds
from ottla.coordinator.transactions import TransactionCoordinator
from ottla.env.background import Threads, Workers
from ottla.env.clock import Clock, SystemClock
from ottla.env.disk import Disk, OsDisk
from ottla.env.file_limit import file_limit
from ottla.env.network import Address, Network, SocketNetwork
from ottla.env.platform import boot_id
from ottla.errors import KafkaError
from ottla.handlers.client_notices import ClientNotices
from ottla.handlers.context import Broker
from ottla.handlers.registry import HANDLERS, Served
from ottla.log.directory import LogDirectory, LogDirectoryError
from ottla.log.layout import LOCK
from ottla.log.properties import read_identity
from ottla.metadata.cluster_metadata import ClusterMetadata
from ottla.metadata.membership import (
    BrokerIdTakenError,
    Membership,
    elect_self_controller,
    ensure_cluster_id,
    wait_for_id,
)
from ottla.metadata.peers import Peers
from ottla.replication.fetch_sessions import FetchSessions
from ottla.replication.fetchers import ReplicaFetchers
from ottla.replication.final_sync import LOGS_AT_ONCE, sync_logs
from ottla.replication.housekeeping import Housekeeping
from ottla.replication.in_sync import InSyncReplicas
from ottla.replication.log_settings import log_config
from ottla.replication.moving import LogMoves
from ottla.replication.reads import SELECTORS, Reads
from ottla.replication.replicas import Replicas
from ottla.replication.throttling import ReplicationThrottles
from ottla.server.former_session import FormerSession
from ottla.server.listeners import Listeners
from ottla.server.previous_shutdown import Shutdown, read_previous_shutdown, record_start
from ottla.server.roles import Roles
from ottla.server.stores import describe, is_shared, new_store, session_timeout, start_store
from ottla.server.watchdog import Watchdog
from ottla.store.interface import Store, StoreError

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig
    from ottla.model import TopicId
    from ottla.replication.partition import Partition

logger = logging.getLogger("ottla.broker")

_HAND_OVER_SECONDS = 30.0
"""How long a stopping broker tries to hand over its leadership. It cannot while the store does not answer."""

EVERY_INTERFACE = ("0.0.0.0", "::")


class StartupError(Exception):
    """The broker cannot start. The message is one sentence with the reason and the remedy."""


class ShutdownError(Exception):
    """The broker has stopped, but could not sync all data. The next start will check the logs."""


@dataclass
class World:
    """The outside world of a broker: clock, disk, network, threads. A simulation passes its own."""

    clock: Clock = field(default_factory=SystemClock)
    disk: Disk = field(default_factory=OsDisk)
    network: Network = field(default_factory=SocketNetwork)
    syncs: Workers = field(default_factory=partial(Threads, 4, "sync"))
    """For the fsyncs that producers wait for."""
    chores: Workers = field(default_factory=partial(Threads, 4, "chore"))
    """For compaction, deletions, checkpoints and moves, which may take minutes."""
    inspections: Workers = field(default_factory=partial(Threads, 2, "inspection", drop_queued=True))
    """For opening the batches that producers append. Each may take 128 MB of memory, so there are few threads."""
    lookups: Workers = field(default_factory=partial(Threads, 1, "lookup", drop_queued=True))
    """For lookups by timestamp, which open stored batches. A lookup may last seconds, so appends do not wait for it."""
    store_work: Workers = field(default_factory=partial(Threads, 1, "store"))
    """For the store. The session with the store, and with it every leadership, depends on this thread alone."""
    loads: Workers = field(default_factory=partial(Threads, 2, "load"))
    """For coordinators that replay their partitions."""
    closing: Workers = field(default_factory=partial(Threads, LOGS_AT_ONCE, "close"))
    """For the syncs of all logs when the broker stops."""
    random: random.Random = field(default_factory=random.SystemRandom)
    boot_id: str = field(default_factory=boot_id)
    store: Callable[[], Store] | None = None
    """Creates a store that brokers share. None: the broker creates the store that its settings name."""


class BrokerServer:
    """One broker. `start` returns when clients can connect. `stop` syncs all data and marks the shutdown as clean."""

    def __init__(
        self, config: BrokerConfig, world: World | None = None, handlers: Mapping[int, Served] = HANDLERS
    ) -> None:
        self.addresses: dict[str, Address] = {}
        self.watchdog = Watchdog()
        """Does nothing until the owner of the event loop starts it."""
        self._config = config
        self._world = world or World()
        self._handlers = handlers
        self._id = config.integer("node.id")
        self._directories: list[LogDirectory] = []
        self._listeners: Listeners | None = None
        self._closing = contextlib.AsyncExitStack()

    async def start(self) -> None:
        try:
            await self._start()
        except (StoreError, LogDirectoryError, BrokerIdTakenError, InvalidZnodeError) as error:
            await self._closing.aclose()
            raise StartupError(str(error)) from error
        except BaseException:
            await self._closing.aclose()
            raise

    async def stop(self) -> None:
        try:
            await self._closing.aclose()
        except (OSError, StoreError) as error:
            raise ShutdownError(f"{error}; the logs will be checked at the next start.") from error

    def hang_up(self) -> None:
        """Close all sockets and nothing else. For a broker in a test that ends like a killed process."""
        if self._listeners is not None:
            self._listeners.close()

    async def _start(self) -> None:
        _check_supported(self._config)
        for warning in self._config.warnings:
            logger.warning(warning)
        store = await self._open_store()
        session = FormerSession(self._config, self._world, store)
        await session.end()
        await wait_for_id(store, self._id, session_timeout(self._config) + 1, self._world.clock)
        cluster_id, store_is_new = await self._identify(store)
        metadata = ClusterMetadata(self._id, store, self._config, self._world.random.randbytes)
        await metadata.start()
        self._closing.callback(metadata.stop)
        previous = read_previous_shutdown(self._world.disk, self._config.list("log.dirs"), self._world.boot_id)
        self._open_directories(cluster_id, metadata)
        controller = Controller(self._id, metadata, store, self._world.clock)
        if store_is_new:
            await elect_self_controller(metadata, store, self._id, self._world.clock)
            await metadata.adopt_topics(self._topics_on_disk())
        elif previous is not Shutdown.CLEAN and metadata.image.topics:
            if previous is Shutdown.POWER_LOST:
                await controller.leave_in_sync()
            # Other in-sync replicas become leaders where possible. The other partitions get a new leader epoch.
            await controller.elect_leaders(stopping=[self._id])
            await metadata.begin_new_epochs()
        record_start(self._world.disk, self._config.list("log.dirs"), self._world.boot_id)
        broker, roles = self._assemble(cluster_id, store, metadata, controller)
        await self._listen(broker, store, session)
        roles.registered = True
        metadata.publish()
        controller.start()
        self._closing.callback(controller.stop)
        self._closing.push_async_callback(sync_logs, broker.replicas, self._world.closing)
        if self._config.boolean("controlled.shutdown.enable"):
            self._closing.push_async_callback(self._hand_over, broker, roles)

    async def _hand_over(self, broker: Broker, roles: Roles) -> None:
        """Before this broker stops, hand its partitions to other leaders and the controller role to another broker.

        First the broker stops fetching. Otherwise it would rejoin the in-sync replicas at once, and leaders would wait
        for it after it has stopped. It serves clients until all other brokers know the new leaders and controller.
        """
        metadata = broker.metadata
        metadata.stopping = True
        was_controller = metadata.image.controller_id == self._id
        led = sorted({it.topic_partition.topic for it in broker.replicas if it.leads})
        roles.fetchers.stop()
        try:
            async with asyncio.timeout(_HAND_OVER_SECONDS):
                await roles.controller.elect_leaders(stopping=[self._id])
                await roles.controller.resign()
                if led or was_controller:
                    await until_known(metadata, broker.peers, led)
        except TimeoutError:
            logger.warning("cannot hand over leadership before stopping: not done in %g s", _HAND_OVER_SECONDS)
        except (StoreError, KafkaError) as error:
            logger.warning("cannot hand over leadership before stopping: %s", error)

    async def _open_store(self) -> Store:
        """Open the store. It comes first because it has the cluster id. It is closed before the logs."""
        world, path = self._world, self._config.list("log.dirs")[0]
        try:
            if not world.disk.exists(path):
                world.disk.make_directory(path)
                world.disk.sync_directory(os.path.dirname(path.rstrip("/")))
            # The broker takes the lock later. This check gives a clearer error than the store would.
            with world.disk.lock(f"{path}/{LOCK}"):
                pass
        except BlockingIOError as error:
            raise StartupError(f"log directory {path} is in use by another process.") from error
        except OSError as error:
            raise StartupError(f"log directory {path} cannot be used: {error.strerror}.") from error
        self._closing.callback(self._close_directories)
        for workers in (
            world.syncs,
            world.chores,
            world.inspections,
            world.lookups,
            world.loads,
            world.closing,
            world.store_work,
        ):
            self._closing.callback(workers.close)
        store = world.store() if world.store is not None else new_store(self._config, world)
        self._closing.push_async_callback(store.close)
        await start_store(store, self._config)
        return store

    async def _identify(self, store: Store) -> tuple[str, bool]:
        """The cluster id, and whether the store is new. A directory from Apache Kafka keeps its cluster id."""
        try:
            known = read_identity(self._world.disk, self._config.list("log.dirs")[0])
        except ValueError as error:
            raise StartupError(str(error)) from error
        if known is not None and known.cluster_id and is_shared(self._config):
            await self._refuse_empty_store(store, known.cluster_id)
        return await ensure_cluster_id(store, self._world.random.randbytes, known.cluster_id if known else None)

    async def _refuse_empty_store(self, store: Store, cluster_id: str) -> None:
        """Fail if a shared store is empty. A single broker can restore its topics from its logs, but in a cluster each
        broker would then delete the topics of the others."""
        if await store.get(CLUSTER_ID) is None:
            path = self._config.list("log.dirs")[0]
            raise StartupError(
                f"{path} belongs to cluster {cluster_id}, but {describe(self._config)} is empty: "
                "it is the wrong store, or its data is lost."
            )

    def _open_directories(self, cluster_id: str, metadata: ClusterMetadata) -> None:
        world, config = self._world, metadata.config
        for path in config.list("log.dirs"):
            self._directories.append(
                LogDirectory.open(
                    world.disk,
                    world.clock,
                    path,
                    cluster_id=cluster_id,
                    node_id=self._id,
                    config_of=lambda topic: log_config(topic_config(config, metadata.image.topic_config(topic))),
                    producer_id_expiration_ms=config.integer("producer.id.expiration.ms"),
                    max_open_files=_open_segment_files() // len(config.list("log.dirs")),
                    random_bytes=world.random.randbytes,
                )
            )

    def _close_directories(self) -> None:
        with contextlib.ExitStack() as each:
            for directory in self._directories:
                each.callback(directory.close)

    def _topics_on_disk(self) -> dict[str, tuple[TopicId, int, int]]:
        """The id, the number of partitions and the latest leader epoch of each topic, by name."""
        found: dict[str, tuple[TopicId, int, int]] = {}
        for directory in self._directories:
            for key, log in directory.logs.items():
                topic_id = directory.topic_id(key)
                if topic_id is None:
                    raise StartupError(
                        f"{log.path} has no topic id (partition.metadata is missing or damaged); move it elsewhere."
                    )
                _, partitions, epoch = found.get(key.topic, (topic_id, 0, 0))
                found[key.topic] = topic_id, max(partitions, key.partition + 1), max(epoch, log.latest_epoch)
        return found

    def _assemble(
        self, cluster_id: str, store: Store, metadata: ClusterMetadata, controller: Controller
    ) -> tuple[Broker, Roles]:
        world, config = self._world, metadata.config
        in_sync = InSyncReplicas(world.clock, lambda: metadata.config, partial(_alter_isr, metadata))
        replicas = Replicas(
            self._id,
            self._directories,
            world.clock,
            world.syncs,
            world.inspections,
            world.lookups,
            on_unfinished=metadata.publish,
            on_caught_up=in_sync.review,
        )
        self._closing.callback(replicas.close)
        throttles = ReplicationThrottles(self._id, world.clock, lambda: metadata.config)
        fetchers = ReplicaFetchers(self._id, replicas, lambda: metadata.config, throttles.as_follower)
        self._closing.callback(fetchers.stop)
        self._closing.callback(in_sync.stop)
        disk_failover = DiskFailover(metadata, replicas, store, world.clock)
        self._closing.callback(disk_failover.stop)
        housekeeping = Housekeeping(replicas, world.clock, world.chores, lambda: metadata.config)
        self._closing.callback(housekeeping.stop)
        moves = LogMoves(replicas, world.clock, world.chores, lambda: metadata.config)
        self._closing.callback(moves.stop)
        groups = GroupCoordinator(metadata, replicas, store, world.clock, world.loads, world.random.randbytes)
        self._closing.callback(groups.stop)
        peers = Peers(metadata)
        self._closing.callback(peers.stop)
        producer_ids, markers = ProducerIds(self._id, store), Markers(metadata, replicas, groups, peers)
        self._closing.callback(markers.stop)
        transactions = TransactionCoordinator(
            metadata, replicas, producer_ids, markers, peers, world.clock, world.loads
        )
        self._closing.callback(transactions.stop)
        rebalance = AutomaticRebalance(metadata, peers, world.clock, world.chores)
        self._closing.callback(rebalance.stop)
        roles = Roles(replicas, fetchers, groups, transactions, controller, rebalance)
        metadata.apply_with(roles.apply)
        replicas.delete_strays()
        in_sync.start(replicas)
        for part in (disk_failover, housekeeping, moves, groups, transactions):
            part.start()
        broker = Broker(
            id=self._id,
            cluster_id=cluster_id,
            advertised=frozenset(listener.name for listener in advertised_listeners(config) or ()),
            handlers=self._handlers,
            clock=world.clock,
            metadata=metadata,
            replicas=replicas,
            reads=Reads(
                self._id,
                replicas,
                lambda: metadata.image,
                lambda: metadata.config,
                throttles.as_leader,
                world.clock,
            ),
            moves=moves,
            fetch_sessions=FetchSessions(
                world.clock, world.random, config.integer("max.incremental.fetch.session.cache.slots")
            ),
            groups=groups,
            transactions=transactions,
            markers=markers,
            peers=peers,
            producer_ids=producer_ids,
            notices=ClientNotices(),
        )
        return broker, roles

    async def _listen(self, broker: Broker, store: Store, session: FormerSession) -> None:
        """Bind the listeners, register the broker with their addresses, then accept connections."""
        listeners = self._listeners = Listeners(broker, self._world.network, self.watchdog)
        self._closing.callback(listeners.close)
        for listener in broker_listeners(self._config):
            try:
                address = await listeners.bind(listener.name, listener.host or "0.0.0.0", listener.port)
            except OSError as error:
                raise StartupError(
                    f"cannot listen on {listener.host}:{listener.port}: {error.strerror}; "
                    "choose another port with --listen HOST:PORT."
                ) from error
            self.addresses[listener.name] = address
        membership = Membership(self._id, store, broker.metadata, self._world.clock, session.record)
        self._closing.callback(membership.stop)
        await membership.join(self._registration)
        listeners.start()

    def _registration(self) -> BrokerZnode:
        config = self._config
        advertised = {listener.name: listener for listener in advertised_listeners(config) or ()}
        endpoints = []
        for listener in broker_listeners(config):
            bound = self.addresses[listener.name]
            told = advertised.get(listener.name)
            host, port = (told.host, told.port) if told is not None else bound
            if host in EVERY_INTERFACE and config.get("zookeeper.connect"):
                host = socket.getfqdn()  # Other brokers and clients may be on other machines.
            endpoints.append(Endpoint(listener.name, host, port, listener.protocol))
        rack = config.get("broker.rack")
        return BrokerZnode(tuple(endpoints), None if rack is None else str(rack), self._world.clock.time_ms())


async def _alter_isr(metadata: ClusterMetadata, partition: Partition, followers: frozenset[int]) -> None:
    state = metadata.image.partition(*partition.topic_partition)
    replicas = () if state is None else state.replicas
    isr = [replica for replica in replicas if replica in followers or replica == metadata.broker_id]
    await metadata.alter_isr(partition.topic_partition, partition.leader_epoch, isr, partition.state_version)


def _open_segment_files() -> int:
    """Half of the files that the process may open. The other half is for client connections."""
    return max(64, file_limit() // 2)


def _check_supported(config: BrokerConfig) -> None:
    for listener in broker_listeners(config):
        if listener.protocol != "PLAINTEXT":
            raise StartupError(
                f"listener {listener.name} has protocol {listener.protocol}; only PLAINTEXT is supported."
            )
    if config.boolean("zookeeper.set.acl") and config.get("zookeeper.auth.digest") is None:
        raise StartupError("zookeeper.set.acl protects nothing without zookeeper.auth.digest=user:password; set both.")
    selector = config.get("replica.selector.class")
    if selector is not None and selector not in SELECTORS:
        raise StartupError(f"replica.selector.class is {selector}; only {' and '.join(SELECTORS)} are supported.")
