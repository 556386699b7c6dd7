"""The blocking half of the SQLite store: batches of work, each in one transaction."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from ottla.env.disk import Disk
from ottla.store.interface import Op, SessionLostError, StoreError
from ottla.store.sqlite_file import SqliteFile
from ottla.store.sqlite_mode import Mode
from ottla.store.sqlite_sessions import SqliteSessions
from ottla.store.sqlite_tree import SqliteTree


class Outcome(NamedTuple):
    results: list[Any]
    """The return value of each function, or the error it raised."""
    changed: list[str] | None
    """Paths that any process changed since the previous batch; None if all paths may have changed."""


class SqliteWork:
    def __init__(self, path: str, disk: Disk, busy_timeout: float) -> None:
        self._file = SqliteFile(path, busy_timeout)
        self.tree = SqliteTree(self._file)
        self.sessions = SqliteSessions(self._file, self.tree, disk)
        self.has_dead = False
        """Whether the last poll found a session whose process is dead."""
        self._data_version = -1

    def run(self, mode: Mode, functions: "Sequence[Function]") -> Outcome:
        if mode is Mode.READ:
            with self._file.reading():
                return Outcome(self._results(functions), [])
        if mode is Mode.POLL:
            return self._poll(functions)
        with self._file.writing(durable=mode is Mode.WRITE):
            results = self._results(functions)
        return Outcome(results, self._changed())

    def commit(self, ops: Sequence[Op], session: int | None) -> list[int]:
        if session is None or not self.sessions.is_alive(session):
            raise SessionLostError("The session with the store has ended.")
        return self.tree.commit(ops, session)

    def close(self) -> None:
        self.sessions.release()
        self._file.close()

    def _poll(self, functions: "Sequence[Function]") -> Outcome:
        self.has_dead = self.sessions.has_dead()
        version = self._file.data_version()
        if version == self._data_version:
            return Outcome([True] * len(functions), [])
        with self._file.reading():
            outcome = Outcome(self._results(functions), self.tree.newly_changed_paths())
        self._data_version = version
        return outcome

    def _changed(self) -> list[str] | None:
        """The changed paths, or None if they cannot be read. Never raises StoreError: the batch is committed."""
        try:
            with self._file.reading():
                return self.tree.newly_changed_paths()
        except StoreError:
            return None

    def _results(self, functions: "Sequence[Function]") -> list[Any]:
        """Run all functions. A function that raises has changed nothing, so the others in the transaction still run."""
        results: list[Any] = []
        for function in functions:
            try:
                results.append(function(self))
            except (StoreError, ValueError) as error:
                results.append(error)
        return results


Function: TypeAlias = Callable[[SqliteWork], Any]
