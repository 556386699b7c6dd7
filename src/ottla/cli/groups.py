"""`ottla groups ...`"""

import csv
import sys
from pathlib import Path
from typing import Annotated

import typer

from ottla.cli.admin import LATEST, Admin, Group
from ottla.cli.client import Client
from ottla.cli.command_error import CommandError
from ottla.cli.offset_reset import chosen_partitions, plan_reset, read_target
from ottla.cli.options import (
    DEFAULT_BOOTSTRAP_SERVER,
    BootstrapServer,
    ClientSettings,
    GroupCommand,
    Json,
    family,
)
from ottla.cli.output import Cell, count, each, note, print_json, print_table
from ottla.cli.watch import Count, Interval, Rates, Reading, per_second, watch
from ottla.errors import ErrorCode
from ottla.model import TopicPartition

app = family("List, describe, watch, reset and delete consumer groups.")

GroupName = Annotated[
    str,
    typer.Argument(
        metavar="GROUP", help="Name of the consumer group; --group GROUP is accepted too.", show_default=False
    ),
]

TOPIC_OPTION = typer.Option(
    "--topic",
    metavar="TOPIC",
    help="Topic, or TOPIC:0,1 for some of its partitions; may be repeated.",
    show_default=False,
)

INACTIVE = ("Empty", "Dead")

OFFSET_COLUMNS = [
    "GROUP",
    "TOPIC",
    "PARTITION",
    "CURRENT-OFFSET",
    "LOG-END-OFFSET",
    "LAG",
    "CONSUMER-ID",
    "HOST",
    "CLIENT-ID",
]


@app.command("list")
def list_groups(
    state: Annotated[bool, typer.Option("--state", help="Show type and state of each group.")] = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    client_settings: ClientSettings = None,
    json: Json = False,
) -> None:
    """List consumer groups.

    \b
    Examples:
      ottla groups list
      ottla groups list --state
    """
    groups = Admin(Client(bootstrap_server, client_settings)).list_groups()
    if json:
        print_json([{"group": group.name, "state": group.state, "type": group.type} for group in groups])
    elif state:
        print_table(["GROUP", "TYPE", "STATE"], [(group.name, group.type, group.state) for group in groups])
    else:
        print(*(group.name for group in groups), sep="\n", end="\n" if groups else "")


@app.command(cls=GroupCommand)
def describe(
    name: GroupName,
    members: Annotated[bool, typer.Option("--members", help="Show the members and the partitions of each.")] = False,
    state: Annotated[bool, typer.Option("--state", help="Show state, coordinator and number of members.")] = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    client_settings: ClientSettings = None,
    json: Json = False,
) -> None:
    """Show the committed offset and the lag of a group in each partition.

    \b
    Examples:
      ottla groups describe reports
      ottla groups describe reports --members
    """
    if members and state:
        raise typer.BadParameter("--members and --state show different tables; leave one out")
    admin = Admin(Client(bootstrap_server, client_settings))
    group = admin.describe_group(name)
    committed = admin.committed(name) if group.state == "Dead" or not (members or state) else {}
    if group.state == "Dead" and not committed:
        raise CommandError(f"Consumer group '{name}' does not exist; see `ottla groups list`.")
    if members:
        columns, rows = _members(group)
    elif state:
        columns, rows = _state(group)
    else:
        columns, rows = OFFSET_COLUMNS, _offsets(admin, group, committed)
    if json:
        print_json([dict(zip(map(_json_name, columns), row, strict=True)) for row in rows])
        return
    if not group.members and not state:
        note(f"Consumer group '{name}' has no active members.")
    if rows:
        print_table(columns, rows)


@app.command(cls=GroupCommand)
def delete(
    names: Annotated[
        list[str],
        typer.Argument(metavar="GROUP", help="Names of groups; --group GROUP is accepted too.", show_default=False),
    ],
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    client_settings: ClientSettings = None,
    json: Json = False,
) -> None:
    """Delete groups that have no active members, with their committed offsets.

    \b
    Example:
      ottla groups delete reports
    """
    admin = Admin(Client(bootstrap_server, client_settings))
    each(names, admin.delete_group, "deleted", "Deleted consumer group {}.", json)


