"""Keeps the lists of in-sync replicas in the store up to date, for the partitions that this broker leads."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING

from ottla.env.clock import SHORTEST_PERIOD_SECONDS
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


_REVIEWS_AT_ONCE = 500
"""Number of reviews after which the event loop does other work."""

_REQUESTS_AT_ONCE = 200
"""The most changes that wait for the store. After a restart of a broker every partition needs one, and the replies to
all requests that wait come together."""


class InSyncReplicas:
    """Followers join when they have caught up, and leave when they have been behind for `replica.lag.time.max.ms`."""

    def __init__(self, clock: Clock, config: Callable[[], BrokerConfig], alter_isr: AlterIsr) -> None:
        self._clock = clock
        self._config = config
        self._alter_isr = alter_isr
        self._timer: Timer | None = None
        self._requests: set[asyncio.Task[None]] = set()
        self._queue: deque[Partition] = deque()
        """The partitions to review."""
        self._pending: set[Partition] = set()
        """The partitions in the queue, and those with a request."""
        self._turn: Timer | None = None
        """The next call of `_review_some`."""

    def start(self, partitions: Iterable[Partition]) -> None:
        """Review all partitions of this collection periodically. The collection may change."""
        self._schedule(partitions)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._turn is not None:
            self._turn.cancel()
        self._queue.clear()
        for task in self._requests:
            task.cancel()

    def _schedule(self, partitions: Iterable[Partition]) -> None:
        delay = max(self._max_lag / 2, SHORTEST_PERIOD_SECONDS)
        self._timer = self._clock.call_later(delay, self._review_all, partitions)

    @property
    def _max_lag(self) -> float:
        return self._config().integer("replica.lag.time.max.ms") / 1000

    def _review_all(self, partitions: Iterable[Partition]) -> None:
        queued = [partition for partition in partitions if partition not in self._pending]
        self._queue.extend(queued)
        self._pending.update(queued)
        self._review_some()
        self._schedule(partitions)

    def _review_some(self) -> None:
        """Review partitions of the queue. A request that ends, or the next turn, continues."""
        self._turn = None
        for _ in range(min(len(self._queue), _REVIEWS_AT_ONCE)):
            if len(self._requests) >= _REQUESTS_AT_ONCE:
                return
            partition = self._queue.popleft()
            self._pending.discard(partition)
            self._review_now(partition)
        self._continue()

    def _continue(self) -> None:
        if self._queue and self._turn is None:
            self._turn = self._clock.call_later(0.0, self._review_some)

    def review(self, partition: Partition) -> None:
        """Review a partition now, or later if too many changes wait for the store."""
        if partition in self._pending:
            return
        if len(self._requests) < _REQUESTS_AT_ONCE:
            self._review_now(partition)
        else:
            self._pending.add(partition)
            self._queue.append(partition)

    def _review_now(self, partition: Partition) -> None:
        """If the store lists other followers as in sync, send an ISR change to the store.

        If the reply to a change was lost, the change is sent again. Compare-and-set rejects the second change if the
        first one was applied.
        """
        followers = partition.followers
        if followers is None or partition.is_offline:
            return  # The topic may have been deleted while the partition was in the queue.
        wanted = followers.wanted(
            partition.log.end_offset, partition.needed_end, self._clock.monotonic(), self._max_lag
        )
        if wanted != followers.in_sync:
            followers.propose(wanted)
            self._pending.add(partition)
            task = asyncio.ensure_future(self._alter(partition, followers, wanted))
            self._requests.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._requests.discard(task)
        self._continue()

    async def _alter(self, partition: Partition, followers: Followers, wanted: frozenset[int]) -> None:
        """Send one change. The proposal counts until the image shows a new state, whatever the reply says."""
        gone, joined = followers.in_sync - wanted, wanted - followers.in_sync
        try:
            if partition.followers is not followers or followers.proposed is None:
                return  # The state has changed meanwhile. The next review decides again.
            await self._alter_isr(partition, wanted)
        except KafkaError as error:
            # The store has rejected this change, but it may have applied an earlier one whose reply was lost. So the
            # proposal stays until the image shows a new state.
            logger.info("%s: cannot change the in-sync replicas, will retry: %s", partition, error)
        else:
            for what, who in (("no longer in sync", gone), ("in sync again", joined)):
                if who:
                    logger.info("%s: broker %s is %s", partition, ", ".join(map(str, sorted(who))), what)
        finally:
            self._pending.discard(partition)
