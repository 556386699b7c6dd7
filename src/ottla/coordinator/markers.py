"""Ends of transactions, written into the partitions that this broker leads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from ottla.errors import ErrorCode, KafkaError
from ottla.model import GROUP_OFFSETS_TOPIC, TopicPartition

if TYPE_CHECKING:
    from ottla.coordinator.groups import GroupCoordinator
    from ottla.records.control import EndTransactionMarker
    from ottla.replication.replicas import Replicas


class Markers:
    def __init__(self, replicas: Replicas, groups: GroupCoordinator) -> None:
        self._replicas = replicas
        self._groups = groups

    def write(
        self,
        marker: EndTransactionMarker,
        transaction_version: int,
        partitions: Iterable[TopicPartition],
        report: Callable[[TopicPartition, ErrorCode], None],
    ) -> None:
        """Say of each partition, once, how it went: now, or as soon as it is certain."""
        for partition in partitions:
            try:
                wait = self._append(marker, transaction_version, partition)
            except KafkaError as error:
                report(partition, error.code)
                continue
            if wait is None:
                report(partition, ErrorCode.NONE)
            else:
                wait.add_done_callback(partial(_report_later, report, partition))

    def _append(
        self, marker: EndTransactionMarker, transaction_version: int, partition: TopicPartition
    ) -> asyncio.Future[None] | None:
        leader = self._replicas.leader_of(*partition)
        if partition.topic == GROUP_OFFSETS_TOPIC:
            return self._groups.end_transaction(partition.partition, marker, transaction_version)
        return leader.append_marker(marker, transaction_version)


def _report_later(
    report: Callable[[TopicPartition, ErrorCode], None], partition: TopicPartition, done: asyncio.Future[None]
) -> None:
    error = done.exception()
    report(partition, error.code if isinstance(error, KafkaError) else ErrorCode.NONE)