@app.command("reset-offsets", cls=GroupCommand)
def reset_offsets(
    name: GroupName,
    topic: Annotated[list[str] | None, TOPIC_OPTION] = None,
    all_topics: Annotated[
        bool, typer.Option("--all-topics", help="Every partition for which the group has a committed offset.")
    ] = False,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="To the oldest record.")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="Behind the newest record.")] = False,
    to_current: Annotated[bool, typer.Option("--to-current", help="To the committed offset, as for --export.")] = False,
    to_offset: Annotated[
        int | None, typer.Option("--to-offset", metavar="OFFSET", min=0, help="To this offset.")
    ] = None,
    to_datetime: Annotated[
        str | None,
        typer.Option(
            "--to-datetime",
            metavar="WHEN",
            help="To the first record at or after this time, such as 2026-01-31T13:00:00; UTC without a time zone.",
        ),
    ] = None,
    by_duration: Annotated[
        str | None,
        typer.Option("--by-duration", metavar="DURATION", help="To the first record after this time ago: 1h, PT1H."),
    ] = None,
    shift_by: Annotated[
        int | None, typer.Option("--shift-by", metavar="N", help="Forward by N records, or back if N is negative.")
    ] = None,
    from_file: Annotated[
        Path | None,
        typer.Option(
            "--from-file",
            metavar="FILE",
            exists=True,
            dir_okay=False,
            help="To the offsets of a file as --export prints.",
        ),
    ] = None,
    export: Annotated[
        bool, typer.Option("--export", help="Only print the new offsets as CSV: topic,partition,offset.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the new offsets. This is the default.")] = False,
    execute: Annotated[bool, typer.Option("--execute", help="Commit the new offsets.")] = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    client_settings: ClientSettings = None,
    json: Json = False,
) -> None:
    """Change the committed offsets of a group without active members. Without --execute, only show the new offsets.

    \b
    Examples:
      ottla groups reset-offsets reports --topic clicks --to-earliest
      ottla groups reset-offsets reports --topic clicks:0 --shift-by -10 --execute
      ottla groups reset-offsets reports --all-topics --by-duration 1h --execute
      ottla groups reset-offsets reports --all-topics --to-current --export > offsets.csv
      ottla groups reset-offsets reports --from-file offsets.csv --execute
    """
    if dry_run and execute:
        raise typer.BadParameter("--dry-run and --execute contradict each other; leave one out")
    if export and execute:
        raise typer.BadParameter("--export changes nothing; leave out --execute or --export")
    if bool(topic) + all_topics + (from_file is not None and not topic) != 1:
        raise typer.BadParameter("give --topic, --all-topics or --from-file")
    target = read_target(
        to_earliest=to_earliest,
        to_latest=to_latest,
        to_current=to_current,
        to_offset=to_offset,
        to_datetime=to_datetime,
        by_duration=by_duration,
        shift_by=shift_by,
        from_file=from_file,
    )
    admin = Admin(Client(bootstrap_server, client_settings))
    group = admin.describe_group(name)
    if group.state not in INACTIVE and not export:
        raise CommandError(f"Consumer group '{name}' is {group.state}; stop its consumers before you move its offsets.")
    committed = admin.committed(name)
    offsets = plan_reset(admin, name, topic or [], target, committed)
    if export:
        csv.writer(sys.stdout, lineterminator="\n").writerows(
            [*partition, offsets[partition]] for partition in sorted(offsets)
        )
        return
    if execute and offsets:
        admin.alter_committed(name, offsets)
    _print_reset(name, offsets, committed, execute, json)


@app.command("delete-offsets", cls=GroupCommand)
def delete_offsets(
    name: GroupName,
    topic: Annotated[list[str], TOPIC_OPTION],
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    client_settings: ClientSettings = None,
    json: Json = False,
) -> None:
    """Delete the committed offsets of topics that the group no longer reads.

    \b
    Example:
      ottla groups delete-offsets reports --topic clicks
    """
    admin = Admin(Client(bootstrap_server, client_settings))
    group = admin.describe_group(name)
    partitions = chosen_partitions(admin, topic)
    refused = admin.delete_committed(group, partitions)
    if ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC in refused.values():
        raise CommandError(f"Consumer group '{name}' still reads {min(refused).topic}; stop its consumers first.")
    if refused:
        raise CommandError(f"The broker keeps the offset of {min(refused)}: {refused[min(refused)].name}.")
    if json:
        print_json([partition._asdict() for partition in partitions])
    else:
        print_table(["TOPIC", "PARTITION", "STATUS"], [(*partition, "Successful") for partition in partitions])


