"""The committed offsets of one group, its pending offsets of open transactions, and the expiry of offsets."""

from collections.abc import Iterator, Mapping
from itertools import takewhile

from ottla.groups.records import OffsetCommitted
from ottla.model import NO_TIMESTAMP, ZERO_TOPIC_ID, TopicId, TopicPartition


class Offsets:
    """The record of each committed offset, by topic and partition.

    The last written offset is valid, even if the transaction of an earlier offset ends later. Compaction keeps the last
    written record, so any other rule would give a different state after a reload.
    """

    __slots__ = ("_pending", "_topics")

    def __init__(self) -> None:
        self._topics: dict[str, dict[int, OffsetCommitted]] = {}
        self._pending: dict[TopicPartition, dict[int, OffsetCommitted | None]] = {}
        """The offsets of open transactions by producer id, in the order of their writes. None is an offset that a later
        commit has replaced. It never takes effect, but the partition is unstable until its transaction ends."""

    def __iter__(self) -> Iterator[OffsetCommitted]:
        for partitions in self._topics.values():
            yield from partitions.values()

    def __len__(self) -> int:
        return sum(map(len, self._topics.values()))

    def get(self, topic: str, partition: int, topic_id: TopicId = ZERO_TOPIC_ID) -> OffsetCommitted | None:
        """The committed offset, unless it was committed for an earlier topic with the same name."""
        committed = self._topics.get(topic, {}).get(partition)
        if committed is None or (topic_id != ZERO_TOPIC_ID and committed.topic_id not in (ZERO_TOPIC_ID, topic_id)):
            return None
        return committed

    def put(self, committed: OffsetCommitted) -> None:
        self._topics.setdefault(committed.topic, {})[committed.partition] = committed
        if self._pending:
            pending = self._pending.get(TopicPartition(committed.topic, committed.partition), {})
            for producer_id in pending:
                pending[producer_id] = None

    def put_pending(self, offset: OffsetCommitted, producer_id: int) -> None:
        pending = self._pending.setdefault(TopicPartition(offset.topic, offset.partition), {})
        pending.pop(producer_id, None)  # The newest offset of a producer moves to the end.
        pending[producer_id] = offset

    def end_pending(self, partition: TopicPartition, producer_id: int, *, committed: bool) -> None:
        pending = self._pending.get(partition, {})
        if producer_id not in pending:
            return
        offset = pending[producer_id]
        if committed and offset is not None:
            self._topics.setdefault(offset.topic, {})[offset.partition] = offset
            for earlier in takewhile(lambda other: other != producer_id, pending):
                pending[earlier] = None
        del pending[producer_id]
        if not pending:
            del self._pending[partition]

    def remove(self, topic: str, partition: int) -> None:
        """Remove the committed offset and all pending offsets of a partition."""
        self._pending.pop(TopicPartition(topic, partition), None)
        partitions = self._topics.get(topic, {})
        partitions.pop(partition, None)
        if not partitions:
            self._topics.pop(topic, None)

    @property
    def has_pending(self) -> bool:
        return bool(self._pending)

    def is_pending(self, topic: str, partition: int) -> bool:
        return bool(self._pending) and TopicPartition(topic, partition) in self._pending

    def pending(self) -> Iterator[OffsetCommitted]:
        """The offsets that take effect if their transactions commit."""
        for producers in self._pending.values():
            yield from (offset for offset in producers.values() if offset is not None)

    def partitions(self) -> list[TopicPartition]:
        """All partitions with a committed or pending offset."""
        committed = [TopicPartition(offset.topic, offset.partition) for offset in self]
        return list(dict.fromkeys([*committed, *self._pending]))

    def of_deleted_topics(self, deleted: Mapping[str, TopicId]) -> list[TopicPartition]:
        """The partitions of deleted topics with a committed or pending offset."""
        found = [offset for topic in self._topics.keys() & deleted.keys() for offset in self._topics[topic].values()]
        found += [offset for offset in self.pending() if offset.topic in deleted]
        gone = [offset for offset in found if offset.topic_id in (ZERO_TOPIC_ID, deleted[offset.topic])]
        return list(dict.fromkeys(TopicPartition(offset.topic, offset.partition) for offset in gone))


def is_expired(committed: OffsetCommitted, since_ms: int, retention_ms: int, wall_ms: int) -> bool:
    """Whether an offset is past its retention, which starts at `since_ms` (KIP-211)."""
    if committed.expire_timestamp_ms != NO_TIMESTAMP:
        return wall_ms >= committed.expire_timestamp_ms
    return wall_ms - since_ms >= retention_ms
