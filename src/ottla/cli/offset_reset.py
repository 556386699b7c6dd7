"""Where `ottla groups reset-offsets` moves a group to."""

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import typer
from confluent_kafka.admin import OffsetSpec

from ottla.cli.admin import EARLIEST, LATEST, Admin
from ottla.cli.command_error import CommandError
from ottla.model import TopicPartition


class Move(enum.Enum):
    EARLIEST = "--to-earliest"
    LATEST = "--to-latest"
    OFFSET = "--to-offset"
    DATETIME = "--to-datetime"
    SHIFT = "--shift-by"


@dataclass(frozen=True, slots=True)
class Target:
    move: Move
    value: int = 0
    """An offset, a timestamp in milliseconds or a distance, as the move asks for."""


def read_target(
    to_earliest: bool, to_latest: bool, to_offset: int | None, to_datetime: str | None, shift_by: int | None
) -> Target:
    chosen: list[Target] = []
    if to_earliest:
        chosen.append(Target(Move.EARLIEST))
    if to_latest:
        chosen.append(Target(Move.LATEST))
    if to_offset is not None:
        chosen.append(Target(Move.OFFSET, to_offset))
    if to_datetime is not None:
        chosen.append(Target(Move.DATETIME, _milliseconds(to_datetime)))
    if shift_by is not None:
        chosen.append(Target(Move.SHIFT, shift_by))
    if len(chosen) != 1:
        raise typer.BadParameter(f"say where to with exactly one of {', '.join(move.value for move in Move)}")
    return chosen[0]


def plan_reset(admin: Admin, group: str, topics: Sequence[str], target: Target) -> dict[TopicPartition, int]:
    """The new offset of every chosen partition, kept between the oldest record and the end."""
    partitions = chosen_partitions(admin, topics)
    earliest, latest = admin.start_offsets(partitions, EARLIEST), admin.start_offsets(partitions, LATEST)
    starts, ends = earliest(), latest()
    wanted = _wanted(admin, group, partitions, target, starts, ends)
    return {
        partition: min(max(offset, starts[partition]), ends[partition])
        for partition, offset in wanted.items()
        if partition in starts and partition in ends
    }


def _wanted(
    admin: Admin,
    group: str,
    partitions: list[TopicPartition],
    target: Target,
    starts: dict[TopicPartition, int],
    ends: dict[TopicPartition, int],
) -> dict[TopicPartition, int]:
    if target.move is Move.EARLIEST:
        return starts
    if target.move is Move.LATEST:
        return ends
    if target.move is Move.OFFSET:
        return dict.fromkeys(partitions, target.value)
    if target.move is Move.DATETIME:
        found = admin.offsets(partitions, OffsetSpec.for_timestamp(target.value))
        # -1 says that no record is that young, so the group waits for the next one.
        return {partition: offset if offset >= 0 else ends[partition] for partition, offset in found.items()}
    committed = admin.committed(group)
    missing = [partition for partition in partitions if partition not in committed]
    if missing:
        raise CommandError(
            f"Group '{group}' has no offset for {missing[0]} to shift; use --to-earliest or --to-latest."
        )
    return {partition: committed[partition] + target.value for partition in partitions}


def chosen_partitions(admin: Admin, topics: Sequence[str]) -> list[TopicPartition]:
    """Read `topic` and `topic:0,1`; a colon cannot be part of a topic's name."""
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
                raise CommandError(f"Topic '{name}' has no partition {number}; it has {len(existing)}, from 0 on.")
            chosen.append(partition)
    return list(dict.fromkeys(chosen))


def _milliseconds(text: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is not a date and time such as 2026-01-31T13:00:00", param_hint="--to-datetime"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)
