"""`ottla cluster status` and `ottla cluster disks`: whether the cluster is healthy, and where its bytes are."""

from collections import Counter
from dataclasses import replace as replaced
from typing import Any

import typer

from ottla.cli.admin import Cluster
from ottla.cli.cluster_admin import ClusterAdmin, ClusterState
from ottla.cli.command_error import CommandError
from ottla.cli.doctor import Health, examine
from ottla.cli.options import DEFAULT_BOOTSTRAP_SERVER, BootstrapServer, ClientSettings, Json
from ottla.cli.output import count, first_few, human_bytes, note, print_json, print_table, say, styled
from ottla.errors import ErrorCode
from ottla.model import TopicPartition


def status(
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    client_settings: ClientSettings = None,
    json: Json = False,
) -> None:
    """Show the brokers and their load, and exit with 1 if something is wrong.

    Wrong are: a broker that has replicas and does not run or answer, a partition without a leader, with too few
    in-sync replicas for acks=all, or with a replica that is not in sync, and a failed log directory. A replica that is
    being added by a move is not expected to be in sync. `ottla doctor` checks the addresses of the brokers too.

    \b
    Examples:
      ottla cluster status
      ottla cluster status --json || echo "something is wrong"
    """
    admin = ClusterAdmin(bootstrap_server, client_settings)
    state = admin.state()
    health = examine(_without_moves(state))
    below = _below_minimum(admin, state, health)
    problems = _problems(state, health, below)
    if json:
        print_json(_document(state, health, below, problems))
    else:
        _print(state)
        for problem in problems:
            print(styled("FAIL", typer.colors.RED), problem)
    if problems:
        raise CommandError(f"The cluster is not healthy: {count(len(problems), 'problem')}.")
    if not json:
        say("The cluster is healthy.")


def disks(
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    client_settings: ClientSettings = None,
    json: Json = False,
) -> None:
    """Show the log directories of all brokers: replicas, bytes, and the space on their volumes.

    \b
    Examples:
      ottla cluster disks
      ottla cluster disks --json
    """
    state = ClusterAdmin(bootstrap_server, client_settings).state()
    rows = [
        {
            "broker": broker,
            "directory": directory.path,
            "error": None if directory.error is ErrorCode.NONE else directory.error.name,
            "replicas": len(directory.sizes),
            "moving_in": len(directory.moving_in),
            "bytes": sum(directory.sizes.values()),
            "volume_bytes": directory.total,
            "usable_bytes": directory.usable,
        }
        for broker, directories in sorted(state.directories.items())
        for directory in directories
    ]
    if json:
        print_json(rows)
    else:
        print_table(
            ["BROKER", "DIRECTORY", "REPLICAS", "MOVING IN", "SIZE", "FREE", "VOLUME"],
            [
                (
                    row["broker"],
                    row["directory"] if row["error"] is None else f"{row['directory']} ({row['error']})",
                    row["replicas"],
                    row["moving_in"],
                    _size(row["bytes"]),
                    _size(row["usable_bytes"]),
                    _size(row["volume_bytes"]),
                )
                for row in rows
            ],
        )
    silent = sorted(state.alive - state.directories.keys())
    if silent:
        raise CommandError(f"Broker {silent[0]} did not describe its directories; see `ottla doctor`.")


def _size(value: Any) -> str | None:
    return None if value is None else human_bytes(value)


def _without_moves(state: ClusterState) -> Cluster:
    """The cluster without the replicas that are being added: nobody expects them to be in sync."""
    partitions = dict(state.cluster.partitions)
    for key, move in state.ongoing.items():
        now = partitions.get(key)
        if now is not None:
            assigned = [broker for broker in now.assigned if broker not in move.adding or broker in now.in_sync]
            partitions[key] = replaced(now, assigned=assigned)
    return replaced(state.cluster, partitions=partitions)


def _below_minimum(admin: ClusterAdmin, state: ClusterState, health: Health) -> list[TopicPartition]:
    """Partitions that reject acks=all. Only under-replicated partitions can be among them."""
    topics = sorted({key.topic for key in health.under_replicated})
    minimum = {
        topic: int(next((it.value for it in configs if it.name == "min.insync.replicas"), None) or 1)
        for topic, configs in admin.admin.start_configs("topic", topics)().items()
    }
    partitions = state.cluster.partitions
    return [
        key
        for key in health.under_replicated
        if len(partitions[key].in_sync) < min(minimum[key.topic], len(partitions[key].assigned))
    ]


