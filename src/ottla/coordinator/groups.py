"""The group coordinator of this broker. It passes each command to the shard of the group's partition."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

from ottla.coordinator.journal import PartitionJournal, decode_batch
from ottla.coordinator.replayer import SLICE_SECONDS, Replayer
from ottla.coordinator.shard import Shard
from ottla.coordinator.shards import Shards
from ottla.coordinator.store_offsets import StoreJournal, read_offsets
from ottla.env.clock import period_seconds
from ottla.errors import ErrorCode, KafkaError
from ottla.groups.core import GroupCore
from ottla.groups.effects import Outcome
from ottla.groups.memory import MemberMemory
from ottla.groups.parameters import GroupParameters
from ottla.groups.records import decode, encode
from ottla.model import GROUP_OFFSETS_TOPIC, NO_SEQUENCE, ZERO_TOPIC_ID, TopicPartition
from ottla.records.control import read_marker
from ottla.records.format import Codec
from ottla.replication.partition import Admission

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from ottla.cluster.image import ClusterImage, TopicState
    from ottla.config.broker import BrokerConfig
    from ottla.coordinator.journal import Journal, Write
    from ottla.env.background import Background
    from ottla.env.clock import Clock, Timer
    from ottla.groups.commands import Commit, Join, LeavingMember, Sync, TxnCommit
    from ottla.groups.records import OffsetCommitted, Record
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
    from ottla.log.verification import VerificationGuard
    from ottla.metadata.cluster_metadata import ClusterMetadata
    from ottla.model import TopicId
    from ottla.records.control import EndTransactionMarker
    from ottla.records.header import BatchHeader
    from ottla.replication.partition import Partition
    from ottla.replication.replicas import Replicas
    from ottla.store.interface import Store

GroupShard: TypeAlias = Shard[GroupCore, Outcome]


class GroupCoordinator:
    def __init__(
        self,
        metadata: ClusterMetadata,
        replicas: Replicas,
        store: Store,
        clock: Clock,
        background: Background,
        random_bytes: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self._metadata = metadata
        self._store = store
        self._clock = clock
        self._background = background
        self._random_bytes = random_bytes
        self._shards: Shards[GroupCore, Outcome] = Shards(
            GROUP_OFFSETS_TOPIC, metadata, replicas, clock, new_shard=self._new_shard, load=self._load
        )
        self._topics: Mapping[str, TopicState] = {}
        self._expiry: Timer | None = None

    def start(self) -> None:
        self._schedule_expiry()

    def stop(self) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
        self._shards.stop()

    # Applying images

    def apply(self, image: ClusterImage, config: BrokerConfig) -> None:
        """Apply a cluster image. The replicas must have applied it before."""
        before, self._topics = self._topics, image.topics
        # Also for an image that was applied before: the replicas may have created more of its partitions since.
        self._shards.apply(image, config)
        if before is image.topics:
            return
        deleted = {
            name: topic.topic_id
            for name, topic in before.items()
            if name not in image.topics or image.topics[name].topic_id != topic.topic_id
        }
        if deleted:
            for shard in self._shards.loaded():
                shard.start(_for_all_groups(shard, partial(shard.core.on_topics_deleted, deleted)))

    def _new_shard(
        self, partition: Partition, config: BrokerConfig, on_failed: Callable[[GroupShard], None]
    ) -> GroupShard:
        core = GroupCore(_parameters(config), self._new_uuid, MemberMemory(self._member_bytes))
        codec = Codec(config.integer("offsets.topic.compression.codec"))
        own = PartitionJournal(partition, self._clock, encode, codec)
        journal: Journal[Outcome] = StoreJournal(self._store, own) if _offsets_in_store(config) else GroupJournal(own)
        replayer = Replayer(partition, self._clock, self._background, partial(_read_batch, core, partition))
        return Shard(partition, core, journal, self._clock, replayer, on_failed=on_failed)

    def _member_bytes(self) -> int:
        return sum(shard.core.memory.used for shard in self._shards)

    def _new_uuid(self) -> str:
        return str(uuid.UUID(bytes=self._random_bytes(16), version=4))

    async def _load(self, shard: GroupShard, config: BrokerConfig) -> None:
        stored: list[OffsetCommitted] = []
        if _offsets_in_store(config):
            index = shard.partition.topic_partition.partition
            stored = await read_offsets(
                self._store, lambda group: self._shards.partition_of(group) == index, self._clock.time_ms()
            )
        await shard.load(stored)
        if shard.loaded:
            await self._remove_offsets_of_deleted_topics(shard)

    async def _remove_offsets_of_deleted_topics(self, shard: GroupShard) -> None:
        """Remove the offsets of topics that were deleted while this shard was not loaded."""
        deleted: dict[str, TopicId] = {}
        end = self._clock.monotonic() + SLICE_SECONDS
        for group_id in shard.core.group_ids():
            for name, topic_id in shard.core.topics_of(group_id):
                topic = self._topics.get(name)
                if topic is None or topic_id not in (ZERO_TOPIC_ID, topic.topic_id):
                    deleted[name] = topic_id
            if self._clock.monotonic() >= end:
                await asyncio.sleep(0)
                end = self._clock.monotonic() + SLICE_SECONDS
        if deleted:
            await _for_all_groups(shard, partial(shard.core.on_topics_deleted, deleted))

    def _schedule_expiry(self) -> None:
        interval = period_seconds(self._metadata.config.integer("offsets.retention.check.interval.ms"))
        self._expiry = self._clock.call_later(interval, self._expire)

    def _expire(self) -> None:
        for shard in self._shards.loaded():
            shard.start(_for_all_groups(shard, partial(shard.core.expire_offsets, shard.now())))
        self._schedule_expiry()

    async def locate(self, group_id: str) -> int:
        """The broker that coordinates a group. Creates the offsets topic if it does not exist."""
        return await self._shards.locate(group_id, self._metadata.create_offsets_topic)

    def partition_of(self, group_id: str) -> TopicPartition:
        """The partition that stores the offsets of a group. Raises KafkaError if the offsets topic does not exist."""
        return TopicPartition(GROUP_OFFSETS_TOPIC, self._shards.partition_of(group_id))

    # Commands

    async def join(self, join: Join) -> JoinResult:
        return await self._shards.run(join.group_id, lambda core, token, now: core.join(token, join, now))

    def sync(self, sync: Sync) -> asyncio.Future[SyncResult]:
        """Raises KafkaError, and the future may also fail with KafkaError. The command is not kept while the future
        waits for the leader: members that do not lead can send megabytes of assignments that nobody needs."""
        shard = self._shards.find(sync.group_id)
        return shard.submit(lambda core, token, now: core.sync(token, sync, now))

    async def leave(self, group_id: str, members: Sequence[LeavingMember]) -> LeaveResult:
        return await self._shards.run(group_id, lambda core, token, now: core.leave(token, group_id, members, now))

    def heartbeat(self, group_id: str, member_id: str, group_instance_id: str | None, generation_id: int) -> ErrorCode:
        shard = self._shards.find(group_id)
        return shard.core.heartbeat(group_id, member_id, group_instance_id, generation_id, shard.now())

    async def commit(self, commit: Commit) -> CommitResult:
        return await self._shards.run(commit.group_id, lambda core, token, now: core.commit_offsets(token, commit, now))

    def begin_verification(self, commit: TxnCommit, *, supports_epoch_bump: bool) -> VerificationGuard | None:
        """Call `Partition.begin_verification` of the group's partition, before `commit_txn`. Raises KafkaError."""
        partition = self._shards.find(commit.group_id).partition
        return partition.begin_verification(commit.producer, NO_SEQUENCE, supports_epoch_bump=supports_epoch_bump)

    async def commit_txn(self, commit: TxnCommit, guard: VerificationGuard | None) -> CommitResult:
        """Commit offsets in a transaction. A guard means that the caller has verified the group's partition."""
        shard = self._shards.find(commit.group_id)
        return await shard.run(
            lambda core, token, now: core.commit_txn_offsets(token, commit, now),
            Admission(guard, from_coordinator=True),
        )

    async def delete_offsets(self, group_id: str, partitions: Sequence[TopicPartition]) -> DeleteOffsetsResult:
        return await self._shards.run(group_id, lambda core, token, _: core.delete_offsets(token, group_id, partitions))

    async def delete(self, group_id: str) -> ErrorCode:
        shard = self._shards.find(group_id)
        await shard.perform_all(partial(shard.core.shrink_group, group_id))
        result: DeleteGroupsResult = await self._shards.run(
            group_id, lambda core, token, _: core.delete_groups(token, [group_id])
        )
        return result.errors[0]

    def end_transaction(
        self, index: int, marker: EndTransactionMarker, transaction_version: int
    ) -> asyncio.Future[None] | None:
        """Append a marker to a partition of `__consumer_offsets`, and commit or drop the offsets of its transaction."""
        try:
            shard = self._shards.at(index)
        except KafkaError as error:
            # After this error the transaction coordinator retries, here or at another broker.
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, error.message) from error
        return shard.append(
            lambda: shard.partition.append_marker(marker, transaction_version),
            lambda: shard.core.replay_end_txn(marker.producer_id, committed=marker.committed),
        )

    # Queries

    def committed(self, group_id: str) -> GroupOffsets:
        shard = self._shards.find(group_id)
        return GroupOffsets(shard.core, group_id, shard.uncommitted)

    def describe(self, group_id: str) -> DescribedGroup:
        return self._shards.find(group_id).core.describe(group_id)

    def list(self, states: Collection[str], types: Collection[str]) -> Iterator[ListedGroup]:
        """Raises KafkaError at once. The caller may await while it iterates."""
        return chain.from_iterable([shard.core.list_groups(states, types) for shard in self._shards.all()])


