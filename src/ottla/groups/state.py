"""The states of a classic group, and the one table of the moves between them."""

from enum import Enum


class GroupState(Enum):
    """The values are the names Kafka shows in DescribeGroups and ListGroups."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


EMPTY = GroupState.EMPTY
PREPARING_REBALANCE = GroupState.PREPARING_REBALANCE
COMPLETING_REBALANCE = GroupState.COMPLETING_REBALANCE
STABLE = GroupState.STABLE
DEAD = GroupState.DEAD

UNLOADED = "the partition moves to another broker"

TRANSITIONS: dict[GroupState, dict[GroupState, str]] = {
    EMPTY: {
        PREPARING_REBALANCE: "a first member joins",
        DEAD: f"the group is deleted or its last offset expires, or {UNLOADED}",
    },
    PREPARING_REBALANCE: {
        COMPLETING_REBALANCE: "every member has joined, or the rebalance timeout has passed",
        EMPTY: "every member has left",
        DEAD: UNLOADED,
    },
    COMPLETING_REBALANCE: {
        STABLE: "the leader's assignment is written",
        PREPARING_REBALANCE: "a member joins, leaves, fails or does not sync in time",
        DEAD: UNLOADED,
    },
    STABLE: {
        PREPARING_REBALANCE: "a member joins, leaves, fails or changes its metadata",
        DEAD: UNLOADED,
    },
    DEAD: {},
}
"""From each state, the states it may move to and what moves it there. There is no other way."""


class IllegalTransitionError(Exception):
    def __init__(self, current: GroupState, target: GroupState) -> None:
        super().__init__(f"a group cannot move from {current.value} to {target.value}")


def check_transition(current: GroupState, target: GroupState) -> None:
    if target not in TRANSITIONS[current]:
        raise IllegalTransitionError(current, target)


def state_diagram() -> str:
    """The table as a Mermaid diagram, for the documentation."""
    lines = ["stateDiagram-v2", f"    [*] --> {EMPTY.value}"]
    for current, targets in TRANSITIONS.items():
        lines += [f"    {current.value} --> {target.value}: {reason}" for target, reason in targets.items()]
    lines.append(f"    {DEAD.value} --> [*]")
    return "\n".join(lines)
