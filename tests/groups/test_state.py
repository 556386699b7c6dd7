import itertools
from pathlib import Path

import pytest

from ottla.coordinator_core.transitions import IllegalTransitionError
from ottla.groups.state import (
    COMPLETING_REBALANCE,
    DEAD,
    EMPTY,
    PREPARING_REBALANCE,
    STABLE,
    TRANSITIONS,
    GroupState,
)

PAGE = Path(__file__).parents[2] / "docs" / "formats" / "consumer-offsets.md"

LEGAL = {
    (EMPTY, PREPARING_REBALANCE),
    (PREPARING_REBALANCE, COMPLETING_REBALANCE),
    (PREPARING_REBALANCE, EMPTY),
    (COMPLETING_REBALANCE, STABLE),
    (COMPLETING_REBALANCE, PREPARING_REBALANCE),
    (STABLE, PREPARING_REBALANCE),
    (EMPTY, DEAD),
    (PREPARING_REBALANCE, DEAD),
    (COMPLETING_REBALANCE, DEAD),
    (STABLE, DEAD),
}


@pytest.mark.parametrize(("current", "target"), list(itertools.product(GroupState, GroupState)))
def test_only_the_moves_in_the_table_are_possible(current: GroupState, target: GroupState) -> None:
    if (current, target) in LEGAL:
        TRANSITIONS.check(current, target)
    else:
        with pytest.raises(IllegalTransitionError, match=f"from {current.value} to {target.value}"):
            TRANSITIONS.check(current, target)


def test_the_diagram_in_the_documentation_is_current() -> None:
    assert f"```mermaid\n{TRANSITIONS.diagram()}\n```" in PAGE.read_text()
