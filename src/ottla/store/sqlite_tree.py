"""The tree of nodes as rows of the file. Call the methods in a transaction."""

from collections.abc import Sequence

from ottla.store.interface import ROOT, Changes, Node, Op, is_under, parent_of
from ottla.store.sqlite_file import SqliteFile
from ottla.store.transaction import decide

TOMBSTONES_KEPT = 10_000
"""A reader that is further behind than this many deletions reads the whole tree again."""


class SqliteTree:
    def __init__(self, file: SqliteFile) -> None:
        self._execute = file.execute
        self._noticed: int | None = None

    def node(self, path: str) -> Node | None:
        row = self._execute("SELECT data, version, owner, created FROM node WHERE path = ?", path).fetchone()
        return None if row is None else Node._make(row)

    def child_paths(self, path: str) -> list[str]:
        return [child for (child,) in self._execute("SELECT path FROM node WHERE parent = ?", path)]

    def read(self, prefixes: Sequence[str]) -> dict[str, Node]:
        nodes: dict[str, Node] = {}
        for prefix in prefixes:
            first, last = (prefix + "/", prefix + "0") if prefix != ROOT else ("", "0")
            rows = self._execute(
                "SELECT path, data, version, owner, created FROM node WHERE path = ? OR (path > ? AND path < ?)",
                prefix, first, last,
            )  # fmt: skip
            nodes.update((row[0], Node._make(row[1:])) for row in rows)
        return nodes

    def changes(self, since: int, prefixes: Sequence[str]) -> Changes:
        revision, forgotten = self._execute("SELECT revision, forgotten FROM progress").fetchone()
        if since <= 0 or since < forgotten:
            return Changes(revision, dict(self.read(prefixes)), True)
        # A path that was removed and created again is in both tables. The node table takes precedence.
        changed: dict[str, Node | None] = {}
        for (path,) in self._execute("SELECT path FROM removed WHERE changed > ?", since):
            changed[path] = None
        rows = self._execute("SELECT path, data, version, owner, created FROM node WHERE changed > ?", since)
        changed.update((row[0], Node._make(row[1:])) for row in rows)
        wanted = {path: node for path, node in changed.items() if any(is_under(path, prefix) for prefix in prefixes)}
        return Changes(revision, wanted, False)

    def commit(self, ops: Sequence[Op], session: int) -> list[int]:
        revision = self._revision() + 1
        writes, versions = decide(self, ops, session, revision)
        self._write(writes, revision)
        return versions

    def remove_owned_by(self, session: int) -> None:
        """Delete the ephemeral nodes of a session. They have no children, so the order does not matter."""
        paths = [path for (path,) in self._execute("SELECT path FROM node WHERE owner = ?", session)]
        self._write(dict.fromkeys(paths), self._revision() + 1)

    def _revision(self) -> int:
        revision: int = self._execute("SELECT revision FROM progress").fetchone()[0]
        return revision

    def _write(self, writes: dict[str, Node | None], revision: int) -> None:
        if not writes:
            return
        self._execute("UPDATE progress SET revision = ?", revision)
        for path, node in writes.items():
            if node is None:
                self._execute("DELETE FROM node WHERE path = ?", path)
                self._execute("INSERT OR REPLACE INTO removed VALUES (?, ?)", path, revision)
            else:
                self._execute("INSERT OR REPLACE INTO node VALUES (?, ?, ?, ?, ?, ?, ?)",
                              path, parent_of(path), *node, revision)  # fmt: skip

    def forget_old_removals(self) -> None:
        """Keep the last TOMBSTONES_KEPT removed paths. A reader that needs older ones gets the whole tree."""
        oldest = self._execute(
            "SELECT changed FROM removed ORDER BY changed DESC LIMIT 1 OFFSET ?", TOMBSTONES_KEPT
        ).fetchone()
        if oldest is not None:
            self._execute("DELETE FROM removed WHERE changed <= ?", oldest[0])
            self._execute("UPDATE progress SET forgotten = ?", oldest[0])

    def newly_changed_paths(self) -> list[str] | None:
        """Paths that any process changed since the last call; empty at first. None if too many were removed."""
        since = self._noticed
        self._noticed, forgotten = self._execute("SELECT revision, forgotten FROM progress").fetchone()
        if since is None:
            return []
        if since < forgotten:
            return None
        query = "SELECT path FROM node WHERE changed > ? UNION ALL SELECT path FROM removed WHERE changed > ?"
        return [path for (path,) in self._execute(query, since, since)]
