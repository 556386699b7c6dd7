"""Writing Python source: what the decoder's and the encoder's compilers have in common."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class Source(ABC):
    """The lines of a function in the making, and the objects they refer to by name.

    Neighbouring fixed-width values are not read or written one by one. They gather in a run, and the run becomes one
    call into `struct` when something of variable size ends it. A line that is added meanwhile must not depend on a
    value that is still in the run.
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
        """A new variable."""
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
