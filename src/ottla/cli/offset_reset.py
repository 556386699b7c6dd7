"""Where `ottla groups reset-offsets` moves a group to."""

import csv
import enum
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import typer

from ottla.cli.admin import Admin
from ottla.cli.command_error import CommandError
from ottla.cli.offset_range import Watermarks, resolve, watermarks
from ottla.cli.position import EARLIEST, LATEST, Kind, Position, parse_datetime, parse_duration
from ottla.model import TopicPartition


class Move(enum.Enum):
    POSITION = "position"
    CURRENT = "current"
    SHIFT = "shift"
    FILE = "file"


@dataclass(frozen=True, slots=True)
class Target:
    move: Move
    position: Position = EARLIEST
    """For Move.POSITION."""
    shift: int = 0
    """For Move.SHIFT: the number of records, negative to go back."""
    file: Path | None = None
    """For Move.FILE."""


def read_target(
    *,
    to_earliest: bool,
    to_latest: bool,
    to_current: bool,
    to_offset: int | None,
    to_datetime: str | None,
    by_duration: str | None,
    shift_by: int | None,
    from_file: Path | None,
) -> Target:
    """The one target that the options name. Anything but exactly one is wrong usage."""
    targets = {
        "--to-earliest": Target(Move.POSITION, EARLIEST) if to_earliest else None,
        "--to-latest": Target(Move.POSITION, LATEST) if to_latest else None,
        "--to-current": Target(Move.CURRENT) if to_current else None,
        "--to-offset": None if to_offset is None else Target(Move.POSITION, Position(Kind.OFFSET, to_offset)),
        "--to-datetime": None if to_datetime is None else Target(Move.POSITION, _moment(to_datetime)),
        "--by-duration": None if by_duration is None else Target(Move.POSITION, _ago(by_duration)),
        "--shift-by": None if shift_by is None else Target(Move.SHIFT, shift=shift_by),
        "--from-file": None if from_file is None else Target(Move.FILE, file=from_file),
    }
    chosen = [target for target in targets.values() if target is not None]
    if len(chosen) != 1:
        raise typer.BadParameter(f"give exactly one of {', '.join(targets)}")
    return chosen[0]


def plan_reset(
    admin: Admin, group: str, topics: Sequence[str], target: Target, committed: dict[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """The new offset of every chosen partition, between the oldest record and the end of the partition.

    `topics`: names as `chosen_partitions` reads them; empty for every partition that the group has committed, or that
    the file names.
    """
    listed = {} if target.file is None else read_offsets_file(target.file, group)
    if topics:
        partitions = chosen_partitions(admin, topics)
    else:
        partitions = _existing(admin, sorted(listed if target.move is Move.FILE else committed))
    marks = watermarks(admin, partitions)
    if target.move is Move.POSITION:
        return resolve(admin, marks, target.position)
    if target.move is Move.FILE:
        return _within(marks, {partition: listed[partition] for partition in partitions if partition in listed})
    missing = [partition for partition in partitions if partition not in committed]
    if missing and target.move is Move.SHIFT:
        raise CommandError(
            f"Group '{group}' has no committed offset for {missing[0]}; use --to-earliest or --to-latest for it."
        )
    # As in Kafka's tool, --to-current puts a partition without a committed offset at its end.
    base = {**{partition: marks.ends[partition] for partition in marks.partitions}, **committed}
    return _within(marks, {partition: base[partition] + target.shift for partition in marks.partitions})


def read_offsets_file(path: Path, group: str) -> dict[TopicPartition, int]:
    """Kafka's CSV: `topic,partition,offset`, or `group,topic,partition,offset`, of which other groups are left out."""
    offsets: dict[TopicPartition, int] = {}
    with path.open(newline="", encoding="utf-8") as lines:
        for number, fields in enumerate(csv.reader(lines, skipinitialspace=True), start=1):
            if not any(fields):
                continue
            *owner, topic, partition, offset = fields if len(fields) in (3, 4) else ["", "", ""]
            if not partition.strip().isdecimal() or not offset.strip().isdecimal():
                raise CommandError(f"Line {number} of {path} is not of the form TOPIC,PARTITION,OFFSET.")
            if not owner or owner == [group]:
                offsets[TopicPartition(topic, int(partition))] = int(offset)
    return offsets


def chosen_partitions(admin: Admin, topics: Sequence[str]) -> list[TopicPartition]:
    """Read `topic` and `topic:0,1`. A topic name cannot contain a colon."""
    chosen: list[TopicPartition] = []
    for text in topics:
        name, colon, numbers = text.partition(":")
        (topic,) = admin.describe_topics([name])
        existing = topic.topic_partitions()
        if not colon:
            chosen.extend(existing)
            continue
        for number in numbers.split(","):
            if not number.isdecimal():
                raise typer.BadParameter(f"{text!r} is not of the form TOPIC or TOPIC:0,1", param_hint="--topic")
            partition = TopicPartition(name, int(number))
            if partition not in existing:
                raise _no_partition(partition, len(existing))
            chosen.append(partition)
    return list(dict.fromkeys(chosen))


def _existing(admin: Admin, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
    """The same partitions; one that does not exist is a CommandError."""
    for topic in admin.describe_topics(list(dict.fromkeys(partition.topic for partition in partitions))):
        existing = topic.topic_partitions()
        for partition in partitions:
            if partition.topic == topic.name and partition not in existing:
                raise _no_partition(partition, len(existing))
    return list(partitions)


def _no_partition(partition: TopicPartition, count: int) -> CommandError:
    return CommandError(
        f"Topic '{partition.topic}' has no partition {partition.partition}; it has {count}, numbered from 0."
    )


def _within(marks: Watermarks, offsets: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
    return {
        partition: min(max(offset, marks.starts[partition]), marks.ends[partition])
        for partition, offset in offsets.items()
        if partition in marks.starts and partition in marks.ends
    }


def _moment(text: str) -> Position:
    try:
        return Position(Kind.TIME, parse_datetime(text))
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--to-datetime") from error


def _ago(text: str) -> Position:
    try:
        return Position(Kind.TIME, int((time.time() - parse_duration(text)) * 1000))
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--by-duration") from error
