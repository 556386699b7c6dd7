"""A plan for the replicas of a cluster: as tables for a person, as JSON, and in the file format of Kafka's tools."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from ottla.cli.cluster_admin import ClusterState
from ottla.cli.output import count, human_bytes, note, print_table
from ottla.cluster.rebalance import Move, Plan
from ottla.model import TopicPartition

SHOWN_MOVES = 20


def print_plan(state: ClusterState, plan: Plan) -> None:
    if plan.changes:
        _print_changes(plan)
        print()
    _print_brokers(state, plan)
    print()
    print(summary(plan))


def summary(plan: Plan) -> str:
    """One sentence."""
    if plan.is_empty:
        return "Nothing to move: the cluster is balanced."
    parts = []
    if plan.moves:
        parts.append(f"{count(len(plan.moves), 'partition')} to move, {human_bytes(plan.bytes_to_copy)} to copy")
    if plan.elections:
        parts.append(f"{count(len(plan.elections), 'partition')} to get another leader")
    elif plan.reorders:
        parts.append(f"{count(len(plan.reorders), 'partition')} to get another order of replicas")
    return "; ".join(parts) + "."


def _print_changes(plan: Plan) -> None:
    shown = sorted(plan.moves, key=lambda move: move.partition) + list(plan.reorders)
    print_table(
        ["PARTITION", "SIZE", "REPLICAS", "NEW REPLICAS", "TO COPY"],
        [
            (
                str(move.partition),
                human_bytes(move.size),
                joined(move.before),
                joined(move.after),
                human_bytes(move.bytes_to_copy),
            )
            for move in shown[:SHOWN_MOVES]
        ],
    )
    if len(shown) > SHOWN_MOVES:
        note(f"... and {len(shown) - SHOWN_MOVES} more; --json prints all.")


def _print_brokers(state: ClusterState, plan: Plan) -> None:
    rows = broker_rows(state, plan)
    has_racks = any(row["rack"] for row in rows)
    columns = ["BROKER", *(["RACK"] if has_racks else []), "REPLICAS", "AFTER", "LEADERS", "AFTER", "SIZE", "AFTER"]
    print_table(
        columns,
        [
            (
                row["broker"] if row["running"] else f"{row['broker']} (not running)",
                *([row["rack"]] if has_racks else []),
                row["replicas_before"],
                row["replicas_after"],
                row["leaders_before"],
                row["leaders_after"],
                human_bytes(row["bytes_before"]),
                human_bytes(row["bytes_after"]),
            )
            for row in rows
        ],
    )


def broker_rows(state: ClusterState, plan: Plan) -> list[dict[str, Any]]:
    """Replicas, leaders and bytes of each broker, before and after the plan."""
    changed = {move.partition: move.after for move in plan.changes}
    elected = set(plan.elections)
    replicas_before: Counter[int] = Counter()
    replicas_after: Counter[int] = Counter()
    leaders_before: Counter[int | None] = Counter()
    leaders_after: Counter[int | None] = Counter()
    bytes_before: Counter[int] = Counter()
    bytes_after: Counter[int] = Counter()
    for key, now in state.cluster.partitions.items():
        size = state.sizes.get(key, 0)
        after = changed.get(key, tuple(now.assigned))
        replicas_before.update(now.assigned)
        replicas_after.update(after)
        bytes_before.update(dict.fromkeys(now.assigned, size))
        bytes_after.update(dict.fromkeys(after, size))
        leaders_before[now.leader] += 1
        leaders_after[after[0] if key in elected or now.leader not in after else now.leader] += 1
    alive = state.alive
    return [
        {
            "broker": broker,
            "rack": state.racks.get(broker),
            "running": broker in alive,
            "replicas_before": replicas_before[broker],
            "replicas_after": replicas_after[broker],
            "leaders_before": leaders_before[broker],
            "leaders_after": leaders_after[broker],
            "bytes_before": bytes_before[broker],
            "bytes_after": bytes_after[broker],
        }
        for broker in sorted(alive | set(replicas_before))
    ]


def plan_document(state: ClusterState, plan: Plan) -> dict[str, Any]:
    return {
        "moves": [_change(move) for move in plan.moves],
        "preferred_leader_changes": [_change(move) for move in plan.reorders],
        "elections": [partition._asdict() for partition in plan.elections],
        "bytes_to_copy": plan.bytes_to_copy,
        "brokers": broker_rows(state, plan),
        "reassignment": kafka_document((move.partition, move.after) for move in plan.changes),
        "rollback": kafka_document((move.partition, move.before) for move in plan.changes),
    }


def _change(move: Move) -> dict[str, Any]:
    return {**move.partition._asdict(), "size": move.size, "from": list(move.before), "to": list(move.after)}


def kafka_document(assigned: Iterable[tuple[TopicPartition, Sequence[int]]]) -> dict[str, Any]:
    """The format that kafka-reassign-partitions.sh and `ottla cluster reassign --file` read."""
    return {
        "version": 1,
        "partitions": [
            {"topic": key.topic, "partition": key.partition, "replicas": list(replicas)} for key, replicas in assigned
        ],
    }


def joined(brokers: Iterable[int]) -> str:
    return ",".join(map(str, brokers))
