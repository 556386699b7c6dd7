"""A store in memory: one tree with any number of sessions. For tests and simulated clusters."""

from collections.abc import Callable, Iterable, Sequence

from ottla.env.clock import Clock
from ottla.store.interface import (
    ROOT,
    Changes,
    Node,
    Op,
    SessionLostError,
    StoreError,
    Watch,
    check_path,
    is_under,
    parent_of,
)
from ottla.store.transaction import decide
from ottla.store.watches import Watches


class MemoryTree:
    """The tree that all sessions share. Every change gets the next revision."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {ROOT: Node(b"", 0, None, 0)}
        self.revision = 0
        self._children: dict[str, set[str]] = {}
        # The revision of the last change of each path, including deleted paths, in the order of changes.
        self._changed: dict[str, int] = {ROOT: 0}
        self._stores: dict[int, MemoryStore] = {}
        self._last_session = 0

    def node(self, path: str) -> Node | None:
        return self.nodes.get(path)

    def child_paths(self, path: str) -> Iterable[str]:
        return self._children.get(path, ())

    def paths_changed_since(self, revision: int) -> list[str]:
        paths = []
        for path in reversed(self._changed):
            if self._changed[path] <= revision:
                break
            paths.append(path)
        return paths

    def commit(self, ops: Sequence[Op], session: int) -> list[int]:
        writes, versions = decide(self, ops, session, self.revision + 1)
        self._write(writes)
        return versions

    def begin_session(self, store: "MemoryStore") -> int:
        self._last_session += 1
        self._stores[self._last_session] = store
        return self._last_session

    def end_session(self, session: int) -> None:
        self._stores.pop(session)
        self._write({path: None for path, node in self.nodes.items() if node.owner == session})

    def expire(self, session: int) -> None:
        """End a session as if its heartbeats had stopped."""
        store = self._stores[session]
        self.end_session(session)
        store.lose_session()

    def _write(self, writes: dict[str, Node | None]) -> None:
        if not writes:
            return
        self.revision += 1
        for path, node in writes.items():
            siblings = self._children.setdefault(parent_of(path), set())
            if node is None:
                self.nodes.pop(path, None)
                siblings.discard(path)
            else:
                self.nodes[path] = node
                siblings.add(path)
            self._changed.pop(path, None)
            self._changed[path] = self.revision
        for store in list(self._stores.values()):
            store.watches.notify(writes)


class MemoryStore:
    def __init__(self, tree: MemoryTree, clock: Clock) -> None:
        self._tree = tree
        self._session: int | None = None
        self._open = False
        self._lost_callbacks: list[Callable[[], None]] = []
        self.watches = Watches(clock)

    @property
    def session_id(self) -> int | None:
        return self._session

    async def start(self) -> None:
        if self._session is None:
            self._open = True
            self._session = self._tree.begin_session(self)

    async def close(self) -> None:
        self._open = False
        self.watches.cancel_all()
        if self._session is not None:
            session, self._session = self._session, None
            self._tree.end_session(session)

    def on_session_lost(self, callback: Callable[[], None]) -> None:
        self._lost_callbacks.append(callback)

    def lose_session(self) -> None:
        self._session = None
        for callback in self._lost_callbacks:
            callback()

    async def get(self, path: str) -> Node | None:
        return self._readable().node(check_path(path))

    async def children(self, path: str) -> list[str]:
        children = self._readable().child_paths(check_path(path))
        return sorted(child[child.rindex("/") + 1 :] for child in children)

    async def read_tree(self, *prefixes: str) -> dict[str, Node]:
        nodes = self._readable().nodes
        wanted = [check_path(prefix) for prefix in prefixes]
        return {path: node for path, node in nodes.items() if any(is_under(path, prefix) for prefix in wanted)}

    async def read_changes(self, since: int, *prefixes: str) -> Changes:
        tree = self._readable()
        if since <= 0:
            return Changes(tree.revision, dict(await self.read_tree(*prefixes)), True)
        wanted = [check_path(prefix) for prefix in prefixes]
        paths = tree.paths_changed_since(since)
        changed = {path: tree.node(path) for path in paths if any(is_under(path, prefix) for prefix in wanted)}
        return Changes(tree.revision, changed, False)

    async def commit(self, ops: Sequence[Op]) -> list[int]:
        tree = self._readable()
        if self._session is None:
            raise SessionLostError("The session with the store has ended.")
        return tree.commit(ops, self._session)

    def watch(self, callback: Callable[[], None], *prefixes: str) -> Watch:
        return self.watches.add(callback, prefixes)

    def _readable(self) -> MemoryTree:
        if not self._open:
            raise StoreError("The store is not open.")
        return self._tree
