"""The cluster image of this broker, which follows the store, and the changes that this broker makes to the cluster.

Updates are level-triggered: the broker writes its change to the store, then reads it like a change of any other broker.
If the compare-and-set of a decision fails, the image was stale, and the broker decides again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from ottla.cluster import topics
from ottla.cluster.adoption import adopt_topics, begin_new_epochs
from ottla.cluster.configs import replace_configs
from ottla.cluster.elections import ElectionType, elect_leaders
from ottla.cluster.failover import MAX_STATES_IN_COMMIT
from ottla.cluster.image import IMAGE_PREFIXES, ClusterImage, Entity, TopicState
from ottla.cluster.reassignment import Refusals, Targets, alter_reassignments
from ottla.cluster.znodes import PartitionStateZnode, encode_partition_state, partition_state_path
from ottla.config.definition import ConfigError
from ottla.config.topic import topic_config, validate_topic_overrides
from ottla.errors import ErrorCode, KafkaError
from ottla.model import GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, LeaderEpoch, TopicId, TopicPartition
from ottla.store.interface import Op, Set, Store, StoreConflictError, StoreError

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig
    from ottla.store.interface import Watch

logger = logging.getLogger("ottla.metadata")

T = TypeVar("T")
Decision = Callable[[ClusterImage], tuple[list[Op], T]]
ApplyImage = Callable[[ClusterImage, "BrokerConfig"], None]

_MAX_ATTEMPTS = 10


class ClusterMetadata:
    def __init__(
        self, broker_id: int, store: Store, config: BrokerConfig, random_bytes: Callable[[int], bytes]
    ) -> None:
        self.image = ClusterImage()
        self.config = config
        """The settings in effect: the static settings, overridden by the dynamic settings of the image."""
        self.broker_id = broker_id
        self._store = store
        self._random_bytes = random_bytes
        self._apply: ApplyImage = _apply_nothing
        self._deciding = asyncio.Lock()
        self._watch: Watch | None = None
        self._behind = False
        self._following: asyncio.Task[None] | None = None
        self._fenced = False
        self.stopping = False
        """Set when this broker is about to stop: it then directs clients to other brokers."""

    @property
    def controller_for_clients(self) -> int:
        """The controller in responses to clients: always a living broker.

        librdkafka looks up the controller once. If that broker is dead, or there is none, its requests time out. So a
        broker without a living controller in its image names itself: every broker serves requests to a controller.
        """
        candidates = self.image.brokers.keys() - ({self.broker_id} if self.stopping else set())
        if self.image.controller_id in candidates:
            return self.image.controller_id
        return self.broker_id if self.broker_id in candidates else min(candidates, default=self.broker_id)

    def apply_with(self, apply: ApplyImage) -> None:
        """Call `apply` now, and again with every new image. It must not raise."""
        self._apply = apply
        self.publish()

    def fence(self) -> None:
        """Stop leading all partitions immediately: the session is lost, so other brokers may lead them."""
        self._fenced = True
        self.publish()

    def unfence(self) -> None:
        """Lead partitions again, as the store says: this broker has registered again."""
        self._fenced = False
        self.publish()

    def _effective_image(self) -> ClusterImage:
        return self.image.without_leader(self.broker_id) if self._fenced else self.image

    def publish(self) -> None:
        """Apply the image. This is idempotent."""
        self._apply(self._effective_image(), self.config)

    async def start(self) -> None:
        await self.refresh()
        self._watch = self._store.watch(self._changed, *IMAGE_PREFIXES)

    def stop(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
        if self._following is not None:
            self._following.cancel()

    def _changed(self) -> None:
        self._behind = True
        if self._following is None or self._following.done():
            self._following = asyncio.ensure_future(self._follow())

    async def _follow(self) -> None:
        """Refresh until no change was reported during the last read, which may have missed such a change."""
        while self._behind:
            self._behind = False
            await self._refresh_or_log()

    async def _refresh_or_log(self) -> None:
        try:
            await self.refresh()
        except StoreError as error:
            logger.error("cannot read the cluster state from the store; keeping the last image: %s", error)

    async def refresh(self) -> None:
        """Read the changes in the store and apply them. Raises only StoreError: a node that does not parse is listed in
        `image.damaged`."""
        changes = await self._store.read_changes(self.image.revision, *IMAGE_PREFIXES)
        if changes.revision < self.image.revision or not (changes.nodes or changes.complete):
            return
        before, self.image = self.image, self.image.advanced(changes)
        self._log_damage(before)
        self._apply_dynamic_settings(before)
        self.publish()

    def _log_damage(self, before: ClusterImage) -> None:
        now = self.image.damaged
        if now is before.damaged:
            return
        for path, reason in now.items():
            if path not in before.damaged:
                logger.error("the node %r of the store is damaged; using its last good value: %s", path, reason)
        for path in before.damaged:
            if path not in now:
                logger.info("the node %r of the store is repaired", path)

    def _apply_dynamic_settings(self, before: ClusterImage) -> None:
        own, cluster_wide = self.image.broker_config(self.broker_id), self.image.default_broker_config()
        if own is before.broker_config(self.broker_id) and cluster_wide is before.default_broker_config():
            return
        self.config = self.config.with_dynamic(own, cluster_wide)
        for warning in self.config.warnings:
            logger.warning(warning)

    async def create_topic(
        self,
        name: str,
        *,
        partitions: int = topics.UNSET,
        replication_factor: int = topics.UNSET,
        assignment: Mapping[int, Sequence[int]] | None = None,
        overrides: Mapping[str, str] | None = None,
        validate_only: bool = False,
    ) -> TopicState:
        try:
            validate_topic_overrides(overrides or {}, self.config)
        except ConfigError as error:
            raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from None
        await self._refresh_brokers()

        def decide(image: ClusterImage) -> tuple[list[Op], TopicState]:
            return topics.create_topic(
                image,
                name,
                partitions=partitions,
                replication_factor=replication_factor,
                assignment=assignment,
                configs=overrides,
                default_partitions=self.config.integer("num.partitions"),
                default_replication_factor=self.config.integer("default.replication.factor"),
                random_bytes=self._random_bytes,
            )

        return await self._decide(decide, commit=not validate_only)

    async def create_topic_automatically(self, name: str) -> None:
        """Create a missing topic that a client requested (`auto.create.topics.enable`)."""
        if name == GROUP_OFFSETS_TOPIC:
            await self.create_offsets_topic()
        elif name == TRANSACTION_STATE_TOPIC:
            await self.create_transaction_topic()
        else:
            await self.create_topic(name)

    async def create_offsets_topic(self) -> None:
        config = self.config
        await self.create_topic(
            GROUP_OFFSETS_TOPIC,
            partitions=config.integer("offsets.topic.num.partitions"),
            replication_factor=config.integer("offsets.topic.replication.factor"),
            overrides={
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(config.integer("offsets.topic.segment.bytes")),
            },
        )

    async def create_transaction_topic(self) -> None:
        config = self.config
        await self.create_topic(
            TRANSACTION_STATE_TOPIC,
            partitions=config.integer("transaction.state.log.num.partitions"),
            replication_factor=config.integer("transaction.state.log.replication.factor"),
            overrides={
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "min.insync.replicas": str(config.integer("transaction.state.log.min.isr")),
                "segment.bytes": str(config.integer("transaction.state.log.segment.bytes")),
                "unclean.leader.election.enable": "false",
            },
        )

    async def delete_topic(self, name: str) -> TopicState:
        return await self._decide(lambda image: (topics.delete_topic(image, name), topics.find_topic(image, name)))

    async def create_partitions(
        self, name: str, count: int, assignment: Sequence[Sequence[int]] | None, *, validate_only: bool = False
    ) -> TopicState:
        await self._refresh_brokers()
        return await self._decide(
            lambda image: topics.create_partitions(image, name, count, assignment), commit=not validate_only
        )

    async def _refresh_brokers(self) -> None:
        """Read the latest registrations, so that a broker that has just started gets replicas of the next topic. If the
        store fails, use the present image."""
        with contextlib.suppress(StoreError):
            await self.refresh()

    async def set_overrides(
        self,
        entity: Entity,
        change: Callable[[Mapping[str, str]], Mapping[str, str]],
        *,
        validate_only: bool = False,
    ) -> None:
        """Replace the dynamic settings of an entity by the result of `change`."""

        def decide(image: ClusterImage) -> tuple[list[Op], None]:
            return replace_configs(image, entity, change(image.config(entity))), None

        await self._decide(decide, commit=not validate_only)

    async def alter_isr(
        self, partition: TopicPartition, leader_epoch: LeaderEpoch, isr: Sequence[int], version: int
    ) -> None:
        """Write the ISR that this leader proposes, if the version of the partition state has not changed."""
        state = PartitionStateZnode(self.broker_id, leader_epoch, tuple(isr), self.image.controller_epoch)
        write = Set(partition_state_path(*partition), encode_partition_state(state), version)
        try:
            await self._store.commit([write])
        except StoreConflictError as error:
            await self._refresh_or_log()
            raise KafkaError(ErrorCode.INVALID_UPDATE_VERSION, str(error)) from error
        except StoreError as error:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from error
        await self._refresh_or_log()

    async def elect_leaders(
        self, partitions: Sequence[TopicPartition], election: ElectionType
    ) -> dict[TopicPartition, KafkaError]:
        """Elect leaders. Returns the errors of partitions without a new leader."""
        refused: dict[TopicPartition, KafkaError] = {}
        for start in range(0, len(partitions), MAX_STATES_IN_COMMIT):
            refused |= await self._elect_some(partitions[start : start + MAX_STATES_IN_COMMIT], election)
            await asyncio.sleep(0)  # A decision that changes nothing does not wait for the store.
        return refused

    async def _elect_some(
        self, partitions: Sequence[TopicPartition], election: ElectionType
    ) -> dict[TopicPartition, KafkaError]:
        return await self._decide(lambda image: elect_leaders(image, partitions, election))

    async def alter_reassignments(self, name: str, targets: Targets, *, allow_factor_change: bool) -> Refusals:
        """Begin, change or cancel reassignments of a topic's partitions. Returns the errors of refused partitions."""
        refused: Refusals = {}
        await self._refresh_brokers()
        partitions = list(targets)
        for start in range(0, len(partitions), MAX_STATES_IN_COMMIT):
            some = {partition: targets[partition] for partition in partitions[start : start + MAX_STATES_IN_COMMIT]}
            refused |= await self._alter_some_reassignments(name, some, allow_factor_change)
            await asyncio.sleep(0)  # A decision that changes nothing does not wait for the store.
        return refused

    async def _alter_some_reassignments(self, name: str, targets: Targets, allow_factor_change: bool) -> Refusals:
        def decide(image: ClusterImage) -> tuple[list[Op], Refusals]:
            return alter_reassignments(
                image,
                name,
                targets,
                allow_factor_change=allow_factor_change,
                allows_unclean=self.allows_unclean(name),
            )

        return await self._decide(decide)

    def allows_unclean(self, topic: str) -> bool:
        """Whether a replica that is not in sync may lead the topic's partitions if no in-sync replica is alive."""
        return topic_config(self.config, self.image.topic_config(topic)).unclean_leader_election_enable

    async def adopt_topics(self, found: Mapping[str, tuple[TopicId, int, int]]) -> None:
        """Register the topics of logs that are older than the store."""
        if found:
            logger.info("the store is new; registering %d topics that have logs", len(found))
            await self._decide(lambda image: (adopt_topics(image, self.broker_id, found), None))

    async def begin_new_epochs(self) -> None:
        """Begin a new leader epoch for all partitions that this broker leads, in commits that are small enough."""
        led = [
            TopicPartition(topic.name, state.partition)
            for topic in self.image.topics.values()
            for state in topic.partitions
            if state.leader == self.broker_id
        ]
        for start in range(0, len(led), MAX_STATES_IN_COMMIT):
            await self._begin_new_epochs(led[start : start + MAX_STATES_IN_COMMIT])

    async def _begin_new_epochs(self, partitions: Sequence[TopicPartition]) -> None:
        await self._decide(lambda image: (begin_new_epochs(image, self.broker_id, partitions), None))

    async def _decide(self, decision: Decision[T], *, commit: bool = True) -> T:
        """Make a decision from the image and write it. Returns after this broker has applied the change."""
        async with self._deciding:
            try:
                return await self._decide_until_written(decision, commit)
            except StoreConflictError as error:
                text = "the cluster changed too often during this change; try again"
                raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, text) from error
            except StoreError as error:
                logger.error("cannot write a change to the store: %s", error)
                raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from error

    async def _decide_until_written(self, decision: Decision[T], commit: bool) -> T:
        attempts = 0
        while True:
            ops, result = decision(self.image)
            if not commit or not ops:
                return result
            try:
                await self._store.commit(ops)
            except StoreConflictError:
                attempts += 1
                if attempts == _MAX_ATTEMPTS:
                    raise
                await self.refresh()
            else:
                await self.refresh()
                return result


def _apply_nothing(image: ClusterImage, config: BrokerConfig) -> None:
    """Used while the broker starts, before `apply_with`."""
