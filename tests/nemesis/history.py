"""The replies to clients during the faults, and the check of the final records against them."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import pairwise

_SHOWN = 3

Place = tuple[int, int]
"""A partition and an offset in it."""


class Fate(Enum):
    COMMITTED = auto()
    ABORTED = auto()
    UNKNOWN = auto()
    """The client got no reply."""


@dataclass(frozen=True, slots=True)
class Transaction:
    values: tuple[bytes, ...]
    fate: Fate


@dataclass(slots=True)
class History:
    acknowledged: dict[bytes, Place] = field(default_factory=dict)
    """Values and their positions from the broker's replies."""
    refused: list[str] = field(default_factory=list)
    """Reasons for records that clients have given up."""
    sent: dict[str, list[bytes]] = field(default_factory=lambda: defaultdict(list))
    """Sent values by producer and partition, in order."""
    transactions: list[Transaction] = field(default_factory=list)
    consumed: dict[Place, bytes] = field(default_factory=dict)
    """The records that the group has read."""
    findings: list[str] = field(default_factory=list)
    """Violations that clients have noticed during the run."""
    leaders: dict[tuple[int, int], set[int]] = field(default_factory=lambda: defaultdict(set))
    """The reported leaders, by partition and epoch."""


def judge(history: History, found: Mapping[int, Sequence[tuple[int, bytes]]]) -> list[str]:
    """`found` has the offsets and values that a `read_committed` consumer gets at the end, by partition."""
    values = {(partition, offset): value for partition, records in found.items() for offset, value in records}
    return [
        *history.findings,
        *_complaints("acknowledged and lost", _lost(history.acknowledged, values)),
        *_complaints("twice", (value for value, times in Counter(values.values()).items() if times > 1)),
        *_complaints("out of order", _out_of_order(history.sent, found)),
        *_complaints("of half a transaction", _half(history.transactions, set(values.values()))),
        *_complaints("read by the group, and later not there", _vanished(history.consumed, values)),
        *[
            f"partition {partition} had the leaders {sorted(leaders)} in epoch {epoch}"
            for (partition, epoch), leaders in sorted(history.leaders.items())
            if len(leaders) > 1
        ],
    ]


def _lost(acknowledged: Mapping[bytes, Place], values: Mapping[Place, bytes]) -> list[bytes]:
    return [value for value, place in acknowledged.items() if values.get(place) != value]


def _out_of_order(sent: Mapping[str, Sequence[bytes]], found: Mapping[int, Sequence[tuple[int, bytes]]]) -> list[bytes]:
    """The records of one producer in one partition are in the order in which they were sent."""
    places = {value: offset for records in found.values() for offset, value in records}
    wrong = []
    for values in sent.values():
        offsets = [(places[value], value) for value in values if value in places]
        wrong += [value for (before, _), (after, value) in pairwise(offsets) if after <= before]
    return wrong


def _half(transactions: Iterable[Transaction], found: set[bytes]) -> list[bytes]:
    wrong: list[bytes] = []
    for transaction in transactions:
        there = [value for value in transaction.values if value in found]
        missing = [value for value in transaction.values if value not in found]
        if transaction.fate is not Fate.COMMITTED and not (transaction.fate is Fate.UNKNOWN and not missing):
            wrong += there
        if transaction.fate is Fate.COMMITTED:
            wrong += missing
    return wrong


def _vanished(consumed: Mapping[Place, bytes], values: Mapping[Place, bytes]) -> list[bytes]:
    return [value for place, value in consumed.items() if values.get(place) != value]


def _complaints(what: str, values: Iterable[bytes]) -> list[str]:
    listed = list(values)
    if not listed:
        return []
    shown = ", ".join(value.decode(errors="replace") for value in listed[:_SHOWN])
    return [f"{len(listed)} records {what}: {shown}{', ...' if len(listed) > _SHOWN else ''}"]
