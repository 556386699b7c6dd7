"""The committed offsets of one group, and when they expire."""

from collections.abc import Iterator, Mapping

from ottla.groups.records import OffsetCommitted
from ottla.model import NO_TIMESTAMP, ZERO_TOPIC_ID, TopicId


class Offsets:
    """By topic and partition. The record that committed an offset is kept as it is: it says all there is to say."""

    __slots__ = ("_topics",)

    def __init__(self) -> None:
        self._topics: dict[str, dict[int, OffsetCommitted]] = {}

    def __iter__(self) -> Iterator[OffsetCommitted]:
        for partitions in self._topics.values():
            yield from partitions.values()

    def __len__(self) -> int:
        return sum(map(len, self._topics.values()))

    def get(self, topic: str, partition: int, topic_id: TopicId = ZERO_TOPIC_ID) -> OffsetCommitted | None:
        """An offset committed to another topic of the same name is not this topic's offset."""
        committed = self._topics.get(topic, {}).get(partition)
        if committed is None or (topic_id != ZERO_TOPIC_ID and committed.topic_id not in (ZERO_TOPIC_ID, topic_id)):
            return None
        return committed

    def put(self, committed: OffsetCommitted) -> None:
        self._topics.setdefault(committed.topic, {})[committed.partition] = committed

    def remove(self, topic: str, partition: int) -> None:
        partitions = self._topics.get(topic, {})
        partitions.pop(partition, None)
        if not partitions:
            self._topics.pop(topic, None)

    def of_deleted_topics(self, deleted: Mapping[str, TopicId]) -> Iterator[OffsetCommitted]:
        for topic in self._topics.keys() & deleted.keys():
            for committed in self._topics[topic].values():
                if committed.topic_id in (ZERO_TOPIC_ID, deleted[topic]):
                    yield committed


def is_expired(committed: OffsetCommitted, since_ms: int, retention_ms: int, wall_ms: int) -> bool:
    """Whether an offset has outlived its retention, which runs from a moment that its group decides (KIP-211)."""
    if committed.expire_timestamp_ms != NO_TIMESTAMP:
        return wall_ms >= committed.expire_timestamp_ms
    return wall_ms - since_ms >= retention_ms
