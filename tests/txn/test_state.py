import itertools
from pathlib import Path

import pytest

from ottla.coordinator_core.transitions import IllegalTransitionError
from ottla.txn.state import (
    BY_CODE,
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    DEAD,
    EMPTY,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    TRANSITIONS,
    TransactionState,
)

PAGE = Path(__file__).parents[2] / "docs" / "formats" / "transaction-state.md"

AT_REST = (EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT)
LEGAL = {
    *itertools.product(AT_REST, (EMPTY, ONGOING, PREPARE_ABORT, DEAD)),
    (ONGOING, ONGOING),
    (ONGOING, PREPARE_COMMIT),
    (ONGOING, PREPARE_ABORT),
    (PREPARE_COMMIT, COMPLETE_COMMIT),
    (PREPARE_ABORT, COMPLETE_ABORT),
}


@pytest.mark.parametrize(("current", "target"), list(itertools.product(TransactionState, TransactionState)))
def test_only_the_moves_in_the_table_are_possible(current: TransactionState, target: TransactionState) -> None:
    if (current, target) in LEGAL:
        TRANSITIONS.check(current, target)
    else:
        with pytest.raises(IllegalTransitionError, match=f"from {current.value} to {target.value}"):
            TRANSITIONS.check(current, target)


def test_codes_are_kafkas() -> None:
    names = [BY_CODE[code].value for code in range(8)]
    assert names[:4] == ["Empty", "Ongoing", "PrepareCommit", "PrepareAbort"]
    assert names[4:] == ["CompleteCommit", "CompleteAbort", "Dead", "PrepareEpochFence"]
    assert all(BY_CODE[state.code] is state for state in TransactionState)


def test_the_diagram_in_the_documentation_is_current() -> None:
    assert f"```mermaid\n{TRANSITIONS.diagram()}\n```" in PAGE.read_text()
