"""Serves Fetch: chooses the replica, reads the records, and waits if there are too few of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from ottla.env.network import FileSlice
from ottla.errors import ErrorCode, KafkaError
from ottla.log.epochs import EpochStart
from ottla.model import ZERO_TOPIC_ID, TopicId
from ottla.replication.fetch_sessions import FetchSession
from ottla.replication.waiting import DataWaiter, StableDataWaiter, Wakeups

if TYPE_CHECKING:
    from ottla.cluster.image import ClusterImage
    from ottla.config.broker import BrokerConfig
    from ottla.env.clock import Clock
    from ottla.log.log import LogRead
    from ottla.replication.fetch_sessions import AnyFetch, Key, Wanted
    from ottla.replication.partition import Partition
    from ottla.replication.replicas import Replicas
    from ottla.replication.throttling import ReplicationThrottle

RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
SELECTORS = (RACK_AWARE, "org.apache.kafka.common.replica.LeaderSelector")
"""Kafka's own selectors. Others would have to be loaded as Java classes."""

_UNKNOWN = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)

CONSUMER = -1
"""The replica id of a consumer."""

UNKNOWN = (-1, -1)
"""No epoch and no offset, or no broker and no epoch."""


class Reader(NamedTuple):
    """The consumer or follower that fetches, and its limits."""

    replica: int
    """The id of a follower, or `CONSUMER`."""
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    committed_only: bool
    """Whether a consumer reads only committed transactions."""
    any_replica: bool
    """Whether a consumer may read from a follower (KIP-392)."""
    rack: str
    listener: str


class PartitionRead(NamedTuple):
    """The result for one partition. The fields are those of the Fetch response in their order, so that a handler
    encodes the tuple as it is."""

    partition: int
    error: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    diverging: tuple[int, int] = UNKNOWN
    """Where the reader's log differs from this one (KIP-595): the last epoch that both may share, and its end here."""
    leader: tuple[int, int] = UNKNOWN
    """Id and epoch of the leader (KIP-951). The handler sets it in an error."""
    snapshot: tuple[int, int] = UNKNOWN
    """Always unknown: only Kafka's metadata log has snapshots."""
    aborted: list[tuple[int, int]] | None = None
    """Producer id and first offset of the aborted transactions among the records, for a `read_committed` consumer."""
    preferred_replica: int = -1
    """A replica that the consumer should fetch from instead."""
    records: FileSlice | bytes = b""

    @property
    def must_be_told(self) -> bool:
        """Whether the reader needs the reply even if the high watermark and the log start are the same as before."""
        return (
            self.error != ErrorCode.NONE
            or self.records != b""
            or self.diverging is not UNKNOWN
            or self.preferred_replica >= 0
        )


TopicRead: TypeAlias = "tuple[str, TopicId, list[PartitionRead]]"
"""Name and id of a topic, of which a request has one, and the results for its partitions."""


class Reads:
    """Reads from the replicas of this broker."""

    def __init__(
        self,
        broker_id: int,
        replicas: Replicas,
        image: Callable[[], ClusterImage],
        config: Callable[[], BrokerConfig],
        throttle: ReplicationThrottle,
        clock: Clock,
    ) -> None:
        """`throttle` limits the bytes that this broker sends to followers."""
        self.clock = clock
        self.config = config
        self.max_bytes = config().integer("fetch.max.bytes")
        self.wakeups = Wakeups()
        self.throttle = throttle
        self._broker_id = broker_id
        self._replicas = replicas
        self._image = image

    def find(self, key: Key, leader_epoch: int, any_replica: bool) -> Partition:
        """The partition, if this broker leads it, or with `any_replica` if it has a replica. The reader must know the
        current leader epoch. Raises KafkaError."""
        topic, index = key
        if isinstance(topic, bytes):
            found = self._image().topic_by_id(topic)
            if found is None:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
            topic = found.name
        partition = self._replicas.replica_of(topic, index) if any_replica else self._replicas.leader_of(topic, index)
        if leader_epoch >= 0:
            partition.check_leader_epoch(leader_epoch)
        return partition

    def preferred_replica(self, partition: Partition, reader: Reader, offset: int) -> int | None:
        """The follower in the consumer's rack that has replicated most; None to read from the leader (KIP-392).

        Only a follower that is in sync and has the offset. Any other follower would send the consumer back to the
        leader.
        """
        followers, brokers = partition.followers, self._image().brokers
        leader = brokers.get(self._broker_id)
        if followers is None or leader is None or leader.rack == reader.rack:
            return None
        if self.config().get("replica.selector.class") != RACK_AWARE:
            return None
        near = [
            replica
            for replica in followers.in_sync
            if (node := brokers.get(replica)) is not None
            and node.rack == reader.rack
            and node.endpoint(reader.listener) is not None
            and followers.has(replica, offset)
        ]
        return max(near, key=followers.progress, default=None)


