"""A cluster image that a test changes step by step, and a broker's logs that follow it."""

import os
import random
from collections.abc import Mapping, Sequence
from pathlib import Path

from ottla.cluster import topics
from ottla.cluster.configs import replace_configs
from ottla.cluster.image import DEFAULT_BROKER, ClusterImage, Entity, EntityType, TopicState
from ottla.cluster.registration import create_cluster_id, elect_controller, register_broker
from ottla.cluster.znodes import BrokerZnode, Endpoint
from ottla.config.broker import BrokerConfig
from ottla.log.directory import LogDirectory
from ottla.replication.partition import Partition
from ottla.replication.replicas import Replicas
from ottla.store.interface import Changes, Op
from ottla.store.memory import MemoryStore, MemoryTree
from tests.manual_clock import NOW_MS, ManualClock
from tests.replication.world import ManualBackground, WatchedDisk, open_directory


class SmallCluster:
    """Brokers numbered from 1 on one tree; the first is the controller."""

    def __init__(self, brokers: int = 1) -> None:
        self.tree = MemoryTree()
        self.image = ClusterImage()
        self._random = random.Random(1)
        self._session = self.tree.begin_session(MemoryStore(self.tree, ManualClock()))
        self.do(create_cluster_id(self._random.randbytes)[0])
        for broker_id in range(1, brokers + 1):
            self.do(register_broker(broker_id, broker_znode(broker_id)))
        self.do(elect_controller(self.image, 1, NOW_MS)[0])

    def do(self, *steps: Sequence[Op]) -> None:
        """Write each list of operations, then apply one image. The states in between are never applied."""
        for ops in steps:
            self.tree.commit(ops, self._session)
        changed = {path: self.tree.node(path) for path in self.tree.paths_changed_since(self.image.revision)}
        self.image = self.image.advanced(Changes(self.tree.revision, changed, False))

    def new_topic(
        self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None, leader: int | None = None
    ) -> tuple[list[Op], TopicState]:
        assignment = None if leader is None else {index: [leader] for index in range(partitions)}
        return topics.create_topic(
            self.image,
            name,
            partitions=topics.UNSET if assignment else partitions,
            assignment=assignment,
            configs=configs,
            random_bytes=self._random.randbytes,
        )

    def create_topic(
        self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None, leader: int | None = None
    ) -> TopicState:
        self.do(self.new_topic(name, partitions, configs, leader)[0])
        return self.image.topics[name]

    def delete_topic(self, name: str) -> None:
        self.do(topics.delete_topic(self.image, name))

    def recreate_topic(self, name: str, partitions: int = 1) -> None:
        """Delete and create the topic again before the next image."""
        present = self.image
        deletion = topics.delete_topic(present, name)
        self.image = present.updated(dict.fromkeys(path for path in self.tree.nodes if f"/topics/{name}" in path))
        creation, _ = self.new_topic(name, partitions)
        self.image = present
        self.do(deletion, creation)

    def configure_topic(self, name: str, configs: Mapping[str, str]) -> None:
        self.do(replace_configs(self.image, Entity(EntityType.TOPIC, name), configs))

    def configure_brokers(self, configs: Mapping[str, str]) -> None:
        self.do(replace_configs(self.image, DEFAULT_BROKER, configs))


class Host:
    """Broker 1 of a cluster, with some log directories. `follow` applies the current image."""

    def __init__(
        self, path: Path, *, directories: int = 1, cluster: SmallCluster | None = None, held: bool = True
    ) -> None:
        self.clock = ManualClock()
        self.disk = WatchedDisk()
        self.background = ManualBackground(held=held)
        self.cluster = cluster or SmallCluster()
        self.config = BrokerConfig()
        self.directories: list[LogDirectory] = []
        for number in range(directories):
            self.directories.append(open_directory(path / f"logs{number}", self.disk, self.clock))
        self.replicas = Replicas(1, self.directories, self.clock, self.background, on_unfinished=self.follow)

    def follow(self) -> None:
        self.replicas.apply(self.cluster.image, self.config)

    def create_topic(self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> Partition:
        """Returns the first partition."""
        self.cluster.create_topic(name, partitions, configs)
        self.follow()
        return self.replicas.leader_of(name, 0)

    def hosted(self) -> dict[str, Partition]:
        return {str(partition): partition for partition in self.replicas}

    def on_disk(self) -> list[list[str]]:
        """The directories of partitions, by log directory."""
        return [
            sorted(name for name in os.listdir(directory.path) if name.rpartition("-")[2].isdecimal())
            for directory in self.directories
        ]


def broker_znode(broker_id: int) -> BrokerZnode:
    return BrokerZnode((Endpoint("PLAINTEXT", f"host{broker_id}", 9092, "PLAINTEXT"),), None, NOW_MS)
