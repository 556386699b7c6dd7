"""What the fast paths of Produce and Fetch have learned, for all connections of a broker.

To learn a shape costs more than a few requests that take the slow way. Many clients are the same program and send the
same bytes, so that each shape is learned once, and kept in memory once.
"""

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

_KEPT = 16

_LEARN_AFTER = 3
_LEARN_EVERY = 16
"""Requests of a connection that take the slow way before one is learned from, and how often after that, so that
neither a client that sends two requests nor one whose requests all differ makes the broker learn much."""


class Shape(Protocol):
    def matches(self, frame: memoryview) -> bool:
        """Whether a request can be served by what is known of this shape."""


S = TypeVar("S", bound=Shape)


class Shapes(Generic[S]):
    """The shapes that were learned last."""

    __slots__ = ("_recent",)

    def __init__(self) -> None:
        self._recent: list[S] = []

    def shape_of(self, frame: memoryview, missed: int, learn: Callable[[], S | None]) -> S | None:
        """What a connection whose last `missed` requests took the slow way gets to know from the next one, if anything:
        what others have learned, or what it learns itself."""
        turn = missed % _LEARN_EVERY
        if turn == 0:
            return next((shape for shape in self._recent if shape.matches(frame)), None)
        shape = learn() if turn == _LEARN_AFTER else None
        if shape is not None:
            self._recent = [shape, *self._recent[: _KEPT - 1]]
        return shape
