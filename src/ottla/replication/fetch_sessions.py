"""Fetch sessions (KIP-227): the broker stores which partitions a client fetches. Each request names only the partitions
that changed, and each reply has only the partitions with new data.
"""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeAlias

from ottla.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.env.clock import Clock
    from ottla.model import TopicId
    from ottla.replication.partition import Partition
    from ottla.replication.reads import PartitionRead

SESSIONLESS = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
_MAX_EPOCH = 2**31 - 1
_MIN_EVICTION_SECONDS = 120.0

Key: TypeAlias = "tuple[str | TopicId, int]"
"""A partition as the client names it: by topic name, or by topic id from Fetch version 13 on."""


Wanted: TypeAlias = "tuple[int, int, int, int, int, int, bytes, int]"
"""A partition of a Fetch request, as it was decoded: partition, current leader epoch, fetch offset, last fetched epoch,
log start offset (of a follower), max bytes, and two fields that only Kafka's controllers use."""


class SingleFetch:
    """A fetch without a session. The reply has all its partitions."""

    __slots__ = ("partitions",)

    id = SESSIONLESS
    full = True

    def __init__(self, partitions: list[tuple[Key, Wanted]]) -> None:
        self.partitions = partitions

    def wanted(self) -> Iterable[tuple[Key, Wanted]]:
        return self.partitions


class FetchSession:
    """The partitions that a client fetches with each request."""

    __slots__ = ("_told", "by_topic_id", "epoch", "full", "id", "last_used", "partitions", "read_from")

    def __init__(
        self, session_id: int, partitions: Iterable[tuple[Key, Wanted]], by_topic_id: bool, now: float
    ) -> None:
        self.id = session_id
        self.epoch = INITIAL_EPOCH + 1
        self.partitions = dict(partitions)
        self.by_topic_id = by_topic_id
        self.last_used = now
        self.full = True
        """True while the reply must list every partition."""
        self._told: dict[Key, tuple[int, int]] = {}
        """High watermark and log start offset of each partition in the last reply that had it."""
        self.read_from: dict[Key, Partition] = {}
        """The replicas that were read for a follower, without those that its last request has named."""

    def wanted(self) -> Iterable[tuple[Key, Wanted]]:
        return self.partitions.items()

    def told(self, key: Key) -> tuple[int, int] | None:
        """High watermark and log start offset that the client knows of a partition."""
        return self._told.get(key)

    def has_news(self, key: Key, read: PartitionRead) -> bool:
        """Whether the reply must have this partition. Stores the state for the next reply.

        A partition that gets records moves to the end, so that all partitions get records despite the byte limit.
        """
        told = (read.high_watermark, read.log_start_offset)
        news = self.full or self._told.get(key) != told or read.must_be_told
        self._told[key] = told
        if not self.full and read.records:
            self.partitions[key] = self.partitions.pop(key)
        return news

    def update(self, partitions: Iterable[tuple[Key, Wanted]], forgotten: Iterable[Key]) -> None:
        for key, wanted in partitions:
            self.partitions[key] = wanted
            self.read_from.pop(key, None)
        for key in forgotten:
            self.partitions.pop(key, None)
            self._told.pop(key, None)
            self.read_from.pop(key, None)


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
        partitions: list[tuple[Key, Wanted]],
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

    def _create(self, partitions: list[tuple[Key, Wanted]], by_topic_id: bool, now: float) -> AnyFetch:
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


def _single(partitions: list[tuple[Key, Wanted]]) -> SingleFetch:
    """If a request names a partition twice, the last one counts, as in a session."""
    if len(partitions) > 1:
        partitions = list(dict(partitions).items())
    return SingleFetch(partitions)
