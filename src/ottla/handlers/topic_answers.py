"""The order of topics and partitions in replies of the group coordinator, as in Kafka: first the partitions that the
handler rejects, then the results of the coordinator, merged by topic."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Generic, Protocol, TypeVar


class TopicAnswer(Protocol):
    partitions: list[Any]


TopicT = TypeVar("TopicT", bound=TopicAnswer)


class TopicAnswers(Generic[TopicT]):
    def __init__(self) -> None:
        self._refused: dict[Hashable, TopicT] = {}
        self._served: list[tuple[Hashable, TopicT]] = []

    def refused(self, key: Hashable, new_topic: Callable[[], TopicT]) -> TopicT:
        """The topic in the reply to which the caller adds its rejected partitions."""
        if key not in self._refused:
            self._refused[key] = new_topic()
        return self._refused[key]

    def serve(self, key: Hashable, topic: TopicT) -> None:
        """Add a topic with the partitions that the coordinator answers. A topic without partitions is omitted."""
        if topic.partitions:
            self._served.append((key, topic))

    def topics(self) -> list[TopicT]:
        if not self._refused:
            return [topic for _, topic in self._served]
        merged = dict(self._refused)
        for key, topic in self._served:
            if key in merged:
                merged[key].partitions += topic.partitions
            else:
                merged[key] = topic
        return list(merged.values())
