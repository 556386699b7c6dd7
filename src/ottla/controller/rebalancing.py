"""Moves replicas when a broker joins or is gone for good, if `cluster.rebalance.enable` is set.

Only the controller does this. It starts a few moves at a time and decides about the next ones when these are done, from
the state that the cluster has then.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING

from ottla.client.failures import ClientError
from ottla.cluster.automatic_rebalance import RebalanceWatch, is_moving, plan_for
from ottla.cluster.elections import ElectionType
from ottla.errors import KafkaError
from ottla.model import TopicPartition
from ottla.wire.api.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.cluster.automatic_rebalance import RebalanceReason
    from ottla.cluster.image import ClusterImage
    from ottla.cluster.rebalance import Move
    from ottla.config.broker import BrokerConfig
    from ottla.env.background import Background
    from ottla.env.clock import Clock, Timer
    from ottla.metadata.cluster_metadata import ClusterMetadata
    from ottla.metadata.peers import Peers

logger = logging.getLogger("ottla.controller")

_MOVES_AT_ONCE = 5
_PAUSE_SECONDS = 1.0
"""Between two decisions: changes of one cause, such as several brokers that start, arrive together."""


class AutomaticRebalance:
    def __init__(self, metadata: ClusterMetadata, peers: Peers, clock: Clock, background: Background) -> None:
        """`background` runs the planner, which may take seconds for thousands of partitions."""
        self._metadata = metadata
        self._peers = peers
        self._clock = clock
        self._background = background
        self._watch = RebalanceWatch()
        self._moved: set[TopicPartition] = set()
        """Partitions that were moved, and may need an election at the end."""
        self._timer: Timer | None = None
        self._working: asyncio.Task[None] | None = None
        self._stopped = False

    def stop(self) -> None:
        self._stopped = True
        self._cancel_timer()
        if self._working is not None:
            self._working.cancel()

    def apply(self, image: ClusterImage, config: BrokerConfig) -> None:
        if self._stopped:
            return
        if not self._is_responsible():
            self._watch.forget()
            self._moved.clear()
            self._cancel_timer()
            return
        self._watch.observe(image, self._clock.monotonic())
        self._review_in(_PAUSE_SECONDS)

    def _is_responsible(self) -> bool:
        metadata = self._metadata
        return metadata.image.controller_id == metadata.broker_id and metadata.config.boolean(
            "cluster.rebalance.enable"
        )

    def _review_in(self, seconds: float) -> None:
        """The first of several calls counts, so that frequent changes do not delay the review."""
        if self._timer is None and not self._stopped:
            self._timer = self._clock.call_later(seconds, self._review)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @property
    def _delay_seconds(self) -> float:
        return self._metadata.config.integer("cluster.rebalance.delay.ms") / 1000

    def _review(self) -> None:
        self._timer = None
        if not self._is_responsible() or (self._working is not None and not self._working.done()):
            return
        now = self._clock.monotonic()
        reason = self._watch.reason(self._metadata.image, now, self._delay_seconds)
        if reason is not None:
            self._working = asyncio.ensure_future(self._work(reason))
        elif self._moved and not is_moving(self._metadata.image):
            self._working = asyncio.ensure_future(self._work(None))
        elif (seconds := self._watch.seconds_until_gone(now, self._delay_seconds)) is not None:
            self._review_in(max(seconds, _PAUSE_SECONDS))

    async def _work(self, reason: RebalanceReason | None) -> None:
        try:
            if reason is not None:
                await self._move_some(reason)
            else:
                await self._elect_preferred()
        except KafkaError as error:
            logger.warning("cannot rebalance the cluster; retrying: %s", error)
        except Exception:
            logger.exception("the automatic rebalance failed; it retries")
        self._review_in(_PAUSE_SECONDS)

    async def _move_some(self, reason: RebalanceReason) -> None:
        image = self._metadata.image
        sizes = await self._sizes(image)
        plan = await self._background.run(partial(plan_for, reason, image, sizes))
        if not self._is_responsible():
            return
        changes = plan.moves[:_MOVES_AT_ONCE] or plan.reorders
        if changes:
            logger.info("rebalancing (%s): starting %d of %d moves", reason, len(changes), len(plan.changes))
            await self._start(changes)
            return
        self._watch.settle(image, reason)
        if plan.unplaceable:
            logger.warning(
                "rebalancing (%s): %d partitions have more replicas than there are brokers; they stay as they are",
                reason,
                len(plan.unplaceable),
            )

    async def _elect_preferred(self) -> None:
        """All moves are done: elect the preferred leaders of the moved partitions."""
        moved, self._moved = self._moved, set()
        await self._metadata.elect_leaders(sorted(moved), ElectionType.PREFERRED)
        logger.info("rebalancing: done, %d partitions have moved", len(moved))

    async def _start(self, changes: Sequence[Move]) -> None:
        targets: dict[str, dict[int, tuple[int, ...]]] = {}
        for move in changes:
            targets.setdefault(move.partition.topic, {})[move.partition.partition] = move.after
        for topic, replicas in targets.items():
            refused = await self._metadata.alter_reassignments(topic, replicas, allow_factor_change=False)
            for partition, error in refused.items():
                logger.warning("cannot move %s-%d: %s", topic, partition, error)
            self._moved.update(TopicPartition(topic, partition) for partition in replicas if partition not in refused)

    async def _sizes(self, image: ClusterImage) -> dict[TopicPartition, int]:
        """Bytes of each partition, as far as the brokers answer. Without sizes the plan counts replicas only."""
        answers = await asyncio.gather(*(self._sizes_on(broker_id) for broker_id in image.brokers))
        sizes: dict[TopicPartition, int] = {}
        for answer in answers:
            for key, size in answer.items():
                sizes[key] = max(size, sizes.get(key, 0))
        return sizes

    async def _sizes_on(self, broker_id: int) -> dict[TopicPartition, int]:
        try:
            reply = await self._peers.call(broker_id, DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse)
        except ClientError as error:
            logger.info("broker %d does not report the sizes of its partitions: %s", broker_id, error)
            return {}
        return {
            TopicPartition(topic.name, partition.partition_index): partition.partition_size
            for directory in reply.results
            for topic in directory.topics
            for partition in topic.partitions
            if not partition.is_future_key
        }
