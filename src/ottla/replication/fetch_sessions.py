"""Fetch sessions (KIP-227): the broker stores which partitions a client fetches. Each request names only the partitions
that changed, and each reply has only the partitions with new data.
"""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, TypeAlias

from ottla.errors import ErrorCode, KafkaError
from ottla.model import NO_LEADER_EPOCH, NO_OFFSET

if TYPE_CHECKING:
    from ottla.env.clock import Clock
    from ottla.model import TopicId
    from ottla.replication.partition import Partition

SESSIONLESS = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
_MAX_EPOCH = 2**31 - 1
_MIN_EVICTION_SECONDS = 120.0

Key: TypeAlias = "tuple[str | TopicId, int]"
"""A partition as the client names it: by topic name, or by topic id from Fetch version 13 on."""


class FetchPartition:
    """One partition that a client fetches, and the state in the last reply about it."""

    __slots__ = (
        "fetch_offset",
        "key",
        "last_fetched_epoch",
        "leader_epoch",
        "log_start_offset",
        "max_bytes",
        "partition",
        "told",
    )

    def __init__(
        self,
        key: Key,
        fetch_offset: int,
        max_bytes: int,
        leader_epoch: int,
        last_fetched_epoch: int = NO_LEADER_EPOCH,
        log_start_offset: int = NO_OFFSET,
    ) -> None:
        self.key = key
        self.fetch_offset = fetch_offset
        self.max_bytes = max_bytes
        self.leader_epoch = leader_epoch
        self.last_fetched_epoch = last_fetched_epoch
        self.log_start_offset = log_start_offset
        """The log start offset of a follower's own log."""
        self.told: tuple[int, int] | None = None
        """High watermark and log start offset in the last reply; None if no reply has had this partition."""
        self.partition: Partition | None = None
        """The replica that was read for a follower; None if the follower's last request has named the partition."""


class SingleFetch:
    """A fetch without a session. The reply has all its partitions."""

    __slots__ = ("partitions",)

    id = SESSIONLESS
    full = True

    def __init__(self, partitions: list[FetchPartition]) -> None:
        self.partitions = partitions

    def __iter__(self) -> Iterator[FetchPartition]:
        return iter(self.partitions)

    def has_news(self, partition: FetchPartition, high_watermark: int, log_start: int, urgent: bool) -> bool:
        return True

    def served(self, key: Key) -> None:
        """Without a session there is no order to keep."""


class FetchSession:
    """The partitions that a client fetches with each request."""

    __slots__ = ("by_topic_id", "epoch", "full", "id", "last_used", "partitions")

    def __init__(self, session_id: int, partitions: Iterable[FetchPartition], by_topic_id: bool, now: float) -> None:
        self.id = session_id
        self.epoch = INITIAL_EPOCH + 1
        self.partitions = {partition.key: partition for partition in partitions}
        self.by_topic_id = by_topic_id
        self.last_used = now
        self.full = True
        """True while the reply must list every partition."""

    def __iter__(self) -> Iterator[FetchPartition]:
        return iter(self.partitions.values())

    def has_news(self, partition: FetchPartition, high_watermark: int, log_start: int, urgent: bool) -> bool:
        """Whether the reply must have this partition. Stores the state for the next reply. `urgent` is set if there are
        records or an error."""
        told = (high_watermark, log_start)
        news = self.full or urgent or partition.told != told
        partition.told = told
        return news

    def served(self, key: Key) -> None:
        """Move a partition that got records to the end, so that all partitions get records despite the byte limit."""
        self.partitions[key] = self.partitions.pop(key)

    def update(self, partitions: Iterable[FetchPartition], forgotten: Iterable[Key]) -> None:
        for partition in partitions:
            known = self.partitions.get(partition.key)
            if known is None:
                self.partitions[partition.key] = partition
            else:
                known.fetch_offset = partition.fetch_offset
                known.max_bytes = partition.max_bytes
                known.leader_epoch = partition.leader_epoch
                known.last_fetched_epoch = partition.last_fetched_epoch
                known.log_start_offset = partition.log_start_offset
                known.partition = None
        for key in forgotten:
            self.partitions.pop(key, None)


AnyFetch: TypeAlias = FetchSession | SingleFetch


class FetchSessions:
    """All sessions of a broker, at most `slots`. A new session evicts the least recently used one if that is idle."""

    def __init__(self, clock: Clock, source: random.Random, slots: int) -> None:
        self._clock = clock
        self._random = source
        self._slots = slots
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(
        self,
        session_id: int,
        epoch: int,
        partitions: list[FetchPartition],
        forgotten: list[Key],
        by_topic_id: bool,
    ) -> AnyFetch:
        """Create, update or end the session of a request, and return the fetch to serve. Raises KafkaError."""
        if epoch == FINAL_EPOCH:
            self._sessions.pop(session_id, None)
            return _single(partitions)
        now = self._clock.monotonic()
        if epoch == INITIAL_EPOCH:
            self._sessions.pop(session_id, None)
            return self._create(partitions, by_topic_id, now) if partitions else _single(partitions)
        session = self._sessions.get(session_id)
        if session is None:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != epoch:
            raise KafkaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.by_topic_id != by_topic_id:
            raise KafkaError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        session.epoch = 1 if epoch == _MAX_EPOCH else epoch + 1
        session.full = False
        session.update(partitions, forgotten)
        session.last_used = now
        self._sessions.move_to_end(session_id)
        if not session.partitions:
            del self._sessions[session_id]
            session.id = SESSIONLESS
        return session

    def _create(self, partitions: list[FetchPartition], by_topic_id: bool, now: float) -> AnyFetch:
        if len(self._sessions) >= self._slots and not self._evict(now):
            return _single(partitions)
        session_id = self._random.randrange(1, 2**31)
        while session_id in self._sessions:
            session_id = self._random.randrange(1, 2**31)
        session = FetchSession(session_id, partitions, by_topic_id, now)
        self._sessions[session_id] = session
        return session

    def _evict(self, now: float) -> bool:
        if not self._sessions:
            return False
        oldest = next(iter(self._sessions.values()))
        if now - oldest.last_used < _MIN_EVICTION_SECONDS:
            return False
        del self._sessions[oldest.id]
        return True


def _single(partitions: list[FetchPartition]) -> SingleFetch:
    """If a request names a partition twice, the last one counts, as in a session."""
    if len(partitions) > 1:
        partitions = list({partition.key: partition for partition in partitions}.values())
    return SingleFetch(partitions)