class Fetch:
    """One fetch: reads, and if there are too few bytes, waits and reads again.

    The reply waits for this object. It is not a future, because the callbacks of a future run one iteration of the
    event loop later.
    """

    __slots__ = ("_callback", "_partitions", "_reader", "_reads", "_size", "_waiter", "found", "session", "urgent")

    found: dict[str | TopicId, TopicRead]
    """The results by topic, named as in the request."""
    urgent: bool
    """Whether the reply must be sent at once, for example because of an error."""
    _partitions: list[Partition]
    _size: int

    def __init__(self, reads: Reads, reader: Reader, session: AnyFetch) -> None:
        self._reads = reads
        self._reader = reader
        self.session = session
        self._waiter: DataWaiter | None = None
        self._callback: Callable[[Fetch], object] | None = None

    def read(self) -> None:
        self._size, self.urgent = 0, False
        self._partitions, self.found = [], {}
        if self._reader.replica >= 0:
            self._read_as_follower()
        else:
            self._read_as_consumer()

    def is_ready(self) -> bool:
        _, max_wait_ms, min_bytes, _, _, _, _, _ = self._reader
        return self.urgent or self._size >= min_bytes or max_wait_ms <= 0 or not self._partitions

    def _read_as_consumer(self) -> None:
        _, _, _, room, committed_only, any_replica, rack, _ = self._reader
        find, partitions = self._reads.find, self._partitions
        room = min(room, self._reads.max_bytes)
        for key, wanted in self.session.wanted():
            index, leader_epoch, offset, last_epoch, _, limit, _, _ = wanted
            if limit > room - self._size:
                limit = room - self._size
            aborted: list[tuple[int, int]] | None = None
            try:
                partition = find(key, leader_epoch, any_replica)
                if last_epoch >= 0 or (rack and any_replica and partition.leads):
                    elsewhere = self._elsewhere(partition, index, offset, last_epoch)
                    if elsewhere is not None:
                        self._add(key, elsewhere)
                        continue
                if committed_only:
                    read, ended = partition.read_committed(offset, limit)
                    aborted = [(each.producer_id, each.first_offset) for each in ended]
                else:
                    read = partition.read(offset, limit)
            except KafkaError as error:
                self._add_error(key, error)
                continue
            partitions.append(partition)
            records = self._slice(read, limit)
            if aborted and not records:
                aborted = []
            high_watermark, log = partition.high_watermark, partition.log
            stable, start = log.last_stable_offset(high_watermark), log.log_start_offset
            # Much faster than to call the class with its default values.
            found = (index, 0, high_watermark, stable, start, UNKNOWN, UNKNOWN, UNKNOWN, aborted, -1, records)
            self._add(key, tuple.__new__(PartitionRead, found))

    def _read_as_follower(self) -> None:
        room = min(self._reader.max_bytes, self._reads.max_bytes)
        now = self._reads.clock.monotonic()
        for key, wanted in self.session.wanted():
            if self._has_nothing_for_follower(key, wanted, now):
                continue
            try:
                partition = self._reads.find(key, wanted[1], any_replica=False)
                found = self._read_partition_as_follower(partition, key, wanted, room - self._size)
            except KafkaError as error:
                self._add_error(key, error)
                continue
            self._partitions.append(partition)
            self._add(key, found)

    def _add(self, key: Key, found: PartitionRead) -> None:
        topic = key[0]
        if topic in self.found:
            self.found[topic][2].append(found)
        elif isinstance(topic, bytes):
            self.found[topic] = ("", topic, [found])
        else:
            self.found[topic] = (topic, ZERO_TOPIC_ID, [found])

    def _add_error(self, key: Key, error: KafkaError) -> None:
        self.urgent = True
        # As in Kafka, only some errors come with an empty list of aborted transactions.
        aborted: list[tuple[int, int]] | None = [] if error.code in _UNKNOWN else None
        self._add(key, PartitionRead(key[1], error.code, -1, -1, -1, aborted=aborted))

    def _has_nothing_for_follower(self, key: Key, wanted: Wanted, now: float) -> bool:
        """Whether there is nothing new for a follower. A fast path: of the many partitions that a follower fetches, few
        have new records."""
        session = self.session
        if session.full or not isinstance(session, FetchSession):
            return False
        partition = session.read_from.get(key)
        _, leader_epoch, fetch_offset, _, _, _, _, _ = wanted
        if partition is None or not partition.leads or partition.leader_epoch != leader_epoch:
            return False
        if not partition.has_nothing_for(self._reader.replica, fetch_offset, session.told(key), now):
            return False
        self._partitions.append(partition)
        return True

    def _slice(self, read: LogRead, limit: int) -> FileSlice | bytes:
        """The records as a file slice; empty if they exceed the limit. The first batch of a reply may exceed it,
        because otherwise a reader could never get past a large batch."""
        file, position, size, _ = read
        if file is None or (size > limit and self._size):
            return b""
        self._size += size
        return tuple.__new__(FileSlice, (file, position, size))

    def _elsewhere(self, partition: Partition, index: int, offset: int, last_epoch: int) -> PartitionRead | None:
        """The result for a consumer that has diverged, or that should fetch from another replica; else None."""
        diverging = partition.divergence(offset, last_epoch)
        replica = None
        if diverging is None and self._reader.rack and self._reader.any_replica and partition.leads:
            replica = self._reads.preferred_replica(partition, self._reader, offset)
        if diverging is None and replica is None:
            return None
        self.urgent = True
        return _state(index, partition)._replace(
            diverging=UNKNOWN if diverging is None else (diverging.epoch, diverging.start_offset),
            preferred_replica=-1 if replica is None else replica,
        )

    def _read_partition_as_follower(self, partition: Partition, key: Key, wanted: Wanted, room: int) -> PartitionRead:
        index, _, offset, last_epoch, log_start_offset, limit, _, _ = wanted
        limit = min(limit, room)
        read = partition.read_as_follower(self._reader.replica, offset, limit, last_epoch, log_start_offset)
        if isinstance(self.session, FetchSession):
            self.session.read_from[key] = partition
        found = _state(index, partition)
        if isinstance(read, EpochStart):
            self.urgent = True
            return found._replace(diverging=(read.epoch, read.start_offset))
        if self._is_throttled(partition):
            return found
        records = self._slice(read, limit)
        if records and self._reads.throttle.concerns(partition):
            self._reads.throttle.record(len(records))
        return found._replace(records=records)

    def _is_throttled(self, partition: Partition) -> bool:
        throttle, followers = self._reads.throttle, partition.followers
        in_sync = followers is not None and self._reader.replica in followers.in_sync
        return not in_sync and throttle.concerns(partition) and throttle.is_exceeded()

    # Waiting

    def wait(self) -> None:
        """Complete when there are enough bytes to read, or after the reader's `max_wait_ms`."""
        replica, max_wait_ms, min_bytes, _, committed_only, _, _, _ = self._reader
        clock, wakeups, seconds = self._reads.clock, self._reads.wakeups, max_wait_ms / 1000
        if committed_only:
            self._waiter = StableDataWaiter(clock, wakeups, self._partitions, seconds, self._complete, self._has_enough)
        else:
            lists = [it.waiters if replica < 0 else it.follower_waiters for it in self._partitions]
            self._waiter = DataWaiter(clock, wakeups, lists, min_bytes - self._size, seconds, self._complete)

    def _has_enough(self) -> bool:
        self.read()
        return self.is_ready()

    def _complete(self) -> None:
        self._waiter = None
        if self._callback is not None:
            self._callback(self)

    def add_done_callback(self, callback: Callable[[Fetch], object], /) -> None:
        self._callback = callback

    def cancel(self) -> None:
        self._callback = None
        if self._waiter is not None:
            self._waiter.cancel()
            self._waiter = None

    def cancelled(self) -> bool:
        return self._callback is None


def _state(index: int, partition: Partition) -> PartitionRead:
    high_watermark, log = partition.high_watermark, partition.log
    stable = log.last_stable_offset(high_watermark)
    return PartitionRead(index, ErrorCode.NONE, high_watermark, stable, log.log_start_offset)
