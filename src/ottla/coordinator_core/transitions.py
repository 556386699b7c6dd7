"""A table of the transitions between states. The code checks transitions, and the docs have a diagram of the table."""

from collections.abc import Mapping
from enum import Enum
from typing import Generic, TypeVar

StateT = TypeVar("StateT", bound=Enum)


class IllegalTransitionError(Exception):
    """A bug of the core: no request of a client may cause it."""


class Transitions(Generic[StateT]):
    def __init__(self, subject: str, first: StateT, last: StateT, moves: Mapping[StateT, Mapping[StateT, str]]) -> None:
        """`moves` has, for each state, the states that may follow, each with its cause."""
        self.moves = moves
        self._subject = subject
        self._first = first
        self._last = last

    def check(self, current: StateT, target: StateT) -> None:
        """Raises IllegalTransitionError."""
        if target not in self.moves[current]:
            raise IllegalTransitionError(f"{self._subject} cannot move from {current.value} to {target.value}")

    def diagram(self) -> str:
        """The table as a Mermaid diagram for the docs."""
        lines = ["stateDiagram-v2", f"    [*] --> {self._first.value}"]
        for current, targets in self.moves.items():
            lines += [f"    {current.value} --> {target.value}: {reason}" for target, reason in targets.items()]
        lines.append(f"    {self._last.value} --> [*]")
        return "\n".join(lines)
