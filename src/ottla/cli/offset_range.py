"""The offsets that positions such as `-1h` or `latest` mean in the partitions of a topic."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from confluent_kafka.admin import OffsetSpec

from ottla.cli.admin import EARLIEST, LATEST, Admin
from ottla.cli.position import Kind, Position
from ottla.model import TopicPartition


@dataclass(frozen=True, slots=True)
class Watermarks:
    """First and end offset of each partition that has a leader."""

    starts: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]

    @property
    def partitions(self) -> list[TopicPartition]:
        return [partition for partition in self.starts if partition in self.ends]


def watermarks(admin: Admin, partitions: Sequence[TopicPartition]) -> Watermarks:
    earliest, latest = admin.start_offsets(partitions, EARLIEST), admin.start_offsets(partitions, LATEST)
    return Watermarks(earliest(), latest())


def resolve(admin: Admin, marks: Watermarks, wanted: Position) -> dict[TopicPartition, int]:
    """The offset of a position in every partition, moved into the range of offsets that the partition has."""
    found = _offsets(admin, marks, wanted)
    return {
        partition: min(max(offset, marks.starts[partition]), marks.ends[partition])
        for partition, offset in found.items()
    }


def _offsets(admin: Admin, marks: Watermarks, wanted: Position) -> dict[TopicPartition, int]:
    partitions = marks.partitions
    if wanted.kind is Kind.EARLIEST:
        return {partition: marks.starts[partition] for partition in partitions}
    if wanted.kind is Kind.LATEST:
        return {partition: marks.ends[partition] for partition in partitions}
    if wanted.kind is Kind.OFFSET:
        return dict.fromkeys(partitions, wanted.value)
    if wanted.kind is Kind.FROM_END:
        return {partition: marks.ends[partition] - wanted.value for partition in partitions}
    found = admin.offsets(partitions, OffsetSpec.for_timestamp(max(0, wanted.value)))
    # The broker answers -1 if all records are older than the timestamp.
    return {partition: offset if offset >= 0 else marks.ends[partition] for partition, offset in found.items()}


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """What to read of one partition: from the first offset up to, and without, the second."""

    start: int
    stop: int | None

    @property
    def is_empty(self) -> bool:
        return self.stop is not None and self.start >= self.stop


def ranges(
    admin: Admin, partitions: Sequence[TopicPartition], start: Position, stop: Position | None
) -> dict[TopicPartition, OffsetRange]:
    marks = watermarks(admin, partitions)
    starts = resolve(admin, marks, start)
    stops = {} if stop is None else resolve(admin, marks, stop)
    return {partition: OffsetRange(offset, stops.get(partition)) for partition, offset in starts.items()}
