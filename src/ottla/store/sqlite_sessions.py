"""Sessions as rows of the file: finds dead sessions and deletes their nodes.

A session is alive while its process holds a lock on the session's lock file and its heartbeat count grows. The kernel
releases the lock of a killed process, so a restarted broker need not wait for its previous session. The count detects a
process that is alive but hangs. Processes share no clock: each measures time with its own clock. Call the methods in a
write transaction. Otherwise two processes that test a lock at the same time could take each other for its owner.
"""

import contextlib
from typing import NamedTuple

from ottla.env.disk import Disk
from ottla.store.sqlite_file import SqliteFile
from ottla.store.sqlite_tree import SqliteTree


class Sighting(NamedTuple):
    """When this process first saw the present heartbeat count of another session, on its own clock."""

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
        """End dead sessions, then begin a new session."""
        self._end_dead_sessions(now, own=None)
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

        Two processes that test a lock at the same time may take each other for its owner. That is harmless, since they
        test it again soon.
        """
        return any(self._is_unlocked(session) for session in self._others)

    def beat(self, session: int, now: float) -> bool:
        """Increment the heartbeat count, and end dead sessions. Returns False if this session has ended."""
        if self._execute("UPDATE session SET beat = beat + 1 WHERE id = ?", session).rowcount == 0:
            return False
        self._end_dead_sessions(now, own=session)
        self._tree.forget_old_removals()
        return True

    def end(self, session: int) -> None:
        self._tree.remove_owned_by(session)
        self._execute("DELETE FROM session WHERE id = ?", session)
        self._sightings.pop(session, None)
        self._disk.remove(self._lock_path(session))

    def release(self) -> None:
        """Release the lock. Other processes may then end the session."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _end_dead_sessions(self, now: float, own: int | None) -> None:
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
