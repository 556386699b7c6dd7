"""What nobody has to ask for: every broker wants the controller's seat when it is free, and whoever has it sees to it
that partitions have leaders, that those which move arrive, and that leadership goes back to the preferred replicas.

All of it is level-triggered: it looks at the cluster as it is, decides what should be different, and writes that if the
cluster is still the one it looked at.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from ottla.cluster.elections import restore_preferred
from ottla.cluster.failover import commits, lead_without, leave
from ottla.cluster.image import NO_CONTROLLER
from ottla.cluster.reassignment import complete_reassignments
from ottla.metadata.membership import elect_self_controller
from ottla.store.interface import StoreConflictError, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from ottla.cluster.image import ClusterImage
    from ottla.config.broker import BrokerConfig
    from ottla.env.clock import Clock, Timer
    from ottla.metadata.cluster_metadata import ClusterMetadata
    from ottla.store.interface import Op, Store

logger = logging.getLogger("ottla.controller")

_TRY_AGAIN_SECONDS = 1.0


class Controller:
    def __init__(self, broker_id: int, metadata: ClusterMetadata, store: Store, clock: Clock) -> None:
        self._broker_id = broker_id
        self._metadata = metadata
        self._store = store
        self._clock = clock
        self._due = False
        self._balance_due = False
        self._balance_timer: Timer | None = None
        self._working: asyncio.Task[None] | None = None
        self._stopped = False

    def start(self) -> None:
        self._schedule_balance()

    def stop(self) -> None:
        self._stopped = True
        if self._balance_timer is not None:
            self._balance_timer.cancel()
        if self._working is not None:
            self._working.cancel()

    def apply(self, image: ClusterImage, config: BrokerConfig) -> None:
        if image.controller_id in (NO_CONTROLLER, self._broker_id):
            self._look()

    def _schedule_balance(self) -> None:
        seconds = self._metadata.config.integer("leader.imbalance.check.interval.seconds")
        self._balance_timer = self._clock.call_later(seconds, self._balance)

    def _balance(self) -> None:
        self._schedule_balance()
        enabled = self._metadata.config.boolean("auto.leader.rebalance.enable")
        if enabled and self._metadata.image.controller_id == self._broker_id:
            self._balance_due = True
            self._look()

    def _look(self) -> None:
        self._due = True
        if not self._stopped and (self._working is None or self._working.done()):
            self._working = asyncio.ensure_future(self._work())

    async def _work(self) -> None:
        while self._due:
            self._due = False
            try:
                if self._metadata.image.controller_id == NO_CONTROLLER:
                    await elect_self_controller(self._metadata, self._store, self._broker_id, self._clock)
                if self._metadata.image.controller_id == self._broker_id:
                    await self._look_after_cluster()
            except StoreError as error:
                logger.error("the cluster cannot be looked after, which will be tried again: %s", error)
                self._clock.call_later(_TRY_AGAIN_SECONDS, self._look)

    async def _look_after_cluster(self) -> None:
        await self.elect_leaders()
        await self._write_until_stable(complete_reassignments, "reassignments were completed")
        if self._balance_due:
            self._balance_due = False
            await self._write_until_stable(_balance_leaders, "preferred leaders were restored")

    async def leave_in_sync(self) -> None:
        """Have this broker counted as in sync nowhere that others are. Raises StoreError."""
        await self._write_until_stable(
            lambda image: commits(image, leave(image, self._broker_id)), "this broker is in sync with nobody"
        )

    async def elect_leaders(self, stopping: Collection[int] = ()) -> None:
        """Have every partition led that can be; with `stopping`, by others than these brokers. Raises StoreError."""

        def decide(image: ClusterImage) -> Iterable[list[Op]]:
            return commits(image, lead_without(image, self._metadata.allows_unclean, stopping))

        await self._write_until_stable(decide, "partitions have other leaders or other in-sync replicas")

    async def _write_until_stable(self, decide: Callable[[ClusterImage], Iterable[list[Op]]], what: str) -> None:
        """Decide and write until there is nothing left to decide."""
        while True:
            try:
                written = 0
                for ops in decide(self._metadata.image):
                    await self._store.commit(ops)
                    written += 1
                if not written:
                    return
            except StoreConflictError:
                logger.debug("the cluster changed while it was looked after; looking again")
            else:
                logger.info("%s", what)
            await self._metadata.refresh()


def _balance_leaders(image: ClusterImage) -> Iterable[list[Op]]:
    return commits(image, restore_preferred(image))