async def _for_all_groups(shard: GroupShard, decide: Callable[[Sequence[str], int], Outcome]) -> None:
    """Perform a decision about all groups of a shard. Looks at some groups at a time, and yields to the event loop."""
    for group_ids in shard.core.portions():
        await shard.perform_all(partial(decide, group_ids))
        await asyncio.sleep(0)


class GroupOffsets:
    """The committed offsets of a group. The caller must read them before its next await."""

    def __init__(self, core: GroupCore, group_id: str, wait: asyncio.Future[None] | None) -> None:
        self.wait = wait
        """If set, a reply with these offsets must wait for this future. If the future fails, they must not be sent."""
        self._core = core
        self._group_id = group_id

    def get(self, topic: str, partition: int, topic_id: TopicId) -> OffsetCommitted | None:
        return self._core.fetch_offset(self._group_id, topic, partition, topic_id)

    def all(self) -> list[OffsetCommitted]:
        return self._core.fetch_all_offsets(self._group_id)

    def is_unstable(self, topic: str, partition: int) -> bool:
        """Whether an open transaction may change the committed offset."""
        return self._core.is_unstable(self._group_id, topic, partition)


class GroupJournal:
    """Encodes the offsets of a transaction as a batch of that transaction."""

    def __init__(self, partition: PartitionJournal[Record]) -> None:
        self._partition = partition

    def encode(self, outcome: Outcome, admission: Admission | None) -> Write:
        return self._partition.encode(outcome.records, outcome.producer, admission)


def _read_batch(
    core: GroupCore, partition: Partition, header: BatchHeader, batch: memoryview
) -> Iterable[Callable[[], None]]:
    if header.is_control:
        marker = read_marker(batch, header) if header.producer_id >= 0 else None
        if marker is not None:
            yield partial(core.replay_end_txn, marker.producer_id, committed=marker.committed)
        return
    producer_id = header.producer_id if header.is_transactional else None
    records: list[Record] = decode_batch(batch, decode, partition)
    for record in records:
        yield partial(core.replay, record, producer_id)


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
