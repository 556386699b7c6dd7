"""Limits the memory that members of groups take: a client chooses the size of its metadata and assignments."""

from collections.abc import Callable

MAX_MEMBER_BYTES = 256 * 1024 * 1024
"""For all members of all groups that a broker coordinates."""


class MemberMemory:
    """The bytes that the members of one core take. The limit is for all cores of a broker together."""

    __slots__ = ("_limit", "_total", "used")

    def __init__(self, total: Callable[[], int] | None = None, limit: int = MAX_MEMBER_BYTES) -> None:
        """`total` returns the bytes of all cores of the broker. None: there is only this core."""
        self.used = 0
        self._total = total
        self._limit = limit

    def has_room(self, more: int) -> bool:
        """Whether the members may take this many more bytes. They may always take fewer than now."""
        return more <= 0 or (self.used if self._total is None else self._total()) + more <= self._limit
