"""Writes Python source. The compilers of decoders and encoders share this code."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class Source(ABC):
    """The lines of a function that is being written, and the objects that they use by name.

    Adjacent values of fixed width are collected in a run. A value of variable size ends the run, which becomes one call
    into `struct`. A line that is added before must not depend on a value in the run.
    """

    def __init__(self, signature: str, scope: dict[str, Any]) -> None:
        self._lines = [f"def {signature}:"]
        self._depth = 1
        self._names = 0
        self._scope = scope
        self.run: list[tuple[str, str]] = []

    def line(self, text: str) -> None:
        self._lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, header: str) -> Iterator[None]:
        self.line(header)
        self._depth += 1
        yield
        self.flush()
        self._depth -= 1

    def flush(self) -> None:
        if self.run:
            run, self.run = self.run, []
            self.emit(run)

    @abstractmethod
    def emit(self, run: list[tuple[str, str]]) -> None:
        """Add the lines that read or write a run of (struct code, expression) pairs."""

    def name(self, stem: str) -> str:
        """The name of a new variable."""
        self._names += 1
        return f"{stem}{self._names}"

    def refer(self, name: str, value: Any) -> str:
        """Let the function use an object under this name."""
        self._scope[name] = value
        return name

    def compile(self, title: str) -> Callable[..., Any]:
        exec(compile("\n".join(self._lines), f"<{title}>", "exec"), self._scope)
        function: Callable[..., Any] = self._scope[self._lines[0][4:].partition("(")[0]]
        return function
