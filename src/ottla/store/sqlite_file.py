"""The file of the SQLite store: its tables, its transactions, and its error messages.

All calls may block. Only one thread at a time may use an object.
"""

import contextlib
import sqlite3
import time
from collections.abc import Callable, Iterator
from typing import Any

from ottla.store.interface import ROOT, StoreError

APPLICATION_ID = 0x4F74746C
SCHEMA_VERSION = 1

SCHEMA = f"""
CREATE TABLE node (
  path TEXT PRIMARY KEY, parent TEXT, data BLOB NOT NULL, version INTEGER NOT NULL,
  owner INTEGER, created INTEGER NOT NULL, changed INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX node_parent ON node (parent);
CREATE INDEX node_changed ON node (changed);
CREATE INDEX node_owner ON node (owner) WHERE owner IS NOT NULL;
CREATE TABLE removed (path TEXT PRIMARY KEY, changed INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX removed_changed ON removed (changed);
CREATE TABLE session (id INTEGER PRIMARY KEY AUTOINCREMENT, timeout_ms INTEGER NOT NULL, beat INTEGER NOT NULL);
CREATE TABLE progress (revision INTEGER NOT NULL, forgotten INTEGER NOT NULL);
INSERT INTO progress VALUES (0, 0);
INSERT INTO node VALUES ('{ROOT}', NULL, x'', 0, NULL, 0, 0);
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {SCHEMA_VERSION};
"""


class SqliteFile:
    def __init__(self, path: str, busy_timeout: float) -> None:
        self.path = path
        self._busy_timeout = busy_timeout
        self._connection: sqlite3.Connection | None = None

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """All reads in this context see the same state of the file."""
        with self._reported():
            yield from self._transaction("BEGIN")

    @contextlib.contextmanager
    def writing(self, *, durable: bool) -> Iterator[None]:
        """All writes in this context are one transaction. If `durable`, it is on disk when the context ends."""
        with self._reported():
            self.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            yield from self._transaction("BEGIN IMMEDIATE")

    def data_version(self) -> int:
        """A number that changes when another connection commits. Reads only shared memory, not the disk."""
        with self._reported():
            version: int = self.execute("PRAGMA data_version").fetchone()[0]
        return version

    def _transaction(self, begin: str) -> Iterator[None]:
        connection = self._opened()
        connection.execute(begin)
        try:
            yield
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    @contextlib.contextmanager
    def _reported(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise StoreError(describe(self.path, error)) from error

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = self._open()
        return self._connection

    def _open(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path, timeout=self._busy_timeout, isolation_level=None, check_same_thread=False
        )
        try:
            self._retried(lambda: connection.execute("PRAGMA journal_mode = WAL"))
            # Only macOS knows a difference: fsync leaves the data in the cache of the drive there.
            connection.execute("PRAGMA fullfsync = ON")
            connection.execute("BEGIN IMMEDIATE")
            self._ensure_schema(connection)
            connection.execute("COMMIT")
        except BaseException:
            connection.close()
            raise
        return connection

    def _retried(self, attempt: Callable[[], object]) -> None:
        """Retry while another process switches a new file to write-ahead logging: SQLite does not wait for that."""
        deadline = time.monotonic() + self._busy_timeout
        while True:
            try:
                attempt()
                return
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
            time.sleep(0.005)

    def _ensure_schema(self, connection: sqlite3.Connection) -> None:
        application, version, tables = (
            connection.execute(query).fetchone()[0]
            for query in ("PRAGMA application_id", "PRAGMA user_version", "SELECT count(*) FROM sqlite_master")
        )
        if application == 0 and tables == 0:
            for statement in SCHEMA.split(";"):
                connection.execute(statement)
        elif application != APPLICATION_ID:
            raise StoreError(f"The file {self.path} is a database, but not an Ottla store.")
        elif version != SCHEMA_VERSION:
            raise StoreError(f"The store {self.path} has format {version}; this Ottla reads format {SCHEMA_VERSION}.")

    def close(self) -> None:
        if self._connection is not None:
            connection, self._connection = self._connection, None
            with self._reported():
                connection.close()

    def execute(self, statement: str, *parameters: Any) -> sqlite3.Cursor:
        return self._opened().execute(statement, parameters)


REASONS: dict[int, str] = {
    sqlite3.SQLITE_BUSY: "is locked by another process",
    sqlite3.SQLITE_READONLY: "cannot be written: the file or its directory is read-only",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened: the file is not accessible or its directory is missing",
    sqlite3.SQLITE_NOTADB: "is damaged: it is not a database",
    sqlite3.SQLITE_CORRUPT: "is damaged: its pages are inconsistent",
    sqlite3.SQLITE_FULL: "cannot be written: the disk is full",
    sqlite3.SQLITE_PERM: "cannot be opened: permission denied",
}


def describe(path: str, error: Exception) -> str:
    code = getattr(error, "sqlite_errorcode", None)
    reason = REASONS.get(code & 0xFF) if code is not None else None
    return f"The store {path} {reason or 'failed'} ({error})."
