"""Failover of partitions whose log cannot be written because the disk is full or broken.

Another replica becomes the leader, and this broker leaves the in-sync replicas, so that acks=all does not wait for it.
This broker keeps trying to follow, and joins the in-sync replicas again when it has caught up.
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

_CHECK_SECONDS = 2.0


class DiskFailover:
    def __init__(self, metadata: ClusterMetadata, replicas: Replicas, store: Store, clock: Clock) -> None:
        self._metadata = metadata
        self._replicas = replicas
        self._store = store
        self._clock = clock
        self._timer: Timer | None = None
        self._leaving: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._timer = self._clock.call_later(_CHECK_SECONDS, self._check)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._leaving is not None:
            self._leaving.cancel()

    def _check(self) -> None:
        self.start()
        if not self._replicas.all_hosted:
            self._metadata.publish()  # Retries to create the missing logs: the disk may have space again.
        if self._replicas.unserved() and (self._leaving is None or self._leaving.done()):
            self._leaving = asyncio.ensure_future(self._leave())

    async def _leave(self) -> None:
        """Hand over the partitions that have another living in-sync replica. The only in-sync replica stays leader."""
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
                logger.warning("handed over %d partitions that this broker cannot write", len(ops) - 1)
        except StoreError as error:
            logger.info("could not hand over partitions that this broker cannot write; retrying: %s", error)
