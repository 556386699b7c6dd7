"""Producer ids, unique in the cluster. A broker takes blocks of them from the store and gives out one at a time."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from ottla.cluster.registration import allocate_producer_ids
from ottla.cluster.znodes import PRODUCER_ID_BLOCK, InvalidZnodeError
from ottla.errors import ErrorCode, KafkaError
from ottla.store.interface import StoreConflictError, StoreError

if TYPE_CHECKING:
    from ottla.store.interface import Store

logger = logging.getLogger("ottla.coordinator")


class ProducerIds:
    """The unused rest of a block is lost when the broker stops. There are 63 bits of ids."""

    def __init__(self, broker_id: int, store: Store) -> None:
        self._broker_id = broker_id
        self._store = store
        self._next = 0
        self._last = -1
        self._refilling = asyncio.Lock()
        self._ordered: asyncio.Task[None] | None = None

    async def next(self) -> int:
        """The next id. Raises KafkaError when no block can be taken from the store now."""
        while (producer_id := self._pop()) is None:
            await self.fill()
        return producer_id

    async def fill(self) -> None:
        """Make sure that an id is at hand. Raises KafkaError when no block can be taken from the store now."""
        async with self._refilling:
            while self._next > self._last:
                try:
                    await self._take_block()
                except (StoreError, InvalidZnodeError) as error:
                    # Kafka gives the same answer while it waits for a block: the client tries again.
                    if isinstance(error, InvalidZnodeError):
                        logger.error("%s is unreadable: %s", PRODUCER_ID_BLOCK, error)
                    raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, str(error)) from error

    def take(self) -> int | None:
        """An id without waiting, or None when none is at hand; then the next block is requested."""
        producer_id = self._pop()
        if producer_id is None and (self._ordered is None or self._ordered.done()):
            self._ordered = asyncio.ensure_future(self._fill_unasked())
        return producer_id

    def _pop(self) -> int | None:
        if self._next > self._last:
            return None
        self._next += 1
        return self._next - 1

    async def _fill_unasked(self) -> None:
        try:
            await self.fill()
        except KafkaError as error:
            logger.error("the store gave no producer ids: %s", error)
        except Exception:
            logger.exception("no block of producer ids could be taken from the store")

    async def _take_block(self) -> None:
        node = await self._store.get(PRODUCER_ID_BLOCK)
        ops, start, last = allocate_producer_ids(node, self._broker_id)
        try:
            await self._store.commit(ops)
        except StoreConflictError:
            return
        self._next, self._last = start, last
