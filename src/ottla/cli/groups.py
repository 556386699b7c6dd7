"""`ottla groups ...`"""

from typing import Annotated

import typer

from ottla.cli.admin import LATEST, Admin, Group
from ottla.cli.client import Client
from ottla.cli.command_error import CommandError
from ottla.cli.offset_reset import chosen_partitions, plan_reset, read_target
from ottla.cli.options import DEFAULT_BOOTSTRAP_SERVER, BootstrapServer, ClientSettings, Json, family
from ottla.cli.output import Cell, each, note, print_json, print_table
from ottla.errors import ErrorCode
from ottla.model import TopicPartition

app = family("List, describe, reset and delete consumer groups.")

GroupName = Annotated[str, typer.Argument(metavar="GROUP", help="Name of the consumer group.", show_default=False)]

Topics = Annotated[
    list[str],
    typer.Option(
        "--topic",
        metavar="TOPIC",
        help="Topic, or TOPIC:0,1 for some partitions; may be repeated.",
        show_default=False,
    ),
]

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


@app.command()
def describe(
    name: GroupName,
    members: Annotated[bool, typer.Option("--members", help="Show the members and what each one reads.")] = False,
    state: Annotated[bool, typer.Option("--state", help="Show state, coordinator and number of members.")] = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    client_settings: ClientSettings = None,
    json: Json = False,
) -> None:
    """Show how far a group has read each partition, and how far it lags behind.

    \b
    Examples:
      ottla groups describe reports
      ottla groups describe reports --members
    """
    if members and state:
        raise typer.BadParameter("--members and --state are two different views; leave one out")
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


@app.command()
def delete(
    names: Annotated[list[str], typer.Argument(metavar="GROUP", help="Names of groups.", show_default=False)],
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


@app.command("reset-offsets")
def reset_offsets(
    name: GroupName,
    topic: Topics,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="To the oldest record.")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="Past the newest record.")] = False,
    to_offset: Annotated[
        int | None, typer.Option("--to-offset", metavar="OFFSET", min=0, help="To this offset.")
    ] = None,
    to_datetime: Annotated[
        str | None,
        typer.Option(
            "--to-datetime", metavar="WHEN", help="To the first record at or after, as 2026-01-31T13:00:00; UTC."
        ),
    ] = None,
    shift_by: Annotated[
        int | None, typer.Option("--shift-by", metavar="N", help="Forward by so many records, or back if negative.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the new offsets; this is the default.")] = False,
    execute: Annotated[bool, typer.Option("--execute", help="Commit the new offsets.")] = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    client_settings: ClientSettings = None,
    json: Json = False,
) -> None:
    """Move a group that has no active members to other offsets. Without --execute nothing is changed.

    \b
    Examples:
      ottla groups reset-offsets reports --topic clicks --to-earliest
      ottla groups reset-offsets reports --topic clicks:0 --shift-by -10 --execute
    """
    if dry_run and execute:
        raise typer.BadParameter("--dry-run and --execute contradict each other; leave one out")
    target = read_target(to_earliest, to_latest, to_offset, to_datetime, shift_by)
    admin = Admin(Client(bootstrap_server, client_settings))
    group = admin.describe_group(name)
    if group.state not in INACTIVE:
        raise CommandError(f"Consumer group '{name}' is {group.state}; stop its consumers before moving its offsets.")
    offsets = plan_reset(admin, name, topic, target)
    if execute:
        admin.alter_committed(name, offsets)
    _print_reset(name, offsets, execute, json)


@app.command("delete-offsets")
def delete_offsets(
    name: GroupName,
    topic: Topics,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    client_settings: ClientSettings = None,
    json: Json = False,
) -> None:
    """Forget how far a group has read topics that it no longer reads.

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


def _print_reset(name: str, offsets: dict[TopicPartition, int], executed: bool, json: bool) -> None:
    columns = ["GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"]
    rows = [(name, *partition, offset) for partition, offset in sorted(offsets.items())]
    if json:
        print_json(
            {"executed": executed, "offsets": [dict(zip(map(_json_name, columns), row, strict=True)) for row in rows]}
        )
        return
    print_table(columns, rows)
    if not executed:
        note("Nothing was changed; add --execute to commit these offsets.")


def _offsets(admin: Admin, group: Group, committed: dict[TopicPartition, int]) -> list[list[Cell]]:
    """A row for every partition the group has committed or is reading; a partition nobody reads comes last."""
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
    """`clicks(0,1);views(2)`, without spaces so that it stays one column."""
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