def _problems(state: ClusterState, health: Health, below: list[TopicPartition]) -> list[str]:
    found = health.problems
    if below:
        verb = "rejects" if len(below) == 1 else "reject"
        found.append(
            f"{count(len(below), 'partition')} {verb} acks=all, with too few in-sync replicas: {first_few(below)}"
        )
    found += [f"Broker {broker} does not answer" for broker in sorted(state.alive - state.directories.keys())]
    found += [
        f"Log directory {directory.path} of broker {broker} has failed: {directory.error.name}"
        for broker, directories in sorted(state.directories.items())
        for directory in directories
        if directory.error is not ErrorCode.NONE
    ]
    return found


def _rows(state: ClusterState) -> list[dict[str, Any]]:
    replicas: Counter[int] = Counter()
    leaders: Counter[int | None] = Counter()
    for partition in state.cluster.partitions.values():
        replicas.update(partition.assigned)
        leaders[partition.leader] += 1
    rows = []
    for broker in state.brokers:
        directories = state.directories.get(broker.id)
        free = [directory.usable for directory in directories or () if directory.usable is not None]
        rows.append(
            {
                "broker": broker.id,
                "address": f"{broker.host}:{broker.port}",
                "rack": state.racks.get(broker.id),
                "controller": broker.id == state.cluster.controller,
                "replicas": replicas[broker.id],
                "leaders": leaders[broker.id],
                "bytes": None if directories is None else sum(sum(it.sizes.values()) for it in directories),
                "usable_bytes": min(free) if free else None,
            }
        )
    return rows


def _print(state: ClusterState) -> None:
    rows = _rows(state)
    parts = [
        count(len(rows), "broker"),
        count(len(state.cluster.topics), "topic"),
        count(len(state.cluster.partitions), "partition"),
        human_bytes(sum(row["bytes"] or 0 for row in rows)),
    ]
    print(styled(f"Cluster {state.cluster.id}: {', '.join(parts)}", typer.colors.CYAN))
    has_racks = any(row["rack"] for row in rows)
    print_table(
        ["BROKER", "ADDRESS", *(["RACK"] if has_racks else []), "CONTROLLER", "REPLICAS", "LEADERS", "SIZE", "FREE"],
        [
            (
                row["broker"],
                row["address"],
                *([row["rack"]] if has_racks else []),
                "yes" if row["controller"] else None,
                row["replicas"],
                row["leaders"],
                _size(row["bytes"]),
                _size(row["usable_bytes"]),
            )
            for row in rows
        ],
    )
    if state.ongoing:
        note(f"{count(len(state.ongoing), 'partition')} being moved; see `ottla cluster reassign --list`.")
    elsewhere = _not_preferred(state)
    if elsewhere:
        note(
            f"{count(len(elsewhere), 'partition')} not led by the preferred leader: {first_few(elsewhere)}; "
            "`ottla cluster elect --all` changes this."
        )


def _not_preferred(state: ClusterState) -> list[TopicPartition]:
    """Partitions whose preferred leader is in sync and does not lead."""
    return [
        key
        for key, now in state.cluster.partitions.items()
        if key not in state.ongoing and now.leader != now.assigned[0] and now.assigned[0] in now.in_sync
    ]


def _document(state: ClusterState, health: Health, below: list[TopicPartition], problems: list[str]) -> dict[str, Any]:
    return {
        "cluster_id": state.cluster.id,
        "healthy": not problems,
        "problems": problems,
        "brokers": _rows(state),
        "topics": len(state.cluster.topics),
        "partitions": len(state.cluster.partitions),
        "dead_brokers": sorted(health.dead_brokers),
        "without_leader": [key._asdict() for key in health.without_leader],
        "under_replicated": [key._asdict() for key in health.under_replicated],
        "below_min_insync_replicas": [key._asdict() for key in below],
        "not_led_by_preferred": [key._asdict() for key in _not_preferred(state)],
        "moving": [key._asdict() for key in state.ongoing],
    }