@app.command("watch", cls=GroupCommand)
def watch_group(
    name: GroupName,
    interval: Interval = 2.0,
    count: Count = None,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    client_settings: ClientSettings = None,
    json: Json = False,
) -> None:
    """Show lag and read rates until Ctrl-C.

    Without a terminal, and with --json, each reading is one line.

    \b
    Examples:
      ottla groups watch reports
      ottla groups watch reports --interval 10 >> lag.log
    """
    admin = Admin(Client(bootstrap_server, client_settings))
    rates = Rates()

    def read(now: float) -> Reading:
        group = admin.describe_group(name)
        committed = admin.committed(name)
        if group.state == "Dead" and not committed:
            raise CommandError(f"Consumer group '{name}' does not exist; see `ottla groups list`.")
        return _reading(group, _offsets(admin, group, committed), rates, now)

    watch(read, interval, count, json)


def _reading(group: Group, offsets: list[list[Cell]], rates: Rates, now: float) -> Reading:
    rows: list[list[Cell]] = []
    lag = read = written = 0
    for _, topic, partition, current, end, behind, _, _, client_id in offsets:
        current_offset, end_offset = _number(current), _number(end)
        lag, read, written = lag + _number(behind), read + current_offset, written + end_offset
        read_rate = rates.rate((topic, partition, "read"), current_offset, now)
        written_rate = rates.rate((topic, partition, "written"), end_offset, now)
        rows.append(
            [topic, partition, current, end, behind, per_second(read_rate), per_second(written_rate), client_id]
        )
    read_rate, written_rate = rates.rate("read", read, now), rates.rate("written", written, now)
    rows.append(["total", None, read, written, lag, per_second(read_rate), per_second(written_rate), None])
    line: dict[str, str | int | float | None] = {
        "group": group.name,
        "state": group.state,
        "members": len(group.members),
        "lag": lag,
        "read_per_second": read_rate,
        "written_per_second": written_rate,
    }
    columns = ["TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "READ/S", "WRITTEN/S", "CLIENT-ID"]
    return Reading(f"Group {group.name}: {group.state}, {count(len(group.members), 'member')}", columns, rows, [line])


def _number(cell: Cell) -> int:
    return cell if isinstance(cell, int) else 0


def _print_reset(
    name: str, offsets: dict[TopicPartition, int], committed: dict[TopicPartition, int], executed: bool, json: bool
) -> None:
    columns = ["GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "NEW-OFFSET"]
    rows = [(name, *partition, committed.get(partition), offset) for partition, offset in sorted(offsets.items())]
    if json:
        print_json(
            {"executed": executed, "offsets": [dict(zip(map(_json_name, columns), row, strict=True)) for row in rows]}
        )
        return
    print_table(columns, rows)
    if not executed:
        note("Nothing was changed; add --execute to commit these offsets.")


def _offsets(admin: Admin, group: Group, committed: dict[TopicPartition, int]) -> list[list[Cell]]:
    """A row for every partition with a committed offset or a member. Partitions without a member come last."""
    owners = {partition: member for member in group.members for partition in member.assignment}
    partitions = sorted(committed.keys() | owners.keys(), key=lambda partition: (partition not in owners, partition))
    ends = admin.offsets(partitions, LATEST)
    rows: list[list[Cell]] = []
    for partition in partitions:
        current, end, owner = committed.get(partition), ends.get(partition), owners.get(partition)
        lag = None if current is None or end is None else max(0, end - current)
        who: list[Cell] = [None, None, None] if owner is None else [owner.id, owner.host, owner.client_id]
        rows.append([group.name, *partition, current, end, lag, *who])
    return rows


def _members(group: Group) -> tuple[list[str], list[list[Cell]]]:
    columns = ["GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS", "ASSIGNMENT"]
    rows: list[list[Cell]] = [
        [group.name, member.id, member.host, member.client_id, len(member.assignment), _assignment(member.assignment)]
        for member in group.members
    ]
    return columns, rows


def _assignment(partitions: list[TopicPartition]) -> str:
    """`clicks(0,1);views(2)`, without spaces, so that scripts see one column."""
    topics: dict[str, list[str]] = {}
    for partition in sorted(partitions):
        topics.setdefault(partition.topic, []).append(str(partition.partition))
    return ";".join(f"{topic}({','.join(numbers)})" for topic, numbers in topics.items())


def _state(group: Group) -> tuple[list[str], list[list[Cell]]]:
    columns = ["GROUP", "COORDINATOR", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS"]
    coordinator = f"{group.coordinator.host}:{group.coordinator.port}({group.coordinator.id})"
    return columns, [[group.name, coordinator, group.assignor, group.state, len(group.members)]]


def _json_name(column: str) -> str:
    return column.lower().replace("-", "_").replace("#", "")
