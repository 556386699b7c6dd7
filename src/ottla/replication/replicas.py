"""Every partition this broker hosts, kept in step with the cluster image."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from ottla.config.topic import TopicConfig, topic_config
from ottla.errors import ErrorCode, KafkaError
from ottla.model import TopicPartition
from ottla.replication.log_settings import log_config
from ottla.replication.partition import Partition

if TYPE_CHECKING:
    from ottla.cluster.image import ClusterImage, PartitionState, TopicState
    from ottla.config.broker import BrokerConfig
    from ottla.env.background import Background
    from ottla.env.clock import Clock
    from ottla.log.directory import LogDirectory
    from ottla.log.log import Log

log = logging.getLogger("ottla.replicas")


class Replicas:
    def __init__(self, broker_id: int, directories: list[LogDirectory], clock: Clock, background: Background) -> None:
        self.directories = directories
        self._broker_id = broker_id
        self._clock = clock
        self._background = background
        self._partitions: dict[tuple[str, int], Partition] = {}
        self._topics: Mapping[str, TopicState] = {}
        self._overrides: dict[str, Mapping[str, str]] = {}
        self._config: BrokerConfig | None = None

    def __iter__(self) -> Iterator[Partition]:
        return iter(self._partitions.values())

    def leader_of(self, topic: str, index: int) -> Partition:
        """The partition, if this broker leads it. Raises KafkaError."""
        partition = self._partitions.get((topic, index))
        if partition is None:
            raise self._absent(topic, index)
        return partition

    def _absent(self, topic: str, index: int) -> KafkaError:
        state = self._topics.get(topic)
        if state is None or not 0 <= index < len(state.partitions):
            return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {topic}-{index}")
        return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"another broker leads {topic}-{index}")

    def apply(self, image: ClusterImage, config: BrokerConfig) -> None:
        """Make the partitions match the image. It is the level that counts, so this can be repeated at any time."""
        before, self._topics = self._topics, image.topics
        settings_changed, self._config = config is not self._config, config
        for name, topic in image.topics.items():
            overrides = image.topic_config(name)
            if before.get(name) is topic and self._overrides.get(name) is overrides and not settings_changed:
                continue
            self._overrides[name] = overrides
            self._apply_topic(topic, topic_config(config, overrides))
        for name in before.keys() - image.topics.keys():
            self._overrides.pop(name, None)
            self._drop(name, range(len(before[name].partitions)))

    def _apply_topic(self, topic: TopicState, config: TopicConfig) -> None:
        for state in topic.partitions:
            partition = self._partitions.get((topic.name, state.partition))
            if partition is not None and partition.topic_id != topic.topic_id:
                # Deleted and created again between two looks: the old log belongs to another topic.
                self._drop(topic.name, [state.partition])
                partition = None
            if state.leader != self._broker_id:
                continue
            if partition is None:
                self._partitions[topic.name, state.partition] = self._host(topic, state, config)
                continue
            partition.configure(config)
            if partition.leader_epoch != state.leader_epoch:
                partition.lead(state.leader_epoch)

    def _host(self, topic: TopicState, state: PartitionState, config: TopicConfig) -> Partition:
        key = TopicPartition(topic.name, state.partition)
        return Partition(
            topic.topic_id,
            self._open_log(key, topic, config),
            config,
            state.leader_epoch,
            self._clock,
            self._background,
        )

    def _open_log(self, key: TopicPartition, topic: TopicState, config: TopicConfig) -> Log:
        for directory in self.directories:
            found = directory.logs.get(key)
            if found is not None:
                if directory.topic_id(key) in (topic.topic_id, None):
                    found.config = log_config(config)
                    return found
                log.warning("%s on disk belongs to an older topic of that name; it is deleted", key)
                directory.delete_log(key)
        emptiest = min(self.directories, key=lambda directory: len(directory.logs))
        return emptiest.create_log(key, topic.topic_id, log_config(config))

    def _drop(self, topic: str, indexes: range | list[int]) -> None:
        for index in indexes:
            partition = self._partitions.pop((topic, index), None)
            if partition is None:
                continue
            partition.close()
            for directory in self.directories:
                if partition.topic_partition in directory.logs:
                    directory.delete_log(partition.topic_partition)

    def delete_strays(self) -> None:
        """Delete logs of topics that the cluster no longer has: their deletion was cut short by a crash."""
        for directory in self.directories:
            for key in [key for key in directory.logs if key not in self._partitions]:
                log.info("%s is on disk but not in the cluster; it is deleted", key)
                directory.delete_log(key)

    def close(self) -> None:
        for partition in self:
            partition.close()
