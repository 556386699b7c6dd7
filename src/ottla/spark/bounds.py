"""The start or end of a query: the earliest or latest offset, given offsets, or timestamps."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from ottla.client.client import Client
from ottla.client.offsets import list_offsets
from ottla.model import LATEST_TIMESTAMP, NO_OFFSET, TopicPartition

Offsets = Mapping[TopicPartition, int]
Strategy = Literal["error", "latest"]

EARLIEST_OFFSET = -2
LATEST_OFFSET = -1


class BoundError(ValueError):
    """Invalid offsets or timestamps. The message is for the author of the query."""


@dataclass(frozen=True, slots=True)
class Bound:
    """A number for each partition: an offset (-2 is the earliest, -1 the latest) or a timestamp."""

    everywhere: int | None = None
    by_partition: Offsets = field(default_factory=dict)
    timestamps: bool = False
    when_too_young: Strategy = "latest"
    """What to do if the timestamp is later than all records."""

    @property
    def is_latest(self) -> bool:
        """Whether a partition has the latest offset as its bound."""
        return not self.timestamps and LATEST_OFFSET in (self.everywhere, *self.by_partition.values())

    @property
    def is_earliest(self) -> bool:
        return not self.timestamps and EARLIEST_OFFSET in (self.everywhere, *self.by_partition.values())

    async def resolve(
        self, client: Client, partitions: Iterable[TopicPartition], isolation: int
    ) -> dict[TopicPartition, int]:
        """The offset for each partition. Raises BoundError if the given partitions are not those of the query."""
        numbers = self._numbers(list(partitions))
        if not self.timestamps:
            questions = {each: number for each, number in numbers.items() if number < 0}
            # In ListOffsets the timestamps -2 and -1 mean the earliest and the latest offset.
            found = await list_offsets(client, questions, isolation=isolation) if questions else {}
            return {each: found[each].offset if each in found else number for each, number in numbers.items()}
        found = await list_offsets(client, numbers, isolation=isolation) if numbers else {}
        missing = {each: LATEST_TIMESTAMP for each, answer in found.items() if answer.offset == NO_OFFSET}
        if missing and self.when_too_young == "error":
            each = min(missing)
            raise BoundError(f"{each} has no record at or after the timestamp {numbers[each]}")
        latest = await list_offsets(client, missing, isolation=isolation) if missing else {}
        return {each: latest.get(each, answer).offset for each, answer in found.items()}

    def _numbers(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        if self.everywhere is not None:
            return dict.fromkeys(partitions, self.everywhere)
        if set(partitions) != set(self.by_partition):
            wanted = ", ".join(map(str, sorted(partitions)))
            given = ", ".join(map(str, sorted(self.by_partition)))
            raise BoundError(
                f"offsets must be given for every partition; they are given for {given}, but the query reads {wanted}"
            )
        return dict(self.by_partition)


EARLIEST = Bound(everywhere=EARLIEST_OFFSET)
LATEST = Bound(everywhere=LATEST_OFFSET)
_ENDS = {"earliest": EARLIEST, "latest": LATEST}


def parse_bound(options: Mapping[str, str], side: Literal["starting", "ending"], *, default: Bound) -> Bound:
    """The bound of one side. A timestamp takes precedence over timestamps by partition, and those over offsets."""
    strategy = _strategy(options) if side == "starting" else "latest"
    timestamp = options.get(f"{side}Timestamp")
    if timestamp is not None:
        if not timestamp.strip().isdecimal():
            raise BoundError(f"{side}Timestamp must be milliseconds since 1970, not {timestamp!r}")
        return Bound(everywhere=int(timestamp), timestamps=True, when_too_young=strategy)
    name = f"{side}OffsetsByTimestamp"
    if name in options:
        return Bound(
            by_partition=parse_offsets(options[name], name, lowest=0), timestamps=True, when_too_young=strategy
        )
    text = options.get(f"{side}Offsets")
    if text is None:
        return default
    if text.strip().lower() in _ENDS:
        return _ENDS[text.strip().lower()]
    return Bound(by_partition=parse_offsets(text, f"{side}Offsets", lowest=EARLIEST_OFFSET))


def _strategy(options: Mapping[str, str]) -> Strategy:
    name = "startingOffsetsByTimestampStrategy"
    match options.get(name, "error").strip().lower():
        case "error":
            return "error"
        case "latest":
            return "latest"
        case other:
            raise BoundError(f"{name} must be error or latest, not {other!r}")


def parse_offsets(text: str, name: str, *, lowest: int) -> dict[TopicPartition, int]:
    """Parse JSON such as {"clicks": {"0": 23, "1": -2}}, the format in which Spark stores offsets."""
    complaint = f'{name} must look like {{"topicA":{{"0":23,"1":45}},"topicB":{{"0":12}}}}, not {text}'
    try:
        tree = json.loads(text)
        return offsets_from_json(tree, lowest=lowest)
    except (ValueError, TypeError, AttributeError):
        raise BoundError(complaint) from None


def offsets_from_json(tree: Mapping[str, Mapping[str, int]], *, lowest: int = 0) -> dict[TopicPartition, int]:
    """Raises ValueError for an invalid offset or partition."""
    offsets = {}
    for topic, numbers in tree.items():
        for partition, number in numbers.items():
            if type(number) is not int or not lowest <= number < 2**63 or not partition.isdecimal():
                raise ValueError(f"{number!r} is not an offset of partition {partition!r}")
            offsets[TopicPartition(topic, int(partition))] = number
    return offsets


def offsets_to_json(offsets: Offsets) -> dict[str, dict[str, int]]:
    """Sorted, because Spark compares stored offsets as text."""
    tree: dict[str, dict[str, int]] = {}
    for topic, partition in sorted(offsets):
        tree.setdefault(topic, {})[str(partition)] = offsets[TopicPartition(topic, partition)]
    return tree
