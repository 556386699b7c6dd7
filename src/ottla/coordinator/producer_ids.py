"""Producer ids, unique in the cluster: taken from the store in blocks, given out one by one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ottla.cluster.registration import allocate_producer_ids
from ottla.cluster.znodes import PRODUCER_ID_BLOCK
from ottla.errors import ErrorCode, KafkaError
from ottla.store.interface import StoreConflictError, StoreError

if TYPE_CHECKING:
    from ottla.store.interface import Store


class ProducerIds:
    """A block that is not used up when the broker stops is lost, which 63 bits can afford."""

    def __init__(self, broker_id: int, store: Store) -> None:
        self._broker_id = broker_id
        self._store = store
        self._next = 0
        self._last = -1
        self._refilling = asyncio.Lock()

    async def next(self) -> int:
        """Raises KafkaError when the store has no block to give now."""
        async with self._refilling:
            while self._next > self._last:
                try:
                    await self._take_block()
                except StoreError as error:
                    # What Kafka answers, too, while it waits for a block: the client tries again.
                    raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, str(error)) from error
            self._next += 1
            return self._next - 1

    async def _take_block(self) -> None:
        node = await self._store.get(PRODUCER_ID_BLOCK)
        ops, start, last = allocate_producer_ids(node, self._broker_id)
        try:
            await self._store.commit(ops)
        except StoreConflictError:
            return
        self._next, self._last = start, last
