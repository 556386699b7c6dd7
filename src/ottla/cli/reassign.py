"""`ottla cluster reassign`: replicas that the operator chooses, and the moves that are under way."""

import json as json_format
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from ottla.cli import moving
from ottla.cli.cluster_admin import ClusterAdmin, ClusterState
from ottla.cli.command_error import CommandError
from ottla.cli.directory_moves import ANY, move_between_directories
from ottla.cli.moving import MoveOptions, Throttle
from ottla.cli.options import DEFAULT_BOOTSTRAP_SERVER, BootstrapServer, ClientSettings, Json
from ottla.cli.output import count, note, print_json, print_table, say
from ottla.cli.plan_view import joined
from ottla.cluster.rebalance import Move, Plan, PlanBroker, balance
from ottla.model import TopicPartition


@dataclass(frozen=True, slots=True)
class Assignment:
    """What a file or the options ask for."""

    replicas: dict[TopicPartition, tuple[int, ...]]
    directories: dict[int, dict[TopicPartition, str]] = field(default_factory=dict)
    """By broker: the directory that a replica has to be in."""


def reassign(
    file: Annotated[
        Path | None,
        typer.Option(
            "--file",
            "-f",
            "--reassignment-json-file",
            metavar="FILE",
            exists=True,
            dir_okay=False,
            help="The new replicas, in the JSON format of kafka-reassign-partitions.sh; log_dirs included.",
        ),
    ] = None,
    topics: Annotated[
        list[str] | None, typer.Option("--topic", "-t", metavar="NAME", help="Topic to move; may be repeated.")
    ] = None,
    to: Annotated[
        str | None, typer.Option("--to", metavar="ID,ID,...", help="Brokers over which the topics are spread.")
    ] = None,
    execute: Annotated[
        bool, typer.Option("--execute/--preview", help="Move the replicas, or only show what would move (default).")
    ] = False,
    throttle: Throttle = None,
    wait: Annotated[
        bool | None,
        typer.Option(
            "--wait/--no-wait",
            help="With --execute: show progress until the moves are done (default), or return at once. Alone, --wait "
            "shows the moves that are under way, then elects leaders and removes the throttle.",
        ),
    ] = None,
    cancel: Annotated[
        bool,
        typer.Option("--cancel", help="Cancel the moves of the file, or all, and remove the throttle if none is left."),
    ] = False,
    listing: Annotated[bool, typer.Option("--list", help="List the moves that are under way.")] = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    client_settings: ClientSettings = None,
    json: Json = False,
) -> None:
    """Give partitions other replicas, and show or cancel the moves that are under way.

    A moving partition never lacks a replica: the new replicas are added first, and the old ones are removed when the
    new ones are in sync. The first replica of each list is the preferred leader.

    \b
    Examples:
      ottla cluster reassign --topic clicks --to 1,2,4
      ottla cluster reassign --topic clicks --to 1,2,4 --execute --throttle 20MB
      ottla cluster reassign --file plan.json --execute
      ottla cluster reassign --list
      ottla cluster reassign --wait
      ottla cluster reassign --cancel
    """
    _check_usage(file, topics, to, execute, wait, cancel, listing)
    if throttle is not None and (cancel or listing or (file is None and not topics)):
        raise typer.BadParameter("--throttle is for new moves")
    admin = ClusterAdmin(bootstrap_server, client_settings)
    if listing:
        _list(admin.ongoing(), json)
    elif cancel:
        named = None if file is None else read_assignment(file).replicas
        moving.cancel_moves(admin, json, lambda key, _: named is None or key in named)
    elif file is None and not topics:
        _wait_for_ongoing(admin, json)
    else:
        state = admin.state()
        wanted = _spread(state, topics or [], to or "") if file is None else read_assignment(file)
        options = MoveOptions(not execute, throttle, wait is not False, json)
        document = moving.carry_out(admin, state, plan_for(state, wanted), options)
        done = document["state"] == moving.DONE
        if done and wanted.directories:
            move_between_directories(admin, wanted.directories, quiet=json)
        if json:
            print_json(document)
        elif done:
            say("All moves are done.")
        elif not execute:
            note("Nothing was changed; add --execute to move the replicas.")


def _check_usage(
    file: Path | None,
    topics: list[str] | None,
    to: str | None,
    execute: bool,
    wait: bool | None,
    cancel: bool,
    listing: bool,
) -> None:
    if bool(topics) != bool(to):
        raise typer.BadParameter("--topic and --to belong together")
    if file is not None and topics:
        raise typer.BadParameter("give --file, or --topic with --to")
    given = file is not None or bool(topics)
    if cancel + listing + execute > 1 or (listing and given) or (cancel and topics):
        raise typer.BadParameter("--list, --cancel and --execute are different commands")
    if not (given or cancel or listing or (wait and not execute)):
        raise typer.BadParameter("give --file, or --topic with --to, or one of --list, --wait and --cancel")


