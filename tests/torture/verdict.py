"""Checks that the output is exactly the input. Reports differences with offsets in the log."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Record:
    offset: int
    key: bytes
    value: bytes


Partitions = Mapping[int, Sequence[Record]]


def exactly_once(source: Partitions, copy: Partitions) -> list[str]:
    """Each partition of the copy has the records of its source, each once and in order. Otherwise returns the
    differences."""
    findings: list[str] = []
    for partition in sorted(source.keys() | copy.keys()):
        expected = source.get(partition, ())
        found = copy.get(partition, ())
        if _contents(expected) != _contents(found):
            findings += [f"partition {partition}: {finding}" for finding in _differences(expected, found)]
    return findings


def _contents(records: Sequence[Record]) -> list[tuple[bytes, bytes]]:
    return [(record.key, record.value) for record in records]


def _differences(expected: Sequence[Record], found: Sequence[Record]) -> list[str]:
    """Values identify records: all values of the source differ."""
    wanted = {record.value: record for record in expected}
    times = Counter(record.value for record in found)
    groups = {
        "missing": [record for record in expected if not times[record.value]],
        "more than once": [record for record in found if times[record.value] > 1],
        "not in the input": [record for record in found if record.value not in wanted],
        "with another key": [record for record in found if wanted.get(record.value, record).key != record.key],
        "out of order": _out_of_order(wanted, found),
    }
    return [f"{len(records)} {what}: {_show(records)}" for what, records in groups.items() if records]


def _out_of_order(wanted: Mapping[bytes, Record], found: Sequence[Record]) -> list[Record]:
    known = [record for record in found if record.value in wanted]
    return [later for earlier, later in pairwise(known) if wanted[later.value].offset < wanted[earlier.value].offset]


def contained(committed: Partitions, uncommitted: Partitions) -> list[str]:
    """A `read_uncommitted` consumer finds every committed record at the same offset."""
    findings = []
    for partition, records in committed.items():
        everything = set(uncommitted.get(partition, ()))
        lacking = [record for record in records if record not in everything]
        if lacking:
            findings.append(f"partition {partition}: {len(lacking)} only read_committed sees: {_show(lacking)}")
    return findings


def _show(records: Sequence[Record]) -> str:
    shown = [
        f"{record.value.rstrip(b'.')[:30].decode(errors='replace')!r} at offset {record.offset}"
        for record in records[:_SHOWN]
    ]
    return ", ".join(shown) + (", ..." if len(records) > _SHOWN else "")
