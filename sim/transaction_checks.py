"""The transactions of a run, and the guarantees about them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from ottla.model import TopicPartition
from ottla.records.control import read_marker
from ottla.records.header import iter_headers
from ottla.records.reader import read_records


class Fate(Enum):
    NOTHING = "its commit was not requested"
    COMMITTED = "its commit was acknowledged"
    UNKNOWN = "its commit was requested"


@dataclass
class Transaction:
    name: str
    values: dict[int, list[bytes]] = field(default_factory=dict)
    """Values by partition."""
    fate: Fate = Fate.NOTHING


Committed = Mapping[TopicPartition, Mapping[int, bytes]]
"""Values of committed records, by partition and offset."""


def committed_records(data: bytes) -> tuple[dict[int, bytes], dict[int, list[int]]]:
    """Evaluate the markers of a log: the committed records, and the offsets of undecided records by producer."""
    committed: dict[int, bytes] = {}
    open_: dict[int, dict[int, bytes]] = {}
    view = memoryview(data)
    for position, header in iter_headers(view):
        batch = view[position : position + header.size]
        if header.is_control:
            marker = read_marker(batch, header)
            ended = open_.pop(header.producer_id, {})
            if marker is not None and marker.committed:
                committed.update(ended)
        else:
            found = {record.offset: record.value or b"" for record in read_records(batch)}
            open_.setdefault(header.producer_id, {}).update(found)
    return dict(sorted(committed.items())), {producer: list(found) for producer, found in open_.items()}


def check_transactions(transactions: Sequence[Transaction], committed: Committed) -> Iterator[str]:
    """A transaction is committed in all partitions or in none, and the result matches its producer's response."""
    by_index = {partition.partition: set(found.values()) for partition, found in committed.items()}
    for transaction in transactions:
        wanted = {(index, value) for index, values in transaction.values.items() for value in values}
        there = {(index, value) for index, value in wanted if value in by_index.get(index, ())}
        if transaction.fate is Fate.COMMITTED and there != wanted:
            yield f"{transaction.name}: committed, but {sorted(wanted - there)[0]} is missing"
        elif transaction.fate is Fate.NOTHING and there:
            yield f"{transaction.name}: {transaction.fate.value}, but {sorted(there)[0]} is committed"
        elif there and there != wanted:
            yield f"{transaction.name}: {sorted(there)[0]} is committed, {sorted(wanted - there)[0]} is not"


def check_reader(seen: Mapping[int, bytes], committed: Mapping[int, bytes], partition: TopicPartition) -> Iterator[str]:
    """A read_committed reader sees all committed records and no others."""
    for offset in sorted({*seen, *committed}):
        if seen.get(offset) != committed.get(offset):
            yield f"{partition}: at {offset} a reader saw {seen.get(offset)!r}, committed was {committed.get(offset)!r}"


def check_copies(committed: Committed, ends: Mapping[TopicPartition, int]) -> Iterator[str]:
    """Each source record has exactly one committed copy."""
    copies: Counter[tuple[int, int]] = Counter()
    for found in committed.values():
        for value in found.values():
            _, _, source, position = value.split(b"/")
            copies[int(source), int(position)] += 1
    for partition, end in ends.items():
        for offset in range(end):
            count = copies.pop((partition.partition, offset), 0)
            if count != 1:
                yield f"{partition}: the record at {offset} has {count} copies"
    for index, offset in copies:
        yield f"there is a copy of offset {offset} of partition {index}, which has no such record"
