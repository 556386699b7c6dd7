"""Keeps the lists of in-sync replicas in the store up to date, for the partitions that this broker leads."""

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
"""Writes these followers as in sync to the store, unless the partition's state has changed since this leader read it.

After a KafkaError it is unknown whether the write was applied."""


class InSyncReplicas:
    """Followers join when they have caught up, and leave when they have been behind for `replica.lag.time.max.ms`."""

    def __init__(self, clock: Clock, config: Callable[[], BrokerConfig], alter_isr: AlterIsr) -> None:
        self._clock = clock
        self._config = config
        self._alter_isr = alter_isr
        self._timer: Timer | None = None
        self._requests: set[asyncio.Task[None]] = set()
        self._pending: set[Partition] = set()

    def start(self, partitions: Iterable[Partition]) -> None:
        """Review all partitions of this collection from time to time. The collection may change."""
        self._schedule(partitions)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for task in self._requests:
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
        if followers is None or partition in self._pending:
            return
        wanted = followers.wanted(
            partition.log.end_offset, partition.needed_end, self._clock.monotonic(), self._max_lag
        )
        if wanted != followers.in_sync:
            followers.propose(wanted)
            self._pending.add(partition)
            task = asyncio.ensure_future(self._alter(partition, followers, wanted))
            self._requests.add(task)
            task.add_done_callback(self._requests.discard)

    async def _alter(self, partition: Partition, followers: Followers, wanted: frozenset[int]) -> None:
        """Send one change. The proposal counts until the image shows a new state, whatever the reply says."""
        gone, joined = followers.in_sync - wanted, wanted - followers.in_sync
        try:
            if partition.followers is not followers or followers.proposed is None:
                return  # The state has changed meanwhile. The next review decides again.
            await self._alter_isr(partition, wanted)
        except KafkaError as error:
            # Although the store has refused this change, it may have applied an earlier one whose reply was lost. So
            # the proposal stays until the image shows a new state.
            logger.info("%s: cannot change the in-sync replicas, will retry: %s", partition, error)
        else:
            for what, who in (("no longer in sync", gone), ("in sync again", joined)):
                if who:
                    logger.info("%s: broker %s is %s", partition, ", ".join(map(str, sorted(who))), what)
        finally:
            self._pending.discard(partition)
