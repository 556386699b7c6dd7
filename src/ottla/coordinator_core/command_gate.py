"""The order in which the caller of a core must call it, as a state machine.

Between an outcome with records and the news of their append, the core accepts no other command: it would decide on
state that is not written yet. After a mistake, the state in memory may differ from the log: the gate is FAILED, the
core refuses every command, and its caller must load a new core from the log.
"""

from enum import Enum
from typing import Any, Generic, TypeVar

from ottla.coordinator_core.effects import Outcome

OutcomeT = TypeVar("OutcomeT", bound=Outcome[Any, Any, Any])


class GateState(Enum):
    READY = "ready"
    """The state in memory is what the log says. The next command may begin."""
    DECIDING = "deciding"
    """A command is running. If it raises, the gate stays here and refuses the next command."""
    UNWRITTEN = "unwritten"
    """The command has records. The caller must append them, or give them up."""
    FAILED = "failed"
    """The state in memory may differ from the log. There is no way back."""


READY, DECIDING, UNWRITTEN, FAILED = GateState

MOVES = {
    READY: {DECIDING, FAILED},
    DECIDING: {READY, UNWRITTEN, FAILED},
    UNWRITTEN: {READY, FAILED},
    FAILED: {FAILED},
}


class CommandOrderError(RuntimeError):
    """The caller called the core out of order, or uses a core that has failed."""


class CommandGate(Generic[OutcomeT]):
    def __init__(self) -> None:
        self.state = READY
        self._unwritten: OutcomeT | None = None

    def begin(self) -> None:
        """A command begins. Raises CommandOrderError."""
        self._move(DECIDING)

    def end(self, outcome: OutcomeT) -> OutcomeT:
        """The command has decided."""
        if outcome.records:
            self._move(UNWRITTEN)
            self._unwritten = outcome
        else:
            self._move(READY)
        return outcome

    def settle(self, outcome: OutcomeT) -> None:
        """The records of the outcome are appended, or never will be. Raises CommandOrderError."""
        if self._unwritten is not outcome:
            self._refuse("settled the records of another command")
        self._unwritten = None
        self._move(READY)

    def check_ready(self) -> None:
        """The caller changes the state by a replay of its own. Raises CommandOrderError."""
        if self.state is not READY:
            self._refuse("changed the state")

    def fail(self) -> None:
        """Refuse every further command."""
        self._move(FAILED)

    def _move(self, target: GateState) -> None:
        if target not in MOVES[self.state]:
            self._refuse(f"moved to {target.value!r}")
        self.state = target

    def _refuse(self, action: str) -> None:
        state, self.state = self.state, FAILED
        raise CommandOrderError(f"the caller of the core {action} in state {state.value!r}")
