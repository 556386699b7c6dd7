"""The work of the controller. Every broker tries to become the controller when there is none. The controller elects
leaders, completes reassignments, deletes the topics that tools have marked, and gives leadership back to the preferred
replicas.

All of it is level-triggered: the controller looks at the cluster as it is, decides what should be different, and writes
that if the cluster is still the one it looked at.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from ottla.cluster.elections import restore_preferred
from ottla.cluster.failover import commits, lead_without, leave
from ottla.cluster.image import NO_CONTROLLER
from ottla.cluster.reassignment import complete_reassignments
from ottla.cluster.registration import resign_controller
from ottla.cluster.returning import ReturningBrokers
from ottla.cluster.topics import delete_marked_topics
from ottla.metadata.membership import elect_self_controller
from ottla.store.interface import StoreConflictError, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from ottla.cluster.image import ClusterImage
    from ottla.config.broker import BrokerConfig
    from ottla.env.clock import Clock, Timer
    from ottla.metadata.cluster_metadata import ClusterMetadata
    from ottla.model import TopicPartition
    from ottla.store.interface import Op, Store

logger = logging.getLogger("ottla.controller")

_TRY_AGAIN_SECONDS = 1.0
_GIVE_BACK_SECONDS = 1.0
"""Between the first sign that a returning broker is in sync and giving leadership back to it, so that most of its
partitions are in sync by then and move together."""
_MOST_CONFLICTS = 10
"""In a row. More of them are no race: the store will refuse the next attempt too."""


class Controller:
    def __init__(self, broker_id: int, metadata: ClusterMetadata, store: Store, clock: Clock) -> None:
        self._broker_id = broker_id
        self._metadata = metadata
        self._store = store
        self._clock = clock
        self._due = False
        self._balance_due = False
        self._balance_timer: Timer | None = None
        self._returning = ReturningBrokers()
        self._give_back_due = False
        self._give_back_timer: Timer | None = None
        self._working: asyncio.Task[None] | None = None
        self._stopped = False

    def start(self) -> None:
        self._schedule_balance()

    def stop(self) -> None:
        self._stopped = True
        for timer in (self._balance_timer, self._give_back_timer):
            if timer is not None:
                timer.cancel()
        if self._working is not None:
            self._working.cancel()

    def apply(self, image: ClusterImage, config: BrokerConfig) -> None:
        if self._stopped:
            return
        if image.controller_id in (NO_CONTROLLER, self._broker_id):
            self._look()
        if image.controller_id != self._broker_id:
            self._returning.forget()
            return
        self._returning.observe(image)
        if self._returning.are_owed and self._give_back_timer is None and self._balances:
            self._give_back_timer = self._clock.call_later(_GIVE_BACK_SECONDS, self._give_back)

    def _schedule_balance(self) -> None:
        seconds = self._metadata.config.integer("leader.imbalance.check.interval.seconds")
        self._balance_timer = self._clock.call_later(seconds, self._balance)

    def _balance(self) -> None:
        self._schedule_balance()
        if self._balances and self._metadata.image.controller_id == self._broker_id:
            self._balance_due = True
            self._look()

    def _give_back(self) -> None:
        self._give_back_timer = None
        if self._metadata.image.controller_id == self._broker_id:
            self._give_back_due = True
            self._look()

    @property
    def _balances(self) -> bool:
        return self._metadata.config.boolean("auto.leader.rebalance.enable")

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
                    if self._metadata.image.controller_id == NO_CONTROLLER:
                        self._clock.call_later(_TRY_AGAIN_SECONDS, self._look)
                if self._metadata.image.controller_id == self._broker_id:
                    await self._look_after_cluster()
            except StoreError as error:
                logger.error("the controller cannot do its work, and tries again: %s", error)
                self._clock.call_later(_TRY_AGAIN_SECONDS, self._look)
            except Exception:
                logger.exception("the controller failed, and tries again")
                self._clock.call_later(_TRY_AGAIN_SECONDS, self._look)

    async def _look_after_cluster(self) -> None:
        await self.elect_leaders()
        await self._write_until_stable(complete_reassignments, "reassignments were completed")
        if self._balance_due:
            self._balance_due = False
            await self._write_until_stable(_balance_leaders, "preferred leaders were restored")
        if self._give_back_due:
            self._give_back_due = False
            await self._give_leaders_back()
        await self._write_until_stable(self._delete_marked_topics, "topics that were marked for deletion are deleted")

    async def _give_leaders_back(self) -> None:
        given: set[TopicPartition] = set()

        def decide(image: ClusterImage) -> Iterable[list[Op]]:
            changes = self._returning.due(image)
            given.update(partition for partition, _ in changes)
            return commits(image, changes)

        await self._write_until_stable(decide, "brokers that came back lead their partitions again")
        self._returning.settle(self._metadata.image, given)

    def _delete_marked_topics(self, image: ClusterImage) -> Iterable[list[Op]]:
        return delete_marked_topics(image, enabled=self._metadata.config.boolean("delete.topic.enable"))

    async def resign(self) -> None:
        """Stop, and let another broker become the controller, if there is one. Raises StoreError."""
        self.stop()
        image = self._metadata.image
        if image.controller_id == self._broker_id and image.brokers.keys() - {self._broker_id}:
            await self._store.commit(resign_controller(image))
            await self._metadata.refresh()
            logger.info("this broker is not the controller any more, since it stops")

    async def leave_in_sync(self) -> None:
        """Remove this broker from the in-sync replicas of all partitions that have others. Raises StoreError."""
        await self._write_until_stable(
            lambda image: commits(image, leave(image, self._broker_id)), "this broker is in sync with nobody"
        )

    async def elect_leaders(self, stopping: Collection[int] = ()) -> None:
        """Elect a leader for every partition that can have one, none of them `stopping`. Raises StoreError."""

        def decide(image: ClusterImage) -> Iterable[list[Op]]:
            return commits(image, lead_without(image, self._metadata.allows_unclean, stopping))

        await self._write_until_stable(decide, "partitions have other leaders or other in-sync replicas")

    async def _write_until_stable(self, decide: Callable[[ClusterImage], Iterable[list[Op]]], what: str) -> None:
        """Decide and write until there is nothing left to decide. Raises StoreError."""
        conflicts = 0
        while True:
            try:
                written = 0
                for ops in decide(self._metadata.image):
                    await self._store.commit(ops)
                    written += 1
                if not written:
                    return
            except StoreConflictError:
                logger.debug("the cluster changed while the controller decided; it decides again")
                conflicts += 1
                if conflicts == _MOST_CONFLICTS:
                    raise
            else:
                conflicts = 0
                logger.info("%s", what)
            await self._metadata.refresh()


def _balance_leaders(image: ClusterImage) -> Iterable[list[Op]]:
    return commits(image, restore_preferred(image))