def read_assignment(file: Path) -> Assignment:
    """Read a file in the format of Kafka's tools."""
    try:
        document = json_format.loads(file.read_text())
        entries = document["partitions"]
        replicas: dict[TopicPartition, tuple[int, ...]] = {}
        directories: dict[int, dict[TopicPartition, str]] = {}
        for entry in entries:
            key = TopicPartition(str(entry["topic"]), int(entry["partition"]))
            if key in replicas:
                raise ValueError(f"{key} appears twice")
            replicas[key] = tuple(int(broker) for broker in entry["replicas"])
            paths = entry.get("log_dirs") or [ANY] * len(replicas[key])
            for broker, path in zip(replicas[key], paths, strict=True):
                if path != ANY:
                    directories.setdefault(broker, {})[key] = str(path)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        reason = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)
        raise CommandError(
            f"{file} is not an assignment as kafka-reassign-partitions.sh writes it "
            f'({{"version": 1, "partitions": [{{"topic": ..., "partition": ..., "replicas": [...]}}]}}): {reason}.'
        ) from error
    if not replicas:
        raise CommandError(f"{file} names no partition.")
    return Assignment(replicas, directories)


def _spread(state: ClusterState, topics: Sequence[str], to: str) -> Assignment:
    """The topics, spread evenly over some brokers."""
    try:
        targets = {int(text) for text in to.split(",")}
    except ValueError:
        raise typer.BadParameter(f"{to!r} is no list of broker ids, such as 1,2,3", param_hint="--to") from None
    unknown = sorted(targets - state.alive)
    if unknown:
        raise CommandError(
            f"Broker {unknown[0]} is not running; the running brokers are {joined(sorted(state.alive))}."
        )
    missing = sorted(set(topics) - set(state.cluster.topics))
    if missing:
        raise CommandError(f"Topic '{missing[0]}' does not exist; see `ottla topics list`.")
    placed = state.placed(topics)
    brokers = [PlanBroker(it.id, it.rack, it.id in targets) for it in state.plan_brokers()]
    plan = balance(brokers, placed)
    if plan.unplaceable:
        key = plan.unplaceable[0]
        raise CommandError(
            f"{key} has {len(state.cluster.partitions[key].assigned)} replicas, more than the brokers of --to "
            f"({len(targets)}); name more brokers."
        )
    after = {partition.name: partition.replicas for partition in placed}
    return Assignment(after | {move.partition: move.after for move in plan.changes})


def plan_for(state: ClusterState, wanted: Assignment) -> Plan:
    """The differences between the wanted and the present replicas."""
    moves, reorders, elections = [], [], []
    for key, after in wanted.replicas.items():
        now = state.cluster.partitions.get(key)
        if now is None:
            raise CommandError(f"There is no partition {key}; see `ottla topics describe {key.topic}`.")
        change = Move(key, tuple(now.assigned), after, state.sizes.get(key, 0))
        if set(after) != set(now.assigned):
            moves.append(change)
        elif list(after) != now.assigned:
            reorders.append(change)
        if after and now.leader != after[0]:
            elections.append(key)
    return Plan(tuple(moves), tuple(reorders), tuple(elections))


def _list(ongoing: Mapping[TopicPartition, Any], json: bool) -> None:
    if json:
        print_json(
            [
                {**key._asdict(), "replicas": it.replicas, "adding": it.adding, "removing": it.removing}
                for key, it in sorted(ongoing.items())
            ]
        )
        return
    if not ongoing:
        say("No partition is being moved.")
        return
    print_table(
        ["PARTITION", "REPLICAS", "ADDING", "REMOVING"],
        [
            (str(key), joined(it.replicas), joined(it.adding), joined(it.removing))
            for key, it in sorted(ongoing.items())
        ],
    )


def _wait_for_ongoing(admin: ClusterAdmin, json: bool) -> None:
    state = admin.state()
    moves = [
        Move(key, tuple(it.origin), tuple(it.target), state.sizes.get(key, 0)) for key, it in state.ongoing.items()
    ]
    moving.wait_for(admin, moves, MoveOptions(False, None, True, json), throttled=True)
    moving.elect_preferred(admin, [move.partition for move in moves])
    if json:
        print_json({"done": [move.partition._asdict() for move in moves]})
    else:
        say(
            f"{count(len(moves), 'move')} done; no partition is being moved."
            if moves
            else "No partition is being moved."
        )
