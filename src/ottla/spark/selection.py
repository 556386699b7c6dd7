"""The partitions that a query reads: named topics, topics by pattern, or named partitions."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from ottla.client.client import Client
from ottla.client.failures import check
from ottla.client.metadata import ClusterMetadata
from ottla.errors import ErrorCode
from ottla.model import TopicPartition

_STRATEGIES = ("assign", "subscribe", "subscribePattern")


class UnknownTopic(ValueError):  # noqa: N818 - the name states the error
    """The query names a topic or partition that does not exist. It fails at once, because this is mostly a typo."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Exactly one of the three fields is set."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    assigned: tuple[TopicPartition, ...] = ()

    async def partitions(self, client: Client) -> list[TopicPartition]:
        """The selected partitions that exist. Raises UnknownTopic if a named topic or partition does not exist."""
        return await client.retry("the topics of the query", lambda: self._partitions(client))

    async def _partitions(self, client: Client) -> list[TopicPartition]:
        if self.pattern is not None:
            return self._matching(await client.metadata(None))
        found = await client.metadata({each.topic for each in self.assigned} or set(self.topics))
        for name, code in sorted(found.errors.items()):
            if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise UnknownTopic(f"topic {name} does not exist")
            check(code, f"topic {name}")
        partitions = found.partitions()
        missing = sorted(set(self.assigned) - set(partitions))
        if missing:
            raise UnknownTopic(f"partition {missing[0]} does not exist")
        return sorted(set(self.assigned)) or partitions

    def _matching(self, everything: ClusterMetadata) -> list[TopicPartition]:
        """As in Spark, a pattern may match any part of a topic name (Kafka's consumers match the whole name). Internal
        topics never match."""
        pattern = re.compile(self.pattern or "")
        topics = everything.topics
        return [
            each for each in everything.partitions() if pattern.search(each.topic) and not topics[each.topic].internal
        ]


def parse_selection(options: Mapping[str, str]) -> Selection:
    """Raises ValueError unless exactly one of the three options is set and valid."""
    given = [name for name in _STRATEGIES if name in options]
    if len(given) != 1:
        problem = "only one of" if given else "one of"
        raise ValueError(f"{problem} the options {', '.join(_STRATEGIES)} must be set")
    [name] = given
    value = options[name].strip()
    if name == "assign":
        return Selection(assigned=_parse_assignment(value))
    if name == "subscribe":
        topics = tuple(topic.strip() for topic in value.split(",") if topic.strip())
        if not topics:
            raise ValueError(f"subscribe names no topic: {options[name]!r}")
        return Selection(topics=topics)
    if not value:
        raise ValueError("subscribePattern is empty")
    try:
        re.compile(value)
    except re.error as error:
        raise ValueError(f"subscribePattern {value!r} is not a regular expression: {error}") from None
    return Selection(pattern=value)


def _parse_assignment(text: str) -> tuple[TopicPartition, ...]:
    """Parse JSON such as {"clicks": [0, 1]}."""
    complaint = f'assign must look like {{"topicA":[0,1],"topicB":[2,4]}}, not {text}'
    try:
        tree = json.loads(text)
    except ValueError:
        raise ValueError(complaint) from None
    if not isinstance(tree, dict) or not all(isinstance(indexes, list) for indexes in tree.values()):
        raise ValueError(complaint)
    pairs = [(topic, index) for topic, indexes in tree.items() for index in indexes]
    if not pairs or not all(type(index) is int and index >= 0 for _, index in pairs):
        raise ValueError(complaint)
    return tuple(sorted({TopicPartition(topic, index) for topic, index in pairs}))
