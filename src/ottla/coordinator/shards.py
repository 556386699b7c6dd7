"""The shards of one internal topic: one for each partition that this broker leads."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Generic

from ottla.cluster.znodes import NO_LEADER
from ottla.coordinator.shard import CoreT, ResultT, Shard
from ottla.coordinator_core.command_gate import OutcomeT
from ottla.coordinator_core.placement import partition_for
from ottla.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.cluster.image import ClusterImage
    from ottla.config.broker import BrokerConfig
    from ottla.coordinator_core.effects import Now
    from ottla.env.clock import Clock
    from ottla.metadata.cluster_metadata import ClusterMetadata
    from ottla.replication.partition import Partition
    from ottla.replication.replicas import Replicas

logger = logging.getLogger("ottla.coordinator")

_LOAD_AGAIN_SECONDS = 5.0
"""The pause after a failed load, and after a shard that failed twice within this time."""

_NEVER = -_LOAD_AGAIN_SECONDS


class Shards(Generic[CoreT, OutcomeT]):
    def __init__(
        self,
        topic: str,
        metadata: ClusterMetadata,
        replicas: Replicas,
        clock: Clock,
        *,
        new_shard: Callable[
            [Partition, BrokerConfig, Callable[[Shard[CoreT, OutcomeT]], None]], Shard[CoreT, OutcomeT]
        ],
        load: Callable[[Shard[CoreT, OutcomeT], BrokerConfig], Awaitable[None]],
    ) -> None:
        """`new_shard` creates a shard, which calls the given function if it fails. `load` replays the partition, and
        records that are stored outside of it, into a new shard."""
        self.topic = topic
        self._metadata = metadata
        self._replicas = replicas
        self._clock = clock
        self._new_shard = new_shard
        self._load_shard = load
        self._shards: dict[int, Shard[CoreT, OutcomeT]] = {}
        self._loading: set[asyncio.Task[None]] = set()
        self._crashed_at: dict[int, float] = {}

    def __iter__(self) -> Iterator[Shard[CoreT, OutcomeT]]:
        return iter(tuple(self._shards.values()))

    def stop(self) -> None:
        for task in self._loading:
            task.cancel()
        for shard in self._shards.values():
            shard.unload()
        self._shards.clear()

    def apply(self, image: ClusterImage, config: BrokerConfig) -> None:
        """Apply a cluster image. Replicas must have applied it before."""
        topic = image.topics.get(self.topic)
        led = {}
        for state in topic.partitions if topic is not None else ():
            try:
                led[state.partition] = self._replicas.leader_of(self.topic, state.partition)
            except KafkaError:
                continue
        for index, shard in list(self._shards.items()):
            if led.get(index) is not shard.partition or shard.leader_epoch != shard.partition.leader_epoch:
                shard.unload()
                del self._shards[index]
        for index, partition in led.items():
            if index not in self._shards:
                self._host(index, partition, config)

    def _host(self, index: int, partition: Partition, config: BrokerConfig) -> None:
        shard = self._shards[index] = self._new_shard(partition, config, self._failed)
        self._start_loading(index, shard, config)

    def _failed(self, shard: Shard[CoreT, OutcomeT]) -> None:
        """Load a new shard: the state in memory may differ from the log. If shards keep crashing, load it later."""
        index = shard.partition.topic_partition.partition
        now = self._clock.monotonic()
        if shard.crashed and now - self._crashed_at.get(index, _NEVER) < _LOAD_AGAIN_SECONDS:
            self._replace_later(index, shard)
        else:
            self._replace(index, shard)
        if shard.crashed:
            self._crashed_at[index] = now

    def _replace(self, index: int, shard: Shard[CoreT, OutcomeT]) -> None:
        if self._shards.get(index) is shard:
            shard.unload()
            self._host(index, shard.partition, self._metadata.config)

    def _replace_later(self, index: int, shard: Shard[CoreT, OutcomeT]) -> None:
        shard.unload()
        self._clock.call_later(_LOAD_AGAIN_SECONDS, self._replace, index, shard)

    def _start_loading(self, index: int, shard: Shard[CoreT, OutcomeT], config: BrokerConfig) -> None:
        if self._shards.get(index) is shard:
            task = asyncio.ensure_future(self._load(index, shard, config))
            self._loading.add(task)
            task.add_done_callback(self._loading.discard)

    async def _load(self, index: int, shard: Shard[CoreT, OutcomeT], config: BrokerConfig) -> None:
        try:
            await self._load_shard(shard, config)
        except Exception:
            if self._shards.get(index) is not shard:
                return  # Expected: this broker does not lead the partition any more.
            logger.exception(
                "%s: loading the coordinator failed; next attempt in %.0f s", shard.partition, _LOAD_AGAIN_SECONDS
            )
            self._replace_later(index, shard)

    # Finding a key

    async def locate(self, key: str, create_topic: Callable[[], Awaitable[None]]) -> int:
        """The broker that coordinates a key. Creates the topic if it does not exist. Raises KafkaError."""
        if self.topic not in self._metadata.image.topics:
            try:
                await create_topic()
            except KafkaError as error:
                if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                    raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, error.message) from error
        state = self._metadata.image.partition(self.topic, self.partition_of(key))
        if state is None or state.leader == NO_LEADER:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return state.leader

    def partition_of(self, key: str) -> int:
        topic = self._metadata.image.topics.get(self.topic)
        if topic is None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"the topic {self.topic} does not exist yet")
        return partition_for(key, len(topic.partitions))

    def find(self, key: str) -> Shard[CoreT, OutcomeT]:
        """The shard of a group or a transactional id. Raises KafkaError."""
        return self.at(self.partition_of(key))

    def at(self, index: int) -> Shard[CoreT, OutcomeT]:
        """The shard of a partition. Raises KafkaError."""
        shard = self._shards.get(index)
        if shard is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        if not shard.loaded:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return shard

    def loaded(self) -> list[Shard[CoreT, OutcomeT]]:
        return [shard for shard in self if shard.loaded]

    def all(self) -> list[Shard[CoreT, OutcomeT]]:
        """All shards. Raises KafkaError while one of them is loading."""
        if not all(shard.loaded for shard in self):
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return list(self)

    async def run(self, key: str, command: Callable[[CoreT, asyncio.Future[ResultT], Now], OutcomeT]) -> ResultT:
        """Perform a command in the shard of a key, and return its result. Raises KafkaError."""
        return await self.find(key).run(command)
