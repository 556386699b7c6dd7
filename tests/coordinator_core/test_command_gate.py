"""Every call out of order fails the gate, and nothing opens a failed gate again."""

from collections.abc import Callable

import pytest

from ottla.coordinator_core.command_gate import CommandGate, CommandOrderError, GateState
from ottla.coordinator_core.effects import Outcome, Result


class Deciding(Outcome[str, Result, str]):
    """An outcome with records."""

    def __init__(self, *records: str) -> None:
        super().__init__()
        self.records = list(records)


Gate = CommandGate[Deciding]


def in_state(state: GateState) -> tuple[Gate, Deciding]:
    gate, outcome = Gate(), Deciding("record")
    if state is GateState.FAILED:
        gate.fail()
    elif state is not GateState.READY:
        gate.begin()
        if state is GateState.UNWRITTEN:
            gate.end(outcome)
    assert gate.state is state
    return gate, outcome


def test_a_command_with_records() -> None:
    gate, outcome = in_state(GateState.UNWRITTEN)
    gate.settle(outcome)
    assert gate.state is GateState.READY


def test_a_command_without_records() -> None:
    gate, _ = in_state(GateState.DECIDING)
    gate.end(Deciding())
    gate.check_ready()
    assert gate.state is GateState.READY


@pytest.mark.parametrize(
    ("state", "call"),
    [
        (GateState.READY, lambda gate, outcome: gate.end(outcome)),
        (GateState.READY, lambda gate, outcome: gate.settle(outcome)),
        (GateState.DECIDING, lambda gate, outcome: gate.begin()),
        (GateState.DECIDING, lambda gate, outcome: gate.settle(outcome)),
        (GateState.DECIDING, lambda gate, outcome: gate.check_ready()),
        (GateState.UNWRITTEN, lambda gate, outcome: gate.begin()),
        (GateState.UNWRITTEN, lambda gate, outcome: gate.end(outcome)),
        (GateState.UNWRITTEN, lambda gate, outcome: gate.settle(Deciding("another"))),
        (GateState.UNWRITTEN, lambda gate, outcome: gate.check_ready()),
        (GateState.FAILED, lambda gate, outcome: gate.begin()),
        (GateState.FAILED, lambda gate, outcome: gate.end(outcome)),
        (GateState.FAILED, lambda gate, outcome: gate.settle(outcome)),
        (GateState.FAILED, lambda gate, outcome: gate.check_ready()),
    ],
)
def test_a_call_out_of_order(state: GateState, call: Callable[[Gate, Deciding], object]) -> None:
    gate, outcome = in_state(state)
    with pytest.raises(CommandOrderError, match=f"in state '{state.value}'"):
        call(gate, outcome)
    assert gate.state is GateState.FAILED


@pytest.mark.parametrize("state", GateState)
def test_a_gate_can_fail_in_every_state(state: GateState) -> None:
    gate, _ = in_state(state)
    gate.fail()
    assert gate.state is GateState.FAILED
