"""Every partition this broker hosts, kept in step with the cluster image."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from ottla.cluster.znodes import topic_path
from ottla.config.definition import ConfigError
from ottla.config.topic import TopicConfig, topic_config
from ottla.errors import ErrorCode, KafkaError
from ottla.log.directory import LogDirectoryError
from ottla.model import TopicPartition
from ottla.replication.followers import Followers
from ottla.replication.log_settings import log_config
from ottla.replication.partition import Partition

if TYPE_CHECKING:
    from ottla.cluster.image import ClusterImage, PartitionState, TopicState
    from ottla.config.broker import BrokerConfig
    from ottla.env.background import Background
    from ottla.env.clock import Clock
    from ottla.log.directory import LogDirectory
    from ottla.log.log import Log

logger = logging.getLogger("ottla.replicas")

_NEW_LOGS_AT_ONCE = 100


class Replicas:
    def __init__(
        self,
        broker_id: int,
        directories: list[LogDirectory],
        clock: Clock,
        background: Background,
        *,
        on_unfinished: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_unfinished` is called when the image should be applied again, because there is more of it to be made."""
        self.directories = directories
        self._broker_id = broker_id
        self._clock = clock
        self._background = background
        self._partitions: dict[tuple[str, int], Partition] = {}
        """All that are hosted here."""
        self._led: dict[tuple[str, int], Partition] = {}
        self._topics: Mapping[str, TopicState] = {}
        self._damaged: Mapping[str, str] = {}
        """Nodes of the store that do not parse, by path."""
        self._applied: dict[str, tuple[TopicState, Mapping[str, str]]] = {}
        """The topics as they are hosted now, each with its own settings."""
        self._complained_of: set[str] = set()
        """Topics that cannot be served, which is said once."""
        self._config: BrokerConfig | None = None
        self._starting = True
        self._created = 0
        """New logs since the image was shown."""
        self._unfinished = False
        self._on_unfinished = on_unfinished
        self.on_caught_up: Callable[[Partition], None] = lambda _: None
        """Called when a follower that is not in sync could be."""
        self.preferred_directories: dict[TopicPartition, LogDirectory] = {}
        """Where partitions that are not here yet shall be created."""
        self._high_watermarks: dict[TopicPartition, int] = {}
        for directory in directories:
            self._high_watermarks.update(directory.read_high_watermarks())

    def __iter__(self) -> Iterator[Partition]:
        return iter(self._partitions.values())

    def leader_of(self, topic: str, index: int) -> Partition:
        """The partition, if this broker leads it. Raises KafkaError."""
        partition = self._led.get((topic, index))
        if partition is None:
            raise self._absent(topic, index)
        return partition

    def replica_of(self, topic: str, index: int) -> Partition:
        """The partition, if this broker has a replica of it, leading or following. Raises KafkaError."""
        partition = self._partitions.get((topic, index))
        if partition is None:
            raise self._absent(topic, index)
        return partition

    def get(self, topic: str, index: int) -> Partition | None:
        """The partition, if this broker has a replica of it, whoever leads."""
        return self._partitions.get((topic, index))

    @property
    def all_hosted(self) -> bool:
        """Whether every partition that belongs here is here."""
        return len(self._applied) == len(self._topics)

    def unserved(self) -> set[TopicPartition]:
        """What this broker should lead or follow and cannot, because its disk is full or has failed."""
        unwritten = {partition.topic_partition for partition in self if not partition.can_be_written}
        if self.all_hosted:
            return unwritten
        missing = {
            TopicPartition(topic.name, state.partition)
            for topic in self._topics.values()
            for state in topic.partitions
            if topic.name in self._complained_of
            and state.leader == self._broker_id
            and (topic.name, state.partition) not in self._led
        }
        return unwritten | missing

    def _absent(self, topic: str, index: int) -> KafkaError:
        state = self._state(TopicPartition(topic, index))
        if state is None:
            return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {topic}-{index}")
        if state.leader == self._broker_id and topic in self._complained_of:
            return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{topic}-{index} cannot be served")
        return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{topic}-{index} is not led here, or not yet")

    def _state(self, key: TopicPartition) -> PartitionState | None:
        topic = self._topics.get(key.topic)
        if topic is None or not 0 <= key.partition < len(topic.partitions):
            return None
        return topic.partitions[key.partition]

    def apply(self, image: ClusterImage, config: BrokerConfig) -> None:
        """Make the partitions match the image. It is the level that counts, so this can be repeated at any time."""
        before, self._topics, self._damaged = self._topics, image.topics, image.damaged
        self._created, self._unfinished = 0, False
        settings_changed, self._config = config is not self._config, config
        for name, topic in before.items():
            now = image.topics.get(name)
            if now is not topic and (now is None or now.topic_id != topic.topic_id):
                # Perhaps created again between two looks, but then the old logs belong to another topic.
                self._applied.pop(name, None)
                self._drop(topic)
        for name, topic in image.topics.items():
            wanted = (topic, image.topic_config(name))
            if settings_changed or not _same(self._applied.get(name), wanted):
                self._apply_topic(*wanted, config)
        self._starting = False
        if self._unfinished:
            self._clock.call_later(0.0, self._on_unfinished)

    def _apply_topic(self, topic: TopicState, overrides: Mapping[str, str], config: BrokerConfig) -> None:
        """A topic that cannot be served is tried again later, and is not in the way of the others."""
        try:
            finished = self._host_partitions(topic, topic_config(config, overrides))
        except (OSError, LogDirectoryError, ConfigError) as error:
            level = logging.DEBUG if topic.name in self._complained_of else logging.ERROR
            logger.log(level, "%s cannot be served, which is tried again: %s", topic.name, error)
            self._complained_of.add(topic.name)
            self._applied.pop(topic.name, None)
        else:
            self._complained_of.discard(topic.name)
            if finished:
                self._applied[topic.name] = (topic, overrides)

    def _host_partitions(self, topic: TopicState, config: TopicConfig) -> bool:
        """Returns whether all are here. To make thousands of directories takes a file system seconds, during which
        nobody would be served: the rest is made when others had their turn."""
        for state in topic.partitions:
            key = topic.name, state.partition
            if self._broker_id not in state.replicas:
                self._let_go(key)
                continue
            partition = self._partitions.get(key)
            if partition is None:
                if self._created >= _NEW_LOGS_AT_ONCE:
                    self._unfinished = True
                    return False
                partition = self._partitions[key] = self._host(topic, state, config)
            else:
                partition.configure(config)
            self._give_role(partition, state)
        return True

    def _host(self, topic: TopicState, state: PartitionState, config: TopicConfig) -> Partition:
        key = TopicPartition(topic.name, state.partition)
        log = self._open_log(key, topic, config)
        partition = Partition(
            topic.topic_id, log, config, self._clock, self._background, self._high_watermarks.get(key, 0)
        )
        partition.on_caught_up = lambda caught_up: self.on_caught_up(caught_up)
        return partition

    def _give_role(self, partition: Partition, state: PartitionState) -> None:
        """Lead or follow, as the cluster wants it."""
        key = partition.topic_partition
        changed = state.version != partition.state_version
        partition.state_version = state.version
        others = [replica for replica in state.replicas if replica != self._broker_id]
        in_sync = [replica for replica in state.isr if replica in others]
        if state.leader != self._broker_id:
            self._led.pop(key, None)
            if partition.leads or partition.leader_epoch != state.leader_epoch:
                partition.follow(state.leader_epoch)
            return
        self._led[key] = partition
        if partition.leads and partition.leader_epoch == state.leader_epoch:
            partition.update_replicas(others, in_sync, answered=changed)
        else:
            followers = Followers(others, in_sync, self._clock.monotonic()) if others else None
            partition.lead(state.leader_epoch, followers)

    def _let_go(self, key: tuple[str, int]) -> None:
        """The cluster wants this replica elsewhere."""
        partition = self._partitions.pop(key, None)
        self._led.pop(key, None)
        if partition is not None:
            partition.close()
            self._delete_log(partition.topic_partition)

    def _open_log(self, key: TopicPartition, topic: TopicState, config: TopicConfig) -> Log:
        present = [directory for directory in self.directories if key in directory.logs]
        # A crash at the end of a move between directories leaves the log in both of them, equally long at first.
        present.sort(key=lambda directory: directory.logs[key].end_offset, reverse=True)
        kept: Log | None = None
        for directory in present:
            if kept is None and directory.topic_id(key) in (topic.topic_id, None):
                kept = directory.logs[key]
                continue
            logger.warning("%s in %s is of an older topic of that name, or a copy; it is deleted", key, directory.path)
            directory.delete_log(key)
        if kept is not None:
            kept.config = log_config(config)
            return kept
        if self._starting:
            logger.warning("%s has no log in any of the log directories; it begins empty", key)
        self._created += 1
        emptiest = min(self.directories, key=lambda directory: len(directory.logs))
        return self.preferred_directories.pop(key, emptiest).create_log(key, topic.topic_id, log_config(config))

    def _drop(self, topic: TopicState) -> None:
        for state in topic.partitions:
            self._let_go((topic.name, state.partition))

    def _delete_log(self, key: TopicPartition) -> None:
        for directory in self.directories:
            if key in directory.logs:
                try:
                    directory.delete_log(key)
                except OSError as error:
                    logger.error("%s cannot be deleted and stays until the next start: %s", key, error)

    def delete_strays(self) -> None:
        """Delete logs that the cluster does not want here any more: their deletion was cut short by a crash."""
        for directory in self.directories:
            for key in list(directory.logs):
                state = self._state(key)
                if topic_path(key.topic) in self._damaged:
                    logger.warning("%s is kept: nobody can read whether the cluster wants it", key)
                elif state is None or self._broker_id not in state.replicas:
                    logger.info("%s is on disk but not in the cluster; it is deleted", key)
                    self._delete_log(key)

    def close(self) -> None:
        for partition in self:
            partition.close()


def _same(applied: tuple[TopicState, Mapping[str, str]] | None, wanted: tuple[TopicState, Mapping[str, str]]) -> bool:
    """An image shares what did not change with the one before it, so that identity tells, at no cost."""
    return applied is not None and applied[0] is wanted[0] and applied[1] is wanted[1]
