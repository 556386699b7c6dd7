"""Remembers which log lines about a client were written, so that a client that tries again does not fill the log."""

_MAX_REMEMBERED = 1000
"""A client chooses its id, so the number of ids has no limit of its own."""


class ClientNotices:
    __slots__ = ("_given",)

    def __init__(self) -> None:
        self._given: set[tuple[str, str]] = set()

    def is_first(self, client: str, cause: str) -> bool:
        """Whether this cause has not been reported for this client yet. From then on it counts as reported."""
        if (client, cause) in self._given:
            return False
        if len(self._given) >= _MAX_REMEMBERED:
            self._given.clear()
        self._given.add((client, cause))
        return True
