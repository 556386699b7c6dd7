"""Consumer groups on this broker: finds the shell of a group's partition and hands it the command."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, cast

from ottla.coordinator.shell import Journal, PartitionJournal, Shell
from ottla.coordinator.store_offsets import StoreJournal, read_offsets
from ottla.errors import ErrorCode, KafkaError
from ottla.groups.coordinator import GroupCore
from ottla.groups.parameters import GroupParameters
from ottla.groups.placement import partition_for
from ottla.groups.records import decode, encode
from ottla.model import GROUP_OFFSETS_TOPIC, ZERO_TOPIC_ID
from ottla.records.format import Codec

if TYPE_CHECKING:
    from collections.abc import Collection

    from ottla.cluster.image import ClusterImage, TopicState
    from ottla.config.broker import BrokerConfig
    from ottla.controller.controller import Controller
    from ottla.env.clock import Clock, Timer
    from ottla.groups.commands import Commit, Join, LeavingMember, Sync
    from ottla.groups.effects import Now, Outcome, Token
    from ottla.groups.records import OffsetCommitted
    from ottla.groups.results import (
        CommitResult,
        DeleteGroupsResult,
        DeleteOffsetsResult,
        DescribedGroup,
        JoinResult,
        LeaveResult,
        ListedGroup,
        SyncResult,
    )
    from ottla.model import TopicId, TopicPartition
    from ottla.replication.partition import Partition
    from ottla.replication.replicas import Replicas
    from ottla.store.interface import Store

log = logging.getLogger("ottla.coordinator")

_LOAD_AGAIN_SECONDS = 5.0


class GroupCoordinator:
    def __init__(self, controller: Controller, replicas: Replicas, store: Store, clock: Clock) -> None:
        self._controller = controller
        self._replicas = replicas
        self._store = store
        self._clock = clock
        self._shells: dict[int, Shell[GroupCore]] = {}
        self._topics: Mapping[str, TopicState] = {}
        self._loading: set[asyncio.Task[None]] = set()
        self._expiry: Timer | None = None

    def start(self) -> None:
        """Follow the cluster image from now on. The replicas must have followed it before."""
        self._controller.subscribe(self._apply)
        self._schedule_expiry()

    def stop(self) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
        for task in self._loading:
            task.cancel()
        for shell in self._shells.values():
            shell.unload()
        self._shells.clear()

    # Following the cluster

    def _apply(self, image: ClusterImage, config: BrokerConfig) -> None:
        before, self._topics = self._topics, image.topics
        if before is image.topics:
            return
        self._host(image.topics.get(GROUP_OFFSETS_TOPIC), config)
        gone = {
            name: topic.topic_id
            for name, topic in before.items()
            if name not in image.topics or image.topics[name].topic_id != topic.topic_id
        }
        if gone:
            self._forget_topics(gone)

    def _host(self, topic: TopicState | None, config: BrokerConfig) -> None:
        """Have a shell for every partition of `__consumer_offsets` that this broker leads."""
        led = {}
        for state in topic.partitions if topic is not None else ():
            try:
                led[state.partition] = self._replicas.leader_of(GROUP_OFFSETS_TOPIC, state.partition)
            except KafkaError:
                continue
        for index, shell in list(self._shells.items()):
            if led.get(index) is not shell.partition:
                shell.unload()
                del self._shells[index]
        for index, partition in led.items():
            if index not in self._shells:
                self._shells[index] = self._new_shell(partition, config)
                self._start_loading(index, self._shells[index], config)

    def _new_shell(self, partition: Partition, config: BrokerConfig) -> Shell[GroupCore]:
        core = GroupCore(_parameters(config), lambda: str(uuid.uuid4()))
        journal: Journal = PartitionJournal(
            partition, self._clock, encode, Codec(config.integer("offsets.topic.compression.codec"))
        )
        if _offsets_in_store(config):
            journal = StoreJournal(self._store, journal)
        return Shell(partition, core, journal, self._clock, decode)

    def _start_loading(self, index: int, shell: Shell[GroupCore], config: BrokerConfig) -> None:
        if self._shells.get(index) is shell:
            task = asyncio.ensure_future(self._load(index, shell, config))
            self._loading.add(task)
            task.add_done_callback(self._loading.discard)

    async def _load(self, index: int, shell: Shell[GroupCore], config: BrokerConfig) -> None:
        try:
            stored: list[OffsetCommitted] = []
            if _offsets_in_store(config):
                every = await read_offsets(self._store, self._clock.time_ms())
                stored = [record for record in every if self._partition_of(record.group) == index]
            await shell.load(stored)
        except Exception:
            log.exception("%s: the groups could not be loaded, which will be tried again", shell.partition)
            self._clock.call_later(_LOAD_AGAIN_SECONDS, self._start_loading, index, shell, config)
        else:
            if shell.loaded:
                self._forget_missing_topics(shell)

    def _forget_missing_topics(self, shell: Shell[GroupCore]) -> None:
        """A topic may have been deleted while its offsets were not loaded, or just before a crash."""
        gone: dict[str, TopicId] = {}
        for group in shell.core.groups.values():
            for committed in group.offsets:
                topic = self._topics.get(committed.topic)
                if topic is None or committed.topic_id not in (ZERO_TOPIC_ID, topic.topic_id):
                    gone[committed.topic] = committed.topic_id
        if gone:
            shell.perform_all(lambda: shell.core.on_topics_deleted(gone))

    def _forget_topics(self, gone: Mapping[str, TopicId]) -> None:
        for shell in self._shells.values():
            if shell.loaded:
                shell.perform_all(partial(shell.core.on_topics_deleted, gone))

    def _schedule_expiry(self) -> None:
        interval = self._controller.config.integer("offsets.retention.check.interval.ms") / 1000
        self._expiry = self._clock.call_later(interval, self._expire)

    def _expire(self) -> None:
        for shell in self._shells.values():
            if shell.loaded:
                shell.perform_all(partial(shell.core.expire_offsets, shell.now()))
        self._schedule_expiry()

    # Finding a group

    async def locate(self, group_id: str) -> None:
        """Make sure that this broker coordinates a group, creating the offsets topic for the very first one."""
        if GROUP_OFFSETS_TOPIC not in self._controller.image.topics:
            try:
                await self._controller.create_offsets_topic()
            except KafkaError as error:
                if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                    raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, error.message) from error
        if self._partition_of(group_id) not in self._shells:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def _partition_of(self, group_id: str) -> int:
        topic = self._controller.image.topics.get(GROUP_OFFSETS_TOPIC)
        if topic is None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"there is no topic {GROUP_OFFSETS_TOPIC} yet")
        return partition_for(group_id, len(topic.partitions))

    def _shell(self, group_id: str) -> Shell[GroupCore]:
        shell = self._shells.get(self._partition_of(group_id))
        if shell is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        if not shell.loaded:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return shell

    async def _run(self, group_id: str, command: Callable[[GroupCore, Token, Now], Outcome]) -> object:
        shell = self._shell(group_id)
        token: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        shell.perform(command(shell.core, token, shell.now()))
        return await token

    # Commands

    async def join(self, join: Join) -> JoinResult:
        return cast("JoinResult", await self._run(join.group_id, lambda core, token, now: core.join(token, join, now)))

    async def sync(self, sync: Sync) -> SyncResult:
        return cast("SyncResult", await self._run(sync.group_id, lambda core, token, now: core.sync(token, sync, now)))

    async def leave(self, group_id: str, members: Sequence[LeavingMember]) -> LeaveResult:
        result = await self._run(group_id, lambda core, token, now: core.leave(token, group_id, members, now))
        return cast("LeaveResult", result)

    def heartbeat(self, group_id: str, member_id: str, group_instance_id: str | None, generation_id: int) -> ErrorCode:
        shell = self._shell(group_id)
        return shell.core.heartbeat(group_id, member_id, group_instance_id, generation_id, shell.now())

    async def commit(self, commit: Commit) -> CommitResult:
        result = await self._run(commit.group_id, lambda core, token, now: core.commit_offsets(token, commit, now))
        return cast("CommitResult", result)

    async def delete_offsets(self, group_id: str, partitions: Sequence[TopicPartition]) -> DeleteOffsetsResult:
        result = await self._run(group_id, lambda core, token, _: core.delete_offsets(token, group_id, partitions))
        return cast("DeleteOffsetsResult", result)

    async def delete(self, group_id: str) -> ErrorCode:
        result = await self._run(group_id, lambda core, token, _: core.delete_groups(token, [group_id]))
        return cast("DeleteGroupsResult", result).errors[0]

    # Questions

    def committed(self, group_id: str) -> GroupOffsets:
        return GroupOffsets(self._shell(group_id).core, group_id)

    def describe(self, group_id: str) -> DescribedGroup:
        return self._shell(group_id).core.describe(group_id)

    def list(self, states: Collection[str], types: Collection[str]) -> list[ListedGroup]:
        found: list[ListedGroup] = []
        for shell in self._shells.values():
            if not shell.loaded:
                raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            found += shell.core.list_groups(states, types)
        return found


class GroupOffsets:
    """What a group has committed, to look at right now."""

    def __init__(self, core: GroupCore, group_id: str) -> None:
        self._core = core
        self._group_id = group_id

    def get(self, topic: str, partition: int, topic_id: TopicId) -> OffsetCommitted | None:
        return self._core.fetch_offset(self._group_id, topic, partition, topic_id)

    def all(self) -> list[OffsetCommitted]:
        return self._core.fetch_all_offsets(self._group_id)


def _offsets_in_store(config: BrokerConfig) -> bool:
    return config.string("offsets.storage") == "zookeeper"


def _parameters(config: BrokerConfig) -> GroupParameters:
    return GroupParameters(
        group_min_session_timeout_ms=config.integer("group.min.session.timeout.ms"),
        group_max_session_timeout_ms=config.integer("group.max.session.timeout.ms"),
        group_max_size=config.integer("group.max.size"),
        group_initial_rebalance_delay_ms=config.integer("group.initial.rebalance.delay.ms"),
        offset_metadata_max_bytes=config.integer("offset.metadata.max.bytes"),
        offsets_retention_ms=config.integer("offsets.retention.minutes") * 60_000,
    )
