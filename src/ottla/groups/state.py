"""The states of a classic group, and the table of transitions between them."""

from enum import Enum

from ottla.coordinator_core.transitions import Transitions


class GroupState(Enum):
    """The values are Kafka's names in DescribeGroups and ListGroups."""

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

TRANSITIONS = Transitions(
    "a group",
    EMPTY,
    DEAD,
    {
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
    },
)
