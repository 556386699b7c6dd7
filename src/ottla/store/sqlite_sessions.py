"""Sessions as rows of the file: which of them are alive, and removing the nodes of dead ones.

A session is alive while its process holds a lock on a file of its own and its heartbeat count grows. The kernel
releases the lock of a killed process, so a restarted broker need not wait for its own former session. The count finds a
process that is alive but does nothing. No clock is shared: each process measures with its own. Call inside a write
transaction: it also keeps two processes that test a lock at the same time from taking each other for the owner.
"""

import contextlib
from typing import NamedTuple

from ottla.env.disk import Disk
from ottla.store.sqlite_file import SqliteFile
from ottla.store.sqlite_tree import SqliteTree


class Sighting(NamedTuple):
    """When, on this process's own clock, another session's heartbeat count was first seen at its present value."""

    beat: int
    at: float


class SqliteSessions:
    def __init__(self, file: SqliteFile, tree: SqliteTree, disk: Disk) -> None:
        self._path = file.path
        self._execute = file.execute
        self._tree = tree
        self._disk = disk
        self._lock: contextlib.ExitStack | None = None
        self._sightings: dict[int, Sighting] = {}
        self._others: set[int] = set()

    def begin(self, timeout: float, now: float) -> int:
        """Begin a session, after removing the nodes of dead ones."""
        self._reap(now, own=None)
        self.release()
        cursor = self._execute("INSERT INTO session (timeout_ms, beat) VALUES (?, 0)", round(timeout * 1000))
        session = cursor.lastrowid
        assert session is not None
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._disk.lock(self._lock_path(session)))
            self._lock = stack.pop_all()
        return session

    def is_alive(self, session: int) -> bool:
        sessions = {row[0] for row in self._execute("SELECT id FROM session").fetchall()}
        self._others = sessions - {session}
        return session in sessions

    def has_dead(self) -> bool:
        """Whether the process of a known session is dead. The next heartbeat of any process ends that session.

        Two who ask at once may take each other for the living owner, which does no harm: they ask again soon.
        """
        return any(self._is_unlocked(session) for session in self._others)

    def beat(self, session: int, now: float) -> bool:
        """Count a heartbeat, and end the sessions of dead processes. False if this session has been ended."""
        if self._execute("UPDATE session SET beat = beat + 1 WHERE id = ?", session).rowcount == 0:
            return False
        self._reap(now, own=session)
        self._tree.forget_old_removals()
        return True

    def end(self, session: int) -> None:
        self._tree.remove_owned_by(session)
        self._execute("DELETE FROM session WHERE id = ?", session)
        self._sightings.pop(session, None)
        self._disk.remove(self._lock_path(session))

    def release(self) -> None:
        """Release the lock. From now on other processes may end the session."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _reap(self, now: float, own: int | None) -> None:
        sessions = self._execute("SELECT id, timeout_ms, beat FROM session").fetchall()
        for session, timeout_ms, beat in sessions:
            if session != own and (self._is_silent(session, timeout_ms, beat, now) or self._is_unlocked(session)):
                self.end(session)
        seen = self._sightings
        self._sightings = {session: seen[session] for session, _, _ in sessions if session != own and session in seen}
        self._others = set(self._sightings)

    def _is_silent(self, session: int, timeout_ms: int, beat: int, now: float) -> bool:
        sighting = self._sightings.get(session)
        if sighting is None or sighting.beat != beat:
            self._sightings[session] = Sighting(beat, now)
            return False
        return (now - sighting.at) * 1000 > timeout_ms

    def _is_unlocked(self, session: int) -> bool:
        try:
            with self._disk.lock(self._lock_path(session)):
                return True
        except BlockingIOError:
            return False

    def _lock_path(self, session: int) -> str:
        return f"{self._path}-session-{session}.lock"
