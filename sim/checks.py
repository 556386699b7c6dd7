"""The guarantees. Each check compares the clients' history with the stored data and returns a list of violations."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from ottla.model import TopicPartition
from sim.inspection import Stored, committed_bytes, partition_states, stored_records
from sim.plan import COPIES, TOPIC
from sim.transaction_checks import check_copies, check_reader, check_transactions, committed_records

if TYPE_CHECKING:
    from ottla.cluster.znodes import PartitionStateZnode
    from sim.cluster import Cluster
    from sim.history import History


class LeaderEpochs:
    """Watches the store: each epoch has one leader, and epochs never decrease."""

    def __init__(self, cluster: Cluster, history: History) -> None:
        self._cluster = cluster
        self._history = history
        self._last: dict[TopicPartition, PartitionStateZnode] = {}

    def look(self) -> None:
        for partition, state in partition_states(self._cluster.ensemble.tree).items():
            last = self._last.get(partition)
            if last == state:
                continue
            self._last[partition] = state
            self._cluster.note(partition, f"leader {state.leader}, epoch {state.leader_epoch}, isr {state.isr}")
            if last is None:
                continue
            if state.leader_epoch < last.leader_epoch:
                self._history.violations.append(f"{partition}: epoch {state.leader_epoch} follows {last.leader_epoch}")
            elif state.leader_epoch == last.leader_epoch and state.leader != last.leader:
                self._history.violations.append(
                    f"{partition}: brokers {last.leader} and {state.leader} lead in epoch {state.leader_epoch}"
                )


def check_replicated(cluster: Cluster, partition: TopicPartition, offset: int, since: float) -> Iterator[str]:
    """When a record is acknowledged, at least `min.insync.replicas` logs contain it.

    A machine that is down, or was started after the request was sent, may have had the record.
    """
    lacking = []
    for machine in cluster.machines:
        replica = machine.broker.replicas.get(*partition) if machine.broker else None
        if replica is not None and machine.started_at < since and replica.log.end_offset <= offset:
            lacking.append(machine.name)
    if len(cluster.machines) - len(lacking) < cluster.plan.min_insync:
        yield f"{partition}: offset {offset} was acknowledged, but {' and '.join(lacking)} do not have it"


def check_logs(cluster: Cluster, history: History) -> Iterator[str]:
    """After recovery: all replicas have the same bytes, and the bytes match the clients' history."""
    longest = {}
    for partition in partition_states(cluster.ensemble.tree):
        contents = {}
        for machine in cluster.machines:
            replica = machine.broker.replicas.get(*partition) if machine.broker else None
            if replica is not None:
                contents[machine.name] = committed_bytes(replica)
        if len(set(contents.values())) > 1:
            sizes = {name: len(data) for name, data in contents.items()}
            yield f"{partition}: replicas differ below the high watermark; bytes: {sizes}"
        longest[partition] = max(contents.values(), key=len, default=b"")
        if partition.topic == TOPIC:
            yield from check_partition(partition, stored_records(longest[partition]), history)
    if cluster.plan.copies:
        yield from _check_copies(longest, history)


def _check_copies(logs: Mapping[TopicPartition, bytes], history: History) -> Iterator[str]:
    committed = {}
    for partition, data in logs.items():
        if partition.topic == COPIES:
            committed[partition], undecided = committed_records(data)
            yield from check_reader(history.seen.get(partition, {}), committed[partition], partition)
            if undecided:
                yield f"{partition}: open transactions, by producer and offsets: {undecided}"
    ends = {partition: len(stored_records(data)) for partition, data in logs.items() if partition.topic == TOPIC}
    yield from check_transactions(history.transactions, committed)
    yield from check_copies(committed, ends)


def check_partition(partition: TopicPartition, stored: list[Stored], history: History) -> Iterator[str]:
    by_offset = {record.offset: record.value for record in stored}
    for offset, value in history.acknowledged.get(partition, {}).items():
        if by_offset.get(offset) != value:
            yield f"{partition}: {value!r} was acknowledged at {offset}, but the log has {by_offset.get(offset)!r}"
    for offset, value in history.seen.get(partition, {}).items():
        if by_offset.get(offset) != value:
            yield f"{partition}: a consumer saw {value!r} at {offset}, but the log has {by_offset.get(offset)!r}"
    for before, after in itertools.pairwise(stored):
        if after.leader_epoch < before.leader_epoch:
            yield f"{partition}: epoch {after.leader_epoch} at {after.offset} follows {before.leader_epoch}"
    yield from _check_order(partition, stored, history)


def _check_order(partition: TopicPartition, stored: list[Stored], history: History) -> Iterator[str]:
    """The log has each producer's records once and in the order of sending."""
    last: dict[bytes, int] = {}
    for record in stored:
        producer, _, number = record.value.rpartition(b"/")
        if record.value not in history.sent:
            yield f"{partition}: {record.value!r} at {record.offset} was never sent"
            continue
        expected = last.get(producer, -1) + 1
        if int(number) != expected:
            yield f"{partition}: {record.value!r} at {record.offset}, expected number {expected}"
        last[producer] = int(number)


def check_commits(history: History, found: int | None) -> Iterator[str]:
    if found is None or not history.committed <= found <= history.committing:
        yield (f"the group has offset {found}; last commit: {history.committed}, last attempt: {history.committing}")
