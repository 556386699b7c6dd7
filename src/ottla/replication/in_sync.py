"""Keeps the store's lists of in-sync replicas true, for the partitions that this broker leads."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING

from ottla.errors import KafkaError

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig
    from ottla.env.clock import Clock, Timer
    from ottla.replication.followers import Followers
    from ottla.replication.partition import Partition

logger = logging.getLogger("ottla.replicas")

AlterIsr = Callable[["Partition", frozenset[int]], Awaitable[None]]
"""Has the store list these followers as in sync, if nobody has changed the partition's state since this leader looked.

Raises KafkaError, after which nobody knows what the store lists."""


class InSyncReplicas:
    """Followers join when they have caught up, and are let go when they have not for `replica.lag.time.max.ms`."""

    def __init__(self, clock: Clock, config: Callable[[], BrokerConfig], alter_isr: AlterIsr) -> None:
        self._clock = clock
        self._config = config
        self._alter_isr = alter_isr
        self._timer: Timer | None = None
        self._asking: set[asyncio.Task[None]] = set()
        self._open: set[Partition] = set()

    def start(self, partitions: Iterable[Partition]) -> None:
        """Review these partitions from time to time; they may become others."""
        self._schedule(partitions)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for task in self._asking:
            task.cancel()

    def _schedule(self, partitions: Iterable[Partition]) -> None:
        self._timer = self._clock.call_later(self._max_lag / 2, self._review_all, partitions)

    @property
    def _max_lag(self) -> float:
        return self._config().integer("replica.lag.time.max.ms") / 1000

    def _review_all(self, partitions: Iterable[Partition]) -> None:
        for partition in partitions:
            self.review(partition)
        self._schedule(partitions)

    def review(self, partition: Partition) -> None:
        """Have the store list the followers that are in sync, if it lists others.

        If the reply to an ISR change was lost, the change is sent again; compare-and-set refuses the second one if the
        first was applied.
        """
        followers = partition.followers
        if followers is None or partition in self._open:
            return
        wanted = followers.wanted(
            partition.log.end_offset, partition.needed_end, self._clock.monotonic(), self._max_lag
        )
        if wanted != followers.in_sync:
            followers.propose(wanted)
            self._open.add(partition)
            task = asyncio.ensure_future(self._ask(partition, followers, wanted))
            self._asking.add(task)
            task.add_done_callback(self._asking.discard)

    async def _ask(self, partition: Partition, followers: Followers, wanted: frozenset[int]) -> None:
        """The image, when it shows another state, says what became of the proposal; until then it counts."""
        gone, joined = followers.in_sync - wanted, wanted - followers.in_sync
        try:
            if partition.followers is not followers or followers.proposed is None:
                return  # Another state came in between: what is wanted now is decided anew.
            await self._alter_isr(partition, wanted)
        except KafkaError as error:
            # Even if the store has refused, an earlier question may have been heard: only what it lists next tells.
            logger.info(
                "%s: its in-sync replicas could not be changed, which will be tried again: %s", partition, error
            )
        else:
            for what, who in (("no longer in sync", gone), ("in sync again", joined)):
                if who:
                    logger.info("%s: broker %s is %s", partition, ", ".join(map(str, sorted(who))), what)
        finally:
            self._open.discard(partition)
