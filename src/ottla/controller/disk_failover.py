"""Failover of partitions whose log cannot be written because the disk is full or broken.

Another replica becomes the leader, and this broker leaves the in-sync replicas, so that acknowledgements do not wait
for it. This broker keeps trying to follow, and is in sync again when it has caught up.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from ottla.cluster.failover import commits, leave
from ottla.store.interface import StoreError

if TYPE_CHECKING:
    from ottla.env.clock import Clock, Timer
    from ottla.metadata.cluster_metadata import ClusterMetadata
    from ottla.replication.replicas import Replicas
    from ottla.store.interface import Store

logger = logging.getLogger("ottla.controller")

_LOOK_EVERY_SECONDS = 2.0


class DiskFailover:
    def __init__(self, metadata: ClusterMetadata, replicas: Replicas, store: Store, clock: Clock) -> None:
        self._metadata = metadata
        self._replicas = replicas
        self._store = store
        self._clock = clock
        self._timer: Timer | None = None
        self._leaving: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._timer = self._clock.call_later(_LOOK_EVERY_SECONDS, self._look)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._leaving is not None:
            self._leaving.cancel()

    def _look(self) -> None:
        self.start()
        if not self._replicas.all_hosted:
            self._metadata.publish()  # The disk may have space again, so try to create the missing logs.
        if self._replicas.unserved() and (self._leaving is None or self._leaving.done()):
            self._leaving = asyncio.ensure_future(self._leave())

    async def _leave(self) -> None:
        """Only where another living replica is in sync. The only replica in sync stays the leader."""
        image = self._metadata.image
        living = image.brokers.keys() - {self._metadata.broker_id}
        changes = [
            (partition, state)
            for partition, state in leave(image, self._metadata.broker_id)
            if partition in self._replicas.unserved() and state.leader in living
        ]
        try:
            for ops in commits(image, changes):
                await self._store.commit(ops)
                logger.warning("%d partitions that cannot be written here are left to others", len(ops) - 1)
        except StoreError as error:
            logger.info("others could not be made to lead, which will be tried again: %s", error)
