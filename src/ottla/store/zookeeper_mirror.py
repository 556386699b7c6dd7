"""A copy of a part of the tree, kept up to date by one persistent watch for each prefix.

The copy is a consistent snapshot. ZooKeeper sends the event of a change before any reply that shows the change. So if
no reported change is unread after a reply, every node of the copy has its value in the state of that reply. The zxid of
that state becomes the revision of the changes that were read.
"""

import asyncio
import logging
from collections.abc import Sequence

from ottla.store.interface import ROOT, Changes, Node, is_under, parent_of
from ottla.store.zookeeper_plan import SESSIONS
from ottla.store.zookeeper_requests import Requests, Seen

logger = logging.getLogger("ottla.store.zookeeper")

REMOVALS_KEPT = 10_000
"""A reader that is further behind than this many removed nodes gets the whole tree."""
MAX_ROUNDS = 100
"""Rounds of reading nodes that changed during the previous round. After that the copy may have parts of a commit."""


class Mirror:
    """The caller must watch the prefixes before the first `catch_up`, and call `mark` for each event."""

    def __init__(self, requests: Requests, prefixes: Sequence[str]) -> None:
        self.nodes: dict[str, Node] = {}
        self._requests = requests
        self._prefixes = prefixes
        self._complete = False
        self._whole = True
        """All nodes must be read, because none was read yet, or because events may have been missed."""
        self._dirty: set[str] = set()
        self._latest = 0
        self._revision = 0
        # Single changes are known since this revision. A reader with an older one gets the whole tree.
        self._floor = 0
        # The revision of the last change of each path, including removed paths, in the order of changes.
        self._changed: dict[str, int] = {}
        self._catching_up = asyncio.Lock()

    def covers(self, path: str) -> bool:
        return any(is_under(path, prefix) for prefix in self._prefixes)

    def mark(self, path: str) -> None:
        """The node was created, changed or removed."""
        if self.covers(path):
            self._dirty.add(path)

    def mark_all(self) -> None:
        """Read all nodes in the next `catch_up`: events may have been missed."""
        self._whole = True

    def known(self, path: str) -> int | None:
        """The version of a node; None if it is missing. Raises KeyError if the copy does not have it up to date."""
        if self._whole or path in self._dirty or not self.covers(path):
            raise KeyError(path)
        node = self.nodes.get(path)
        return None if node is None else node.version

    def changes(self, since: int) -> Changes:
        if since <= 0 or since < self._floor:
            return Changes(self._revision, dict(self.nodes), True)
        changed: dict[str, Node | None] = {}
        for path in reversed(self._changed):
            if self._changed[path] <= since:
                break
            changed[path] = self.nodes.get(path)
        return Changes(self._revision, changed, False)

    async def catch_up(self) -> None:
        """Update the copy to the present state of the tree, or a later one."""
        async with self._catching_up:
            zxid = await self._requests.sync()
            changed: set[str] = set()
            try:
                for _ in range(MAX_ROUNDS):
                    if not self._whole and not self._dirty:
                        break
                    zxid = max(zxid, await self._read_round(changed))
                else:
                    logger.warning("nodes change faster than they can be read; the copy may have parts of a commit")
            finally:
                self._note(changed, zxid)
            if not self._complete:
                self._complete = True
                self._floor, self._revision = self._latest, zxid

    async def _read_round(self, changed: set[str]) -> int:
        """Read all marked nodes. Returns the zxid of the last reply. If this fails, the nodes stay marked."""
        whole, self._whole = self._whole, False
        dirty, self._dirty = self._dirty, set()
        try:
            zxid = await self._load(changed) if whole else 0
            for path, seen in zip(dirty, await self._requests.read_all(dirty), strict=True):
                self._put(path, seen.node, changed)
                # A removed node has no zxid, so use the zxid of the reply.
                self._latest = max(self._latest, seen.zxid if seen.node is None else seen.latest)
                zxid = max(zxid, seen.zxid)
            return zxid
        except BaseException:
            self._whole |= whole
            self._dirty |= dirty
            raise

    async def _load(self, changed: set[str]) -> int:
        """Read everything under the prefixes, one level at a time."""
        found: set[str] = set()
        zxid = 0
        level = list(self._prefixes)
        while level:
            answers = await self._requests.read_all(level)
            parents = []
            for path, seen in zip(level, answers, strict=True):
                self._see(path, seen, changed)
                zxid = max(zxid, seen.zxid)
                found.add(path)
                if seen.children:
                    parents.append(path)
            level = await self._children(parents)
        for path in [path for path in self.nodes if path not in found]:
            self._put(path, None, changed)
        for prefix in self._prefixes:
            if prefix not in self.nodes:
                self._latest = max(self._latest, await self._latest_above(prefix))
        return zxid

    def _see(self, path: str, seen: Seen, changed: set[str]) -> None:
        self._put(path, seen.node, changed)
        self._latest = max(self._latest, seen.latest)

    async def _children(self, parents: list[str]) -> list[str]:
        names = await self._requests.list_all(parents)
        paths = [
            (ROOT if parent == ROOT else parent + "/") + name
            for parent, children in zip(parents, names, strict=True)
            for name in children
        ]
        return [path for path in paths if not is_under(path, SESSIONS)]

    async def _latest_above(self, path: str) -> int:
        """The latest time a missing node may have been removed: the last change of its nearest existing ancestor."""
        while path != ROOT:
            path = parent_of(path)
            seen = await self._requests.read(path)
            if seen.node is not None:
                return seen.latest
        return 0

    def _put(self, path: str, node: Node | None, changed: set[str]) -> None:
        if node == self.nodes.get(path):
            return
        changed.add(path)
        if node is None:
            del self.nodes[path]
        else:
            self.nodes[path] = node

    def _note(self, changed: set[str], zxid: int) -> None:
        """Record changes under a new revision, even if the zxid has not grown, so that no reader misses a change."""
        if not changed or not self._complete:
            return
        self._revision = max(zxid, self._revision + 1)
        for path in changed:
            self._changed.pop(path, None)
            self._changed[path] = self._revision
        self._forget_old_removals()

    def _forget_old_removals(self) -> None:
        if len(self._changed) <= REMOVALS_KEPT:
            return
        removed = [path for path in self._changed if path not in self.nodes]
        for path in removed[:-REMOVALS_KEPT]:
            self._floor = self._changed.pop(path)
