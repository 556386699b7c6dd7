"""Allocates producer ids that are unique in the cluster. A broker takes blocks of ids from the store."""

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
    """A broker that stops loses the unused ids of its block. That is acceptable: an id has 63 bits."""

    def __init__(self, broker_id: int, store: Store) -> None:
        self._broker_id = broker_id
        self._store = store
        self._next = 0
        self._last = -1
        self._refilling = asyncio.Lock()
        self._filling: asyncio.Task[None] | None = None

    async def next(self) -> int:
        """The next id. Takes a block from the store if no id is left. Raises KafkaError if the store fails."""
        while (producer_id := self._pop()) is None:
            await self.fill()
        return producer_id

    async def fill(self) -> None:
        """Take a block from the store if no id is left. Raises KafkaError if the store fails."""
        async with self._refilling:
            while self._next > self._last:
                try:
                    await self._take_block()
                except (StoreError, InvalidZnodeError) as error:
                    # Kafka returns the same error while it waits for a block. The client retries.
                    if isinstance(error, InvalidZnodeError):
                        logger.error("%s is unreadable: %s", PRODUCER_ID_BLOCK, error)
                    raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, str(error)) from error

    def take(self) -> int | None:
        """The next id without waiting. None if no id is left; then a task takes the next block."""
        producer_id = self._pop()
        if producer_id is None and (self._filling is None or self._filling.done()):
            self._filling = asyncio.ensure_future(self._fill_in_background())
        return producer_id

    def _pop(self) -> int | None:
        if self._next > self._last:
            return None
        self._next += 1
        return self._next - 1

    async def _fill_in_background(self) -> None:
        try:
            await self.fill()
        except KafkaError as error:
            logger.error("cannot take a block of producer ids from the store: %s", error)
        except Exception:
            logger.exception("taking a block of producer ids from the store failed")

    async def _take_block(self) -> None:
        node = await self._store.get(PRODUCER_ID_BLOCK)
        ops, start, last = allocate_producer_ids(node, self._broker_id)
        try:
            await self._store.commit(ops)
        except StoreConflictError:
            return
        self._next, self._last = start, last
