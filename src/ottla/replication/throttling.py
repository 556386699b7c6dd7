"""Limits the bytes per second of replication, so that moving partitions leaves bandwidth for clients (KIP-73).

The topic settings name the throttled replicas, and the broker settings the rates. Leaders and followers have a rate of
their own each. Only replicas that are not in sync are throttled: an in-sync replica would fall out of the ISR.

`cluster.rebalance.throttled.rate` limits followers that a reassignment adds, without any setting of the topic.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig
    from ottla.config.topic import TopicConfig
    from ottla.env.clock import Clock
    from ottla.replication.partition import Partition

ALL_REPLICAS = "*"


class ByteRate:
    """Measures bytes per second over the last samples, and compares them with the configured rate."""

    def __init__(self, rate_key: str, window_key: str, clock: Clock, config: Callable[[], BrokerConfig]) -> None:
        """`window_key` is the prefix of the two settings for the number of samples and the length of a sample."""
        self._rate_key = rate_key
        self._window_key = window_key
        self._clock = clock
        self._config = config
        self._samples: deque[tuple[float, int]] = deque()
        """The start time and the bytes of each sample."""

    def record(self, size: int) -> None:
        now = self._clock.monotonic()
        if not self._samples or now >= self._samples[-1][0] + self._window:
            self._samples.append((now, size))
        else:
            began, before = self._samples[-1]
            self._samples[-1] = began, before + size

    def is_exceeded(self) -> bool:
        limit = self._limit()
        if limit is None:
            return False
        now = self._clock.monotonic()
        oldest = now - self._window * self._config().integer(f"{self._window_key}.num")
        while self._samples and self._samples[0][0] < oldest:
            self._samples.popleft()
        if not self._samples:
            return False
        elapsed = max(now - self._samples[0][0], self._window)
        return sum(size for _, size in self._samples) / elapsed > limit

    def _limit(self) -> int | None:
        return self._configured(self._rate_key)

    def _configured(self, key: str) -> int | None:
        limit = self._config().get(key)
        assert limit is None or isinstance(limit, int)
        return limit

    @property
    def _window(self) -> float:
        return float(self._config().integer(f"{self._window_key}.size.seconds"))


class ReplicationThrottle(ByteRate):
    """The throttle for one role: for the bytes that this broker sends as a leader, or fetches as a follower."""

    def __init__(
        self,
        broker_id: int,
        rate_key: str,
        replicas: Callable[[TopicConfig], tuple[str, ...]],
        clock: Clock,
        config: Callable[[], BrokerConfig],
    ) -> None:
        super().__init__(rate_key, "replication.quota.window", clock, config)
        self._broker_id = broker_id
        self._replicas = replicas

    def concerns(self, partition: Partition) -> bool:
        """Whether the topic settings name this broker's replica of the partition."""
        named = self._replicas(partition.config)
        if not named:
            return False
        return ALL_REPLICAS in named or f"{partition.topic_partition.partition}:{self._broker_id}" in named


class FollowerThrottle(ReplicationThrottle):
    def concerns(self, partition: Partition) -> bool:
        return partition.is_being_added or super().concerns(partition)

    def _limit(self) -> int | None:
        own = super()._limit()
        return self._configured("cluster.rebalance.throttled.rate") if own is None else own


class ReplicationThrottles:
    def __init__(self, broker_id: int, clock: Clock, config: Callable[[], BrokerConfig]) -> None:
        self.as_leader = ReplicationThrottle(
            broker_id,
            "leader.replication.throttled.rate",
            lambda topic: topic.leader_replication_throttled_replicas,
            clock,
            config,
        )
        self.as_follower = FollowerThrottle(
            broker_id,
            "follower.replication.throttled.rate",
            lambda topic: topic.follower_replication_throttled_replicas,
            clock,
            config,
        )
