"""`offsets.storage=zookeeper`: committed offsets are stored under `/consumers` in the store, as in early Kafka.

A node has only the offset, so the metadata and the leader epoch of a commit are lost when the broker restarts. Group
membership is always stored in `__consumer_offsets`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from ottla.cluster import znodes
from ottla.errors import ErrorCode, KafkaError
from ottla.groups.records import OffsetCommitted, OffsetRemoved
from ottla.model import printable
from ottla.store.interface import Delete, Op, Put, StoreError

if TYPE_CHECKING:
    from ottla.coordinator.journal import PartitionJournal, Write
    from ottla.groups.effects import Outcome
    from ottla.groups.records import Record
    from ottla.replication.partition import Admission
    from ottla.store.interface import Store

logger = logging.getLogger("ottla.coordinator")


_NODES_PER_SLICE = 500


class StoreJournal:
    """Writes offsets to the store and all other records to the partition.

    The partition may have offsets from before the setting was changed, so a removal is written to both.
    """

    def __init__(self, store: Store, partition: PartitionJournal[Record]) -> None:
        self._store = store
        self._partition = partition

    def encode(self, outcome: Outcome, admission: Admission | None) -> Write:
        if outcome.producer is not None:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
                "offsets in the store (offsets.storage) cannot be part of transactions",
            )
        ops: list[Op] = []
        others: list[Record] = []
        for record in outcome.records:
            if isinstance(record, OffsetCommitted):
                path = znodes.offset_path(record.group, record.topic, record.partition)
                ops.append(Put(path, znodes.encode_offset(record.offset)))
            elif isinstance(record, OffsetRemoved):
                others.append(record)
                path = znodes.offset_path(record.group, record.topic, record.partition)
                # Create the node first: deleting a missing node would fail the whole commit.
                ops += [Put(path, b""), Delete(path)]
            else:
                others.append(record)
        append = self._partition.encode(others) if others else None
        return partial(self._write, ops, append)

    def _write(self, ops: list[Op], append: Write | None) -> asyncio.Future[None] | None:
        written = append() if append is not None else None
        return asyncio.ensure_future(self._commit(ops, written)) if ops else written

    async def _commit(self, ops: list[Op], written: asyncio.Future[None] | None) -> None:
        try:
            await self._store.commit(ops)
        except StoreError as error:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error)) from error
        if written is not None:
            await written


async def read_offsets(store: Store, is_wanted: Callable[[str], bool], now_ms: int) -> list[OffsetCommitted]:
    """The offsets of wanted groups in the store. The store has no commit timestamps, so retention starts now.

    Yields to the event loop, since there may be many nodes.
    """
    found = []
    for number, (path, node) in enumerate((await store.read_tree(znodes.CONSUMERS)).items()):
        if number % _NODES_PER_SLICE == 0:
            await asyncio.sleep(0)
        match path.split("/"):
            case ["", "consumers", group, "offsets", topic, partition] if partition.isdecimal():
                try:
                    name, offset = znodes.decode_name(group), znodes.decode_offset(node.data)
                except znodes.InvalidZnodeError as error:
                    logger.error("skipping the unreadable node %s: %s", printable(path), error)
                else:
                    if is_wanted(name):
                        found.append(OffsetCommitted(name, topic, int(partition), offset, commit_timestamp_ms=now_ms))
    return found
