"""What nobody has to ask for: every broker wants the controller's seat when it is free, and whoever has it sees to it
that partitions have leaders.

All of it is level-triggered: it looks at the cluster as it is, decides what should be different, and writes that if the
cluster is still the one it looked at.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from ottla.cluster.failover import commits, lead_without
from ottla.cluster.image import NO_CONTROLLER
from ottla.config.topic import topic_config
from ottla.controller.membership import seek_controller_seat
from ottla.store.interface import StoreConflictError, StoreError

if TYPE_CHECKING:
    from collections.abc import Collection

    from ottla.cluster.image import ClusterImage
    from ottla.config.broker import BrokerConfig
    from ottla.controller.controller import Controller
    from ottla.env.clock import Clock
    from ottla.store.interface import Store

log = logging.getLogger("ottla.controller")

_TRY_AGAIN_SECONDS = 1.0


class ControllerDuties:
    def __init__(self, broker_id: int, controller: Controller, store: Store, clock: Clock) -> None:
        self._broker_id = broker_id
        self._controller = controller
        self._store = store
        self._clock = clock
        self._due = False
        self._working: asyncio.Task[None] | None = None
        self._stopped = False

    def start(self) -> None:
        self._controller.subscribe(self._apply)

    def stop(self) -> None:
        self._stopped = True
        if self._working is not None:
            self._working.cancel()

    def _apply(self, image: ClusterImage, config: BrokerConfig) -> None:
        if image.controller_id in (NO_CONTROLLER, self._broker_id):
            self._look()

    def _look(self) -> None:
        self._due = True
        if not self._stopped and (self._working is None or self._working.done()):
            self._working = asyncio.ensure_future(self._work())

    async def _work(self) -> None:
        while self._due:
            self._due = False
            try:
                if self._controller.image.controller_id == NO_CONTROLLER:
                    await seek_controller_seat(self._controller, self._store, self._broker_id, self._clock)
                if self._controller.image.controller_id == self._broker_id:
                    await self.elect_leaders()
            except StoreError as error:
                log.error("the cluster cannot be looked after, which will be tried again: %s", error)
                self._clock.call_later(_TRY_AGAIN_SECONDS, self._look)

    async def elect_leaders(self, stopping: Collection[int] = ()) -> None:
        """Have every partition led that can be; with `stopping`, by others than these brokers. Raises StoreError."""
        while True:
            controller = self._controller
            changes = lead_without(controller.image, self._allows_unclean, stopping)
            if not changes:
                return
            try:
                for ops in commits(controller.image, changes):
                    await self._store.commit(ops)
            except StoreConflictError:
                log.debug("the cluster changed while leaders were elected; looking again")
            else:
                log.info("%d partitions have another leader or other in-sync replicas", len(changes))
            await controller.refresh()

    def _allows_unclean(self, topic: str) -> bool:
        overrides = self._controller.image.topic_config(topic)
        return topic_config(self._controller.config, overrides).unclean_leader_election_enable
