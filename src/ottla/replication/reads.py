"""Serves Fetch: chooses the replica, reads the records, and waits if there are too few of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from ottla.env.network import FileSlice
from ottla.errors import ErrorCode, KafkaError
from ottla.log.epochs import EpochStart
from ottla.replication.waiting import DataWaiter, StableDataWaiter

if TYPE_CHECKING:
    from ottla.cluster.image import ClusterImage
    from ottla.config.broker import BrokerConfig
    from ottla.env.clock import Clock
    from ottla.log.log import LogRead
    from ottla.log.transaction_index import AbortedTransaction
    from ottla.replication.fetch_sessions import AnyFetch, FetchPartition
    from ottla.replication.partition import Partition
    from ottla.replication.replicas import Replicas
    from ottla.replication.throttling import ReplicationThrottle

RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
SELECTORS = (RACK_AWARE, "org.apache.kafka.common.replica.LeaderSelector")
"""Kafka's own selectors. Others would have to be loaded as Java classes."""

_UNKNOWN = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)

CONSUMER = -1
"""The replica id of a consumer."""


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
    """The result for one partition."""

    wanted: FetchPartition
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    records: FileSlice | None = None
    aborted: list[AbortedTransaction] | None = None
    """The aborted transactions among the records, for a `read_committed` consumer."""
    error: ErrorCode = ErrorCode.NONE
    diverging: EpochStart | None = None
    """Where the reader's log differs from this one (KIP-595)."""
    preferred_replica: int = -1
    """A replica that the consumer should fetch from instead."""


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
        self.throttle = throttle
        self._broker_id = broker_id
        self._replicas = replicas
        self._image = image

    def find(self, wanted: FetchPartition, *, any_replica: bool) -> Partition:
        """The partition, if this broker leads it, or with `any_replica` if it has a replica. The reader must know the
        current leader epoch. Raises KafkaError."""
        topic, index = wanted.key
        if isinstance(topic, bytes):
            found = self._image().topic_by_id(topic)
            if found is None:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
            topic = found.name
        partition = self._replicas.replica_of(topic, index) if any_replica else self._replicas.leader_of(topic, index)
        if wanted.leader_epoch >= 0:
            partition.check_leader_epoch(wanted.leader_epoch)
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

    __slots__ = ("_callback", "_partitions", "_reader", "_reads", "_size", "_urgent", "_waiter", "found", "session")

    def __init__(self, reads: Reads, reader: Reader, session: AnyFetch) -> None:
        self._reads = reads
        self._reader = reader
        self.session = session
        self.found: list[PartitionRead] = []
        self._partitions: list[Partition] = []
        self._size = 0
        self._urgent = False
        """Whether the reply must be sent at once, for example because of an error."""
        self._waiter: DataWaiter | None = None
        self._callback: Callable[[Fetch], object] | None = None

    def read(self) -> None:
        self.found, self._partitions, self._size, self._urgent = [], [], 0, False
        reader = self._reader
        room = min(reader.max_bytes, self._reads.config().integer("fetch.max.bytes"))
        skips = reader.replica >= 0 and not self.session.full
        for wanted in self.session:
            if skips and self._has_nothing_for_follower(wanted):
                continue
            found = self._read_partition(wanted, room - self._size)
            self.found.append(found)

    def is_ready(self) -> bool:
        reader = self._reader
        return self._urgent or self._size >= reader.min_bytes or reader.max_wait_ms <= 0 or not self._partitions

    def _has_nothing_for_follower(self, wanted: FetchPartition) -> bool:
        """Whether there is nothing new for a follower. A fast path: of the many partitions that a follower fetches, few
        have new records."""
        partition = wanted.partition
        if partition is None or not partition.leads or partition.leader_epoch != wanted.leader_epoch:
            return False
        now = self._reads.clock.monotonic()
        if not partition.has_nothing_for(self._reader.replica, wanted.fetch_offset, wanted.told, now):
            return False
        self._partitions.append(partition)
        return True

    def _read_partition(self, wanted: FetchPartition, room: int) -> PartitionRead:
        reader = self._reader
        limit = min(wanted.max_bytes, room)
        try:
            partition = self._reads.find(wanted, any_replica=reader.any_replica)
            if reader.replica >= 0:
                return self._read_as_follower(partition, wanted, limit)
            if wanted.last_fetched_epoch >= 0 or (reader.rack and reader.any_replica and partition.leads):
                elsewhere = self._elsewhere(partition, wanted)
                if elsewhere is not None:
                    return elsewhere
            aborted: list[AbortedTransaction] | None = None
            if reader.committed_only:
                read, aborted = partition.read_committed(wanted.fetch_offset, limit)
            else:
                read = partition.read(wanted.fetch_offset, limit)
        except KafkaError as error:
            self._urgent = True
            return PartitionRead(wanted, -1, -1, -1, None, [] if error.code in _UNKNOWN else None, error.code)
        self._partitions.append(partition)
        records = self._slice(read, limit)
        if records is None and aborted is not None:
            aborted = []
        # Much faster than to call the class with its default values.
        return tuple.__new__(
            PartitionRead,
            (
                wanted,
                partition.high_watermark,
                partition.last_stable_offset,
                partition.log.log_start_offset,
                records,
                aborted,
                ErrorCode.NONE,
                None,
                -1,
            ),
        )

    def _slice(self, read: LogRead, limit: int) -> FileSlice | None:
        """The records as a file slice; None if they exceed the limit. The first batch of a reply may exceed it, because
        otherwise a reader could never get past a large batch."""
        file, position, size, _ = read
        if file is None or (size > limit and self._size):
            return None
        self._size += size
        return tuple.__new__(FileSlice, (file, position, size))

    def _elsewhere(self, partition: Partition, wanted: FetchPartition) -> PartitionRead | None:
        """The result for a consumer that has diverged, or that should fetch from another replica; else None."""
        diverging = partition.divergence(wanted.fetch_offset, wanted.last_fetched_epoch)
        replica = None
        if diverging is None and self._reader.rack and self._reader.any_replica and partition.leads:
            replica = self._reads.preferred_replica(partition, self._reader, wanted.fetch_offset)
        if diverging is None and replica is None:
            return None
        self._urgent = True
        found = _state(wanted, partition)
        return found._replace(diverging=diverging, preferred_replica=-1 if replica is None else replica)

    def _read_as_follower(self, partition: Partition, wanted: FetchPartition, limit: int) -> PartitionRead:
        read = partition.read_as_follower(
            self._reader.replica, wanted.fetch_offset, limit, wanted.last_fetched_epoch, wanted.log_start_offset
        )
        self._partitions.append(partition)
        wanted.partition = partition
        found = _state(wanted, partition)
        if isinstance(read, EpochStart):
            self._urgent = True
            return found._replace(diverging=read)
        if self._is_throttled(partition):
            return found
        records = self._slice(read, limit)
        if records is not None and self._reads.throttle.concerns(partition):
            self._reads.throttle.record(records.size)
        return found._replace(records=records)

    def _is_throttled(self, partition: Partition) -> bool:
        throttle, followers = self._reads.throttle, partition.followers
        in_sync = followers is not None and self._reader.replica in followers.in_sync
        return not in_sync and throttle.concerns(partition) and throttle.is_exceeded()

    # Waiting

    def wait(self) -> None:
        """Complete when there are enough bytes to read, or after the reader's `max_wait_ms`."""
        reader, clock = self._reader, self._reads.clock
        seconds = reader.max_wait_ms / 1000
        if reader.committed_only:
            self._waiter = StableDataWaiter(clock, self._partitions, seconds, self._complete, self._has_enough)
        else:
            lists = [it.waiters if reader.replica < 0 else it.follower_waiters for it in self._partitions]
            self._waiter = DataWaiter(clock, lists, reader.min_bytes - self._size, seconds, self._complete)

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


def _state(wanted: FetchPartition, partition: Partition) -> PartitionRead:
    return PartitionRead(wanted, partition.high_watermark, partition.last_stable_offset, partition.log.log_start_offset)
