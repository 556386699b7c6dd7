"""All partitions that this broker hosts. They follow the cluster image."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple

from ottla.cluster.znodes import topic_path
from ottla.config.definition import ConfigError
from ottla.config.topic import TopicConfig, checked_topic_config
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
    from ottla.env.clock import Clock, Timer
    from ottla.log.directory import LogDirectory
    from ottla.log.log import Log

logger = logging.getLogger("ottla.replicas")

_CREATE_SECONDS = 0.02
"""How long `apply` may create logs before it lets the event loop do other work."""

_DELETE_SECONDS = 0.02
"""How long logs of deleted topics are deleted before the event loop does other work."""

_NEW_LOGS_AT_ONCE = 100
"""Number of new logs after which the other parts of the broker apply the image again."""


class _Wanted(NamedTuple):
    """A topic and its settings. Compared by identity: an image shares unchanged objects with the image before it."""

    topic: TopicState
    overrides: Mapping[str, str]
    config: BrokerConfig


class _Applied(NamedTuple):
    """The last image of a topic, and how many of its partitions match it. The others have no log yet."""

    wanted: _Wanted
    hosted: int

    def is_all_of(self, wanted: _Wanted) -> bool:
        return (
            self.wanted.topic is wanted.topic
            and self._has_settings_of(wanted)
            and self.hosted == len(wanted.topic.partitions)
        )

    def unchanged_by(self, wanted: _Wanted) -> tuple[PartitionState, ...]:
        """The states that are applied already, from the first partition on. Empty if the settings changed."""
        return self.wanted.topic.partitions[: self.hosted] if self._has_settings_of(wanted) else ()

    def _has_settings_of(self, wanted: _Wanted) -> bool:
        return self.wanted.overrides is wanted.overrides and self.wanted.config is wanted.config


class Replicas:
    def __init__(
        self,
        broker_id: int,
        directories: list[LogDirectory],
        clock: Clock,
        syncs: Background,
        inspections: Background | None = None,
        lookups: Background | None = None,
        *,
        on_unfinished: Callable[[], None] = lambda: None,
        on_caught_up: Callable[[Partition], None] = lambda _: None,
    ) -> None:
        """`on_unfinished` is called when the other parts of the broker must apply the image again, because more logs
        were created. `on_caught_up` is called when a follower has fetched enough to join the in-sync replicas."""
        self.directories = directories
        self._broker_id = broker_id
        self._clock = clock
        self._syncs = syncs
        self._inspections = inspections or syncs
        self._lookups = lookups or syncs
        self._partitions: dict[tuple[str, int], Partition] = {}
        """All partitions hosted here, led or followed."""
        self._led: dict[tuple[str, int], Partition] = {}
        self._topics: Mapping[str, TopicState] = {}
        self._damaged: Mapping[str, str] = {}
        """Nodes of the store that do not parse, by path."""
        self._applied: dict[str, _Applied] = {}
        """What was applied of each topic. Topics that cannot be served are missing."""
        self._failed_topics: set[str] = set()
        """Topics that cannot be served. Each is logged once."""
        self._config: BrokerConfig | None = None
        self._starting = True
        self._image: ClusterImage | None = None
        self._create_until: float | None = None
        """Until when `apply` may create logs. None before the first one: each call creates one, so that all calls
        together finish however slow the machine is."""
        self._creating: Timer | None = None
        """The next call of `_create_more`. There is only one at a time: each takes a part of the event loop's time."""
        self._created = 0
        """Number of new logs since the other parts of the broker last applied the image."""
        self._dropped: deque[Partition] = deque()
        """Partitions of deleted topics whose logs are not deleted yet. They are closed."""
        self._deleting: Timer | None = None
        """The next call of `_delete_dropped`."""
        self._closed = False
        self._unfinished = False
        self._on_unfinished = on_unfinished
        self._on_caught_up = on_caught_up
        self.preferred_directories: dict[TopicPartition, LogDirectory] = {}
        """The log directories for partitions that will be created later."""
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
        """The partition, or None if this broker has no replica of it."""
        return self._partitions.get((topic, index))

    @property
    def all_hosted(self) -> bool:
        """Whether every partition that the image assigns to this broker is hosted."""
        return not self._unfinished and len(self._applied) == len(self._topics)

    def unserved(self) -> set[TopicPartition]:
        """The partitions that this broker should lead or follow but cannot, because its disk is full or has failed."""
        unwritten = {partition.topic_partition for partition in self if not partition.can_be_written}
        if self.all_hosted:
            return unwritten
        missing = {
            TopicPartition(topic.name, state.partition)
            for topic in self._topics.values()
            for state in topic.partitions
            if topic.name in self._failed_topics
            and state.leader == self._broker_id
            and (topic.name, state.partition) not in self._led
        }
        return unwritten | missing

    def _absent(self, topic: str, index: int) -> KafkaError:
        state = self._state(TopicPartition(topic, index))
        if state is None:
            return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {topic}-{index}")
        if state.leader == self._broker_id and topic in self._failed_topics:
            return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"the log of {topic}-{index} cannot be opened")
        return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"this broker does not lead {topic}-{index}")

    def _state(self, key: TopicPartition) -> PartitionState | None:
        topic = self._topics.get(key.topic)
        if topic is None or not 0 <= key.partition < len(topic.partitions):
            return None
        return topic.partitions[key.partition]

    def apply(self, image: ClusterImage, config: BrokerConfig) -> None:
        """Make the partitions match the image. Level-triggered: applying an image twice changes nothing."""
        before, self._topics, self._damaged = self._topics, image.topics, image.damaged
        self._image, self._unfinished = image, False
        self._create_until = None
        self._config = config
        for name, topic in before.items():
            now = image.topics.get(name)
            if now is not topic and (now is None or now.topic_id != topic.topic_id):
                # A topic with the same name may have been created since the last image. The old logs do not belong to
                # it.
                self._applied.pop(name, None)
                self._drop(topic)
        if self._dropped and self._deleting is None:
            self._delete_dropped()
        for name, topic in image.topics.items():
            self._apply_topic(_Wanted(topic, image.topic_config(name), config))
        self._starting = False
        if self._unfinished and self._creating is None:
            self._creating = self._clock.call_later(0.0, self._create_more)

    def _create_more(self) -> None:
        """Create more logs of the last image. After `_NEW_LOGS_AT_ONCE` logs, and at the end, let all parts of the
        broker apply the image again."""
        self._creating = None
        if self._closed:
            return
        assert self._image is not None
        assert self._config is not None
        if self._created < _NEW_LOGS_AT_ONCE:
            self.apply(self._image, self._config)
        if self._created >= _NEW_LOGS_AT_ONCE or not self._unfinished:
            self._created = 0
            self._on_unfinished()

    def _apply_topic(self, wanted: _Wanted) -> None:
        """A topic that cannot be served is retried later and does not affect other topics."""
        topic = wanted.topic
        applied = self._applied.get(topic.name)
        if applied is not None and applied.is_all_of(wanted):
            return
        try:
            count = self._host_partitions(wanted, applied)
        except (OSError, LogDirectoryError, ConfigError) as error:
            level = logging.DEBUG if topic.name in self._failed_topics else logging.ERROR
            logger.log(level, "%s cannot be served, will retry: %s", topic.name, error)
            self._failed_topics.add(topic.name)
            self._applied.pop(topic.name, None)
        else:
            self._failed_topics.discard(topic.name)
            self._applied[topic.name] = _Applied(wanted, count)

    def _host_partitions(self, wanted: _Wanted, applied: _Applied | None) -> int:
        """Create and configure the partitions of a topic. Returns how many are done. To create thousands of logs takes
        seconds and blocks the event loop, so the next call of `apply` creates the rest."""
        topic = wanted.topic
        config = checked_topic_config(wanted.config, wanted.overrides)
        known = () if applied is None else applied.unchanged_by(wanted)
        for state, before in zip_longest(topic.partitions, known[: len(topic.partitions)]):
            if state is before:
                continue
            key = topic.name, state.partition
            if self._broker_id not in state.replicas:
                self._delete_replica(key)
                continue
            partition = self._partitions.get(key)
            if partition is None:
                if not self._may_create():
                    self._unfinished = True
                    return state.partition
                partition = self._partitions[key] = self._host(topic, state, config)
            else:
                partition.configure(config)
            self._apply_role(partition, state)
        return len(topic.partitions)

    def _may_create(self) -> bool:
        """Whether this call of `apply` may create one more log."""
        now = self._clock.monotonic()
        if self._create_until is None:
            self._create_until = now + _CREATE_SECONDS
        return self._created < _NEW_LOGS_AT_ONCE and now <= self._create_until

    def _host(self, topic: TopicState, state: PartitionState, config: TopicConfig) -> Partition:
        key = TopicPartition(topic.name, state.partition)
        log = self._open_log(key, topic, config)
        return Partition(
            topic.topic_id,
            log,
            config,
            self._clock,
            self._syncs,
            self._high_watermarks.get(key, 0),
            inspections=self._inspections,
            lookups=self._lookups,
            on_caught_up=self._on_caught_up,
        )

    def _apply_role(self, partition: Partition, state: PartitionState) -> None:
        """Make the replica a leader or a follower, as in the image."""
        key = partition.topic_partition
        changed = state.version != partition.state_version
        partition.state_version = state.version
        partition.is_being_added = self._broker_id in state.adding_replicas
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

    def _delete_replica(self, key: tuple[str, int]) -> None:
        """Delete a replica that the image no longer assigns to this broker."""
        partition = self._partitions.pop(key, None)
        self._led.pop(key, None)
        if partition is not None:
            partition.close()
            self._delete_log(partition.topic_partition)

    def _open_log(self, key: TopicPartition, topic: TopicState, config: TopicConfig) -> Log:
        present = [directory for directory in self.directories if key in directory.logs]
        # A crash at the end of a move between directories leaves the log in both. Keep the longer one.
        present.sort(key=lambda directory: directory.logs[key].end_offset, reverse=True)
        kept: Log | None = None
        for directory in present:
            if kept is None and directory.topic_id(key) in (topic.topic_id, None):
                kept = directory.logs[key]
                continue
            logger.warning(
                "deleting %s in %s: it belongs to a deleted topic of that name, or is a copy", key, directory.path
            )
            directory.delete_log(key)
        if kept is not None:
            kept.config = log_config(config)
            return kept
        if self._starting:
            logger.warning("%s has no log in any of the log directories; starting with an empty one", key)
        self._created += 1
        emptiest = min(self.directories, key=lambda directory: len(directory.logs))
        return self.preferred_directories.pop(key, emptiest).create_log(key, topic.topic_id, log_config(config))

    def _drop(self, topic: TopicState) -> None:
        """Stop serving the partitions of a deleted topic. Their logs are deleted in turns, because deleting thousands
        at once would hold the event loop. After a crash, `delete_strays` deletes the rest."""
        for state in topic.partitions:
            partition = self._partitions.pop((topic.name, state.partition), None)
            self._led.pop((topic.name, state.partition), None)
            if partition is not None:
                partition.close()
                self._dropped.append(partition)

    def _delete_dropped(self) -> None:
        self._deleting = None
        end = self._clock.monotonic() + _DELETE_SECONDS
        while self._dropped and not self._closed:
            dropped = self._dropped.popleft()
            hosted = self._partitions.get(dropped.topic_partition)
            # A new topic with this name has its own logs. A topic that only one image lacked uses its log again.
            if hosted is None or hosted.log is not dropped.log:
                self._delete_log(dropped.topic_partition, dropped.log)
            if self._clock.monotonic() >= end:
                self._deleting = self._clock.call_later(0.0, self._delete_dropped)
                return

    def _delete_log(self, key: TopicPartition, log: Log | None = None) -> None:
        """Delete this log of a partition, or all logs that it has in the directories."""
        for directory in self.directories:
            if key in directory.logs and log in (None, directory.logs[key]):
                try:
                    directory.delete_log(key)
                except OSError as error:
                    logger.error("cannot delete %s, which stays until the next start: %s", key, error)

    def delete_strays(self) -> None:
        """Delete logs that the image does not assign to this broker: a crash interrupted their deletion."""
        for directory in self.directories:
            for key in list(directory.logs):
                state = self._state(key)
                if topic_path(key.topic) in self._damaged:
                    logger.warning("keeping %s: the topic's node in the store is damaged", key)
                elif state is None or self._broker_id not in state.replicas:
                    logger.info("deleting %s, which the cluster does not assign to this broker", key)
                    self._delete_log(key)

    def close(self) -> None:
        self._closed = True
        for partition in self:
            partition.close()
