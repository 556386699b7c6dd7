"""The shells of one internal topic: one for every partition of it that this broker leads."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Generic

from ottla.cluster.znodes import NO_LEADER
from ottla.coordinator.shell import CoreT, Shell
from ottla.core.placement import partition_for
from ottla.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.cluster.image import ClusterImage
    from ottla.config.broker import BrokerConfig
    from ottla.controller.controller import Controller
    from ottla.core.effects import Now
    from ottla.env.clock import Clock
    from ottla.replication.partition import Partition
    from ottla.replication.replicas import Replicas

log = logging.getLogger("ottla.coordinator")

_LOAD_AGAIN_SECONDS = 5.0


class Shells(Generic[CoreT]):
    def __init__(
        self,
        topic: str,
        controller: Controller,
        replicas: Replicas,
        clock: Clock,
        *,
        new_shell: Callable[[Partition, BrokerConfig], Shell[CoreT]],
        load: Callable[[Shell[CoreT], BrokerConfig], Awaitable[None]],
    ) -> None:
        """`load` brings a new shell to the state that its partition, and whatever else there is, describes."""
        self.topic = topic
        self._controller = controller
        self._replicas = replicas
        self._clock = clock
        self._new_shell = new_shell
        self._load_shell = load
        self._shells: dict[int, Shell[CoreT]] = {}
        self._loading: set[asyncio.Task[None]] = set()

    def __iter__(self) -> Iterator[Shell[CoreT]]:
        return iter(tuple(self._shells.values()))

    def stop(self) -> None:
        for task in self._loading:
            task.cancel()
        for shell in self._shells.values():
            shell.unload()
        self._shells.clear()

    def apply(self, image: ClusterImage, config: BrokerConfig) -> None:
        """Follow the cluster. The replicas must have followed it before."""
        topic = image.topics.get(self.topic)
        led = {}
        for state in topic.partitions if topic is not None else ():
            try:
                led[state.partition] = self._replicas.leader_of(self.topic, state.partition)
            except KafkaError:
                continue
        for index, shell in list(self._shells.items()):
            if led.get(index) is not shell.partition or shell.leader_epoch != shell.partition.leader_epoch:
                shell.unload()
                del self._shells[index]
        for index, partition in led.items():
            if index not in self._shells:
                self._host(index, partition, config)

    def _host(self, index: int, partition: Partition, config: BrokerConfig) -> None:
        shell = self._shells[index] = self._new_shell(partition, config)
        shell.on_doubt = partial(self._renew, index, shell)
        self._start_loading(index, shell, config)

    def _renew(self, index: int, shell: Shell[CoreT]) -> None:
        """What is in memory may not be what is on disk: begin again from that."""
        if self._shells.get(index) is shell:
            shell.unload()
            self._host(index, shell.partition, self._controller.config)

    def _start_loading(self, index: int, shell: Shell[CoreT], config: BrokerConfig) -> None:
        if self._shells.get(index) is shell:
            task = asyncio.ensure_future(self._load(index, shell, config))
            self._loading.add(task)
            task.add_done_callback(self._loading.discard)

    async def _load(self, index: int, shell: Shell[CoreT], config: BrokerConfig) -> None:
        try:
            await self._load_shell(shell, config)
        except Exception:
            if self._shells.get(index) is not shell:
                return  # Another broker leads by now, which is why.
            log.exception("%s could not be loaded, which will be tried again", shell.partition)
            shell.unload()
            self._clock.call_later(_LOAD_AGAIN_SECONDS, self._renew, index, shell)

    # Finding a key

    async def locate(self, key: str, create_topic: Callable[[], Awaitable[None]]) -> int:
        """The broker that coordinates a key. The topic is created for the very first one. Raises KafkaError."""
        if self.topic not in self._controller.image.topics:
            try:
                await create_topic()
            except KafkaError as error:
                if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                    raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, error.message) from error
        state = self._controller.image.partition(self.topic, self.partition_of(key))
        if state is None or state.leader == NO_LEADER:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return state.leader

    def partition_of(self, key: str) -> int:
        topic = self._controller.image.topics.get(self.topic)
        if topic is None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"there is no topic {self.topic} yet")
        return partition_for(key, len(topic.partitions))

    def find(self, key: str) -> Shell[CoreT]:
        """The shell that runs a group or a transactional id. Raises KafkaError."""
        return self.at(self.partition_of(key))

    def at(self, index: int) -> Shell[CoreT]:
        """The shell of a partition. Raises KafkaError."""
        shell = self._shells.get(index)
        if shell is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        if not shell.loaded:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return shell

    def loaded(self) -> list[Shell[CoreT]]:
        return [shell for shell in self if shell.loaded]

    def all(self) -> list[Shell[CoreT]]:
        """Every shell, for who needs to see everything. Raises KafkaError while one is still loading."""
        if not all(shell.loaded for shell in self):
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return list(self)

    async def run(self, key: str, command: Callable[[CoreT, asyncio.Future[Any], Now], Any]) -> Any:
        """Have a command performed, and return its answer. Raises KafkaError."""
        return await self.find(key).run(command)
