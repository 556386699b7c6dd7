"""The controller. If the cluster has none, every broker tries to become the controller. The controller elects leaders,
completes reassignments, deletes topics that tools have marked, and restores preferred leaders.

All its work is level-triggered: the controller makes its decisions from the current image, and writes them by
compare-and-set. A decision that was based on an old image fails, and the controller decides again.
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

_RETRY_SECONDS = 1.0
_RESTORE_DELAY_SECONDS = 1.0
"""The delay before a broker that has registered again gets its leaderships back. Most of its partitions are in sync by
then and move in one commit."""
_MAX_CONFLICTS = 10
"""Conflicts in a row before an attempt fails. More of them are no race: the next attempt would fail too."""


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
        self._restore_due = False
        self._restore_timer: Timer | None = None
        self._working: asyncio.Task[None] | None = None
        self._stopped = False

    def start(self) -> None:
        self._schedule_balance()

    def stop(self) -> None:
        self._stopped = True
        for timer in (self._balance_timer, self._restore_timer):
            if timer is not None:
                timer.cancel()
        if self._working is not None:
            self._working.cancel()

    def apply(self, image: ClusterImage, config: BrokerConfig) -> None:
        if self._stopped:
            return
        if image.controller_id in (NO_CONTROLLER, self._broker_id):
            self._schedule_work()
        if image.controller_id != self._broker_id:
            self._returning.forget()
            return
        self._returning.observe(image)
        if self._returning.are_owed and self._restore_timer is None and self._balances:
            self._restore_timer = self._clock.call_later(_RESTORE_DELAY_SECONDS, self._restore_returned)

    def _schedule_balance(self) -> None:
        seconds = self._metadata.config.integer("leader.imbalance.check.interval.seconds")
        self._balance_timer = self._clock.call_later(seconds, self._balance)

    def _balance(self) -> None:
        self._schedule_balance()
        if self._balances and self._metadata.image.controller_id == self._broker_id:
            self._balance_due = True
            self._schedule_work()

    def _restore_returned(self) -> None:
        self._restore_timer = None
        if self._metadata.image.controller_id == self._broker_id:
            self._restore_due = True
            self._schedule_work()

    @property
    def _balances(self) -> bool:
        return self._metadata.config.boolean("auto.leader.rebalance.enable")

    def _schedule_work(self) -> None:
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
                        self._clock.call_later(_RETRY_SECONDS, self._schedule_work)
                if self._metadata.image.controller_id == self._broker_id:
                    await self._run_duties()
            except StoreError as error:
                logger.error("the store failed; the controller retries: %s", error)
                self._clock.call_later(_RETRY_SECONDS, self._schedule_work)
            except Exception:
                logger.exception("the controller failed; it retries")
                self._clock.call_later(_RETRY_SECONDS, self._schedule_work)

    async def _run_duties(self) -> None:
        await self.elect_leaders()
        await self._write_until_stable(complete_reassignments, "completed reassignments")
        if self._balance_due:
            self._balance_due = False
            await self._write_until_stable(_balance_leaders, "restored preferred leaders")
        if self._restore_due:
            self._restore_due = False
            await self._restore_returned_leaders()
        await self._write_until_stable(self._delete_marked_topics, "deleted topics that were marked for deletion")

    async def _restore_returned_leaders(self) -> None:
        given: set[TopicPartition] = set()

        def decide(image: ClusterImage) -> Iterable[list[Op]]:
            changes = self._returning.due(image)
            given.update(partition for partition, _ in changes)
            return commits(image, changes)

        await self._write_until_stable(decide, "restored the leaderships of brokers that registered again")
        self._returning.settle(self._metadata.image, given)

    def _delete_marked_topics(self, image: ClusterImage) -> Iterable[list[Op]]:
        return delete_marked_topics(image, enabled=self._metadata.config.boolean("delete.topic.enable"))

    async def resign(self) -> None:
        """Stop. If there are other brokers, resign so that one of them becomes the controller. Raises StoreError."""
        self.stop()
        image = self._metadata.image
        if image.controller_id == self._broker_id and image.brokers.keys() - {self._broker_id}:
            await self._store.commit(resign_controller(image))
            await self._metadata.refresh()
            logger.info("this broker resigned as the controller because it stops")

    async def leave_in_sync(self) -> None:
        """Remove this broker from the ISR of all partitions that have other in-sync replicas. Raises StoreError."""
        await self._write_until_stable(
            lambda image: commits(image, leave(image, self._broker_id)), "removed this broker from the in-sync replicas"
        )

    async def elect_leaders(self, stopping: Collection[int] = ()) -> None:
        """Elect a leader for every partition that needs one, but no broker that is `stopping`. Raises StoreError."""

        def decide(image: ClusterImage) -> Iterable[list[Op]]:
            return commits(image, lead_without(image, self._metadata.allows_unclean, stopping))

        await self._write_until_stable(decide, "changed leaders or in-sync replicas of partitions")

    async def _write_until_stable(self, decide: Callable[[ClusterImage], Iterable[list[Op]]], message: str) -> None:
        """Decide and write until a decision has no writes. Logs the message after writes. Raises StoreError."""
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
                logger.debug("the cluster changed during a decision; the controller decides again")
                conflicts += 1
                if conflicts == _MAX_CONFLICTS:
                    raise
            else:
                conflicts = 0
                logger.info("%s", message)
            await self._metadata.refresh()


def _balance_leaders(image: ClusterImage) -> Iterable[list[Op]]:
    return commits(image, restore_preferred(image))
