"""The order in which a core is called: no command between an outcome that has records and the word on what became of
them, since what the core would decide on is not yet what is written."""

from typing import Any, Generic, TypeVar

from ottla.coordinator_core.effects import Outcome

OutcomeT = TypeVar("OutcomeT", bound=Outcome[Any, Any, Any])


class CommandGate(Generic[OutcomeT]):
    """Whoever breaks the order is mistaken, and hears of it at once."""

    def __init__(self) -> None:
        self._unwritten: OutcomeT | None = None

    def begin(self) -> None:
        if self._unwritten is not None:
            raise RuntimeError("the records of the last command are neither written nor given up")

    def end(self, outcome: OutcomeT) -> OutcomeT:
        if outcome.records:
            self._unwritten = outcome
        return outcome

    def settle(self, outcome: OutcomeT) -> None:
        """The records are written, or never will be."""
        if self._unwritten is not outcome:
            raise RuntimeError("these are not the records of the last command")
        self._unwritten = None
