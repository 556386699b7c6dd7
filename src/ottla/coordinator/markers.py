"""Writes transaction markers: appends them to partitions that this broker leads, sends WriteTxnMarkers for others."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Iterable, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from ottla.client.failures import ClientError
from ottla.cluster.znodes import NO_LEADER
from ottla.errors import ErrorCode, KafkaError
from ottla.model import GROUP_OFFSETS_TOPIC, TopicPartition
from ottla.wire.api.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

if TYPE_CHECKING:
    from ottla.coordinator.groups import GroupCoordinator
    from ottla.metadata.cluster_metadata import ClusterMetadata
    from ottla.metadata.peers import Peers
    from ottla.records.control import EndTransactionMarker
    from ottla.replication.replicas import Replicas

logger = logging.getLogger("ottla.coordinator")

MARKERS_AT_ONCE = 500
"""Markers that are appended before other work may run. They take some 10 ms."""

Report = Callable[[TopicPartition, ErrorCode], None]
"""Called once for each partition with the result, before `write` returns or later."""


class Markers:
    def __init__(self, metadata: ClusterMetadata, replicas: Replicas, groups: GroupCoordinator, peers: Peers) -> None:
        self._metadata = metadata
        self._replicas = replicas
        self._groups = groups
        self._peers = peers
        self._sending: set[asyncio.Task[None]] = set()

    def stop(self) -> None:
        for task in self._sending:
            task.cancel()

    def write(
        self,
        marker: EndTransactionMarker,
        transaction_version: int,
        partitions: Iterable[TopicPartition],
        report: Report,
    ) -> None:
        """Write a marker to partitions of any leaders."""
        by_leader: dict[int, list[TopicPartition]] = {}
        for partition in partitions:
            state = self._metadata.image.partition(*partition)
            if state is None:
                report(partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            elif state.leader == NO_LEADER:
                report(partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            else:
                by_leader.setdefault(state.leader, []).append(partition)
        self.write_here(marker, transaction_version, by_leader.pop(self._metadata.broker_id, ()), report)
        for leader, led in by_leader.items():
            self._start(self._send(leader, marker, transaction_version, led, report))

    def write_here(
        self,
        marker: EndTransactionMarker,
        transaction_version: int,
        partitions: Collection[TopicPartition],
        report: Report,
    ) -> None:
        """Write a marker to partitions that this broker leads. If there are many, other work runs in between."""
        first = list(islice(partitions, MARKERS_AT_ONCE))
        self._append_all(marker, transaction_version, first, report)
        if len(partitions) > len(first):
            rest = list(islice(partitions, MARKERS_AT_ONCE, None))
            self._start(self._append_later(marker, transaction_version, rest, report))

    async def _append_later(
        self,
        marker: EndTransactionMarker,
        transaction_version: int,
        partitions: Sequence[TopicPartition],
        report: Report,
    ) -> None:
        for start in range(0, len(partitions), MARKERS_AT_ONCE):
            await asyncio.sleep(0)
            self._append_all(marker, transaction_version, partitions[start : start + MARKERS_AT_ONCE], report)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    def _append_all(
        self,
        marker: EndTransactionMarker,
        transaction_version: int,
        partitions: Iterable[TopicPartition],
        report: Report,
    ) -> None:
        for partition in partitions:
            try:
                wait = self._append(marker, transaction_version, partition)
            except KafkaError as error:
                report(partition, error.code)
                continue
            except Exception:
                logger.exception("%s: cannot write a transaction marker", partition)
                report(partition, ErrorCode.UNKNOWN_SERVER_ERROR)
                continue
            if wait is None:
                report(partition, ErrorCode.NONE)
            else:
                wait.add_done_callback(partial(_report_result, report, partition))

    def _append(
        self, marker: EndTransactionMarker, transaction_version: int, partition: TopicPartition
    ) -> asyncio.Future[None] | None:
        leader = self._replicas.leader_of(*partition)
        if partition.topic == GROUP_OFFSETS_TOPIC:
            return self._groups.end_transaction(partition.partition, marker, transaction_version)
        return leader.append_marker(marker, transaction_version)

    async def _send(
        self,
        leader: int,
        marker: EndTransactionMarker,
        transaction_version: int,
        partitions: Collection[TopicPartition],
        report: Report,
    ) -> None:
        try:
            response = await self._peers.call(
                leader, _request(marker, transaction_version, partitions), WriteTxnMarkersResponse
            )
            answers = {
                TopicPartition(topic.name, result.partition_index): ErrorCode(result.error_code)
                for answer in response.markers
                for topic in answer.topics
                for result in topic.partitions
            }
        except (ClientError, ValueError):  # No reply, or an error code that this broker does not know.
            answers = {}
        for partition in partitions:
            # Without a reply the marker may be written or not. The core sends it again: a second marker has no effect.
            report(partition, answers.get(partition, ErrorCode.NETWORK_EXCEPTION))


def _request(
    marker: EndTransactionMarker, transaction_version: int, partitions: Iterable[TopicPartition]
) -> WriteTxnMarkersRequest:
    topics: dict[str, WritableTxnMarkerTopic] = {}
    for topic, index in partitions:
        topics.setdefault(topic, WritableTxnMarkerTopic(name=topic)).partition_indexes.append(index)
    wanted = WritableTxnMarker(
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        transaction_result=marker.committed,
        topics=list(topics.values()),
        coordinator_epoch=marker.coordinator_epoch,
        transaction_version=transaction_version,
    )
    return WriteTxnMarkersRequest(markers=[wanted])


def _report_result(report: Report, partition: TopicPartition, done: asyncio.Future[None]) -> None:
    """The marker is written only if the future is done without an exception."""
    error = asyncio.CancelledError() if done.cancelled() else done.exception()
    if error is None:
        code = ErrorCode.NONE
    else:
        code = error.code if isinstance(error, KafkaError) else ErrorCode.UNKNOWN_SERVER_ERROR
    report(partition, code)
