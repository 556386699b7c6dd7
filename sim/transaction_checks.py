"""What was done in transactions, and the promises about it."""

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
    NOTHING = "nobody asked for its commit"
    COMMITTED = "its commit was acknowledged"
    UNKNOWN = "its commit was asked for"


@dataclass
class Transaction:
    name: str
    values: dict[int, list[bytes]] = field(default_factory=dict)
    """By partition."""
    fate: Fate = Fate.NOTHING


Committed = Mapping[TopicPartition, Mapping[int, bytes]]
"""Values of committed records, by partition and offset."""


def committed_records(data: bytes) -> tuple[dict[int, bytes], dict[int, list[int]]]:
    """What a log says by its markers alone: the committed records, and by producer those that are not decided."""
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
    """All of a transaction, over all partitions, or nothing of it; and what its producer was told."""
    by_index = {partition.partition: set(found.values()) for partition, found in committed.items()}
    for transaction in transactions:
        wanted = {(index, value) for index, values in transaction.values.items() for value in values}
        there = {(index, value) for index, value in wanted if value in by_index.get(index, ())}
        if transaction.fate is Fate.COMMITTED and there != wanted:
            yield f"{transaction.name}: committed, but {sorted(wanted - there)[0]} is not there"
        elif transaction.fate is Fate.NOTHING and there:
            yield f"{transaction.name}: {transaction.fate.value}, but {sorted(there)[0]} is there"
        elif there and there != wanted:
            yield f"{transaction.name}: {sorted(there)[0]} is there, {sorted(wanted - there)[0]} is not"


def check_reader(seen: Mapping[int, bytes], committed: Mapping[int, bytes], partition: TopicPartition) -> Iterator[str]:
    """Who reads what is committed sees all of it and nothing else."""
    for offset in sorted({*seen, *committed}):
        if seen.get(offset) != committed.get(offset):
            yield f"{partition}: at {offset} a reader saw {seen.get(offset)!r}, committed is {committed.get(offset)!r}"


def check_copies(committed: Committed, ends: Mapping[TopicPartition, int]) -> Iterator[str]:
    """Each record of the original is copied once."""
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
        yield f"there is a copy of a record at {offset} of partition {index}, which has none"
