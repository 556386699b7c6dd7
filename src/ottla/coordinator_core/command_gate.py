"""A state machine that checks the order of calls to a core.

After an outcome with records, the core accepts no command until the caller reports whether they are appended. Otherwise
the core would decide on state that is not written yet. After a wrong call, the state in memory may differ from the log:
the gate is FAILED, the core rejects every command, and the caller must load a new core from the log.
"""

from enum import Enum
from typing import Any, Generic, TypeVar

from ottla.coordinator_core.effects import Outcome

OutcomeT = TypeVar("OutcomeT", bound=Outcome[Any, Any, Any])


class GateState(Enum):
    READY = "ready"
    """The state in memory matches the log. The next command may begin."""
    DECIDING = "deciding"
    """A command is running. If it raises, the gate stays in this state and rejects the next command."""
    UNWRITTEN = "unwritten"
    """The command has records. The caller must append them, or report that the append failed."""
    FAILED = "failed"
    """The state in memory may differ from the log. This state is final."""


READY, DECIDING, UNWRITTEN, FAILED = GateState

MOVES = {
    READY: {DECIDING, FAILED},
    DECIDING: {READY, UNWRITTEN, FAILED},
    UNWRITTEN: {READY, FAILED},
    FAILED: {FAILED},
}


class CommandOrderError(RuntimeError):
    """The caller called the core out of order, or called a core that has failed."""


class CommandGate(Generic[OutcomeT]):
    def __init__(self) -> None:
        self.state = READY
        self._unwritten: OutcomeT | None = None

    def begin(self) -> None:
        """Begin a command. Raises CommandOrderError."""
        self._move(DECIDING)

    def end(self, outcome: OutcomeT) -> OutcomeT:
        """End the decision of a command. If it has records, the caller must append them next."""
        if outcome.records:
            self._move(UNWRITTEN)
            self._unwritten = outcome
        else:
            self._move(READY)
        return outcome

    def settle(self, outcome: OutcomeT) -> None:
        """End a command: its records are appended, or their append has failed. Raises CommandOrderError."""
        if self._unwritten is not outcome:
            self._fail_order("settled the records of another command")
        self._unwritten = None
        self._move(READY)

    def check_ready(self) -> None:
        """Called before a replay that is not part of a command. Raises CommandOrderError."""
        if self.state is not READY:
            self._fail_order("changed the state")

    def fail(self) -> None:
        """Reject every further command."""
        self._move(FAILED)

    def _move(self, target: GateState) -> None:
        if target not in MOVES[self.state]:
            self._fail_order(f"moved to {target.value!r}")
        self.state = target

    def _fail_order(self, action: str) -> None:
        state, self.state = self.state, FAILED
        raise CommandOrderError(f"the caller of the core {action} in state {state.value!r}")
