"""Applies a list of operations to a tree, for the stores in memory and in SQLite."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from ottla.store.interface import (
    ROOT,
    Check,
    Create,
    Delete,
    Node,
    Op,
    Put,
    Refusal,
    Set,
    StoreConflictError,
    check_path,
    parent_of,
)

DELETED_VERSION = -1


class Tree(Protocol):
    def node(self, path: str) -> Node | None: ...

    def child_paths(self, path: str) -> Iterable[str]: ...


def decide(tree: Tree, ops: Sequence[Op], session: int, revision: int) -> tuple[dict[str, Node | None], list[int]]:
    """The nodes to write (None: to delete) and the version after each operation. The tree itself is not changed.

    Each operation sees the effects of the operations before it.
    """
    draft = _Draft(tree, session, revision)
    versions = []
    for index, op in enumerate(ops):
        refusal_or_version = draft.apply(op)
        if isinstance(refusal_or_version, Refusal):
            raise StoreConflictError(index, op, refusal_or_version)
        versions.append(refusal_or_version)
    return draft.writes, versions


class _Draft:
    def __init__(self, tree: Tree, session: int, revision: int) -> None:
        self._tree = tree
        self._session = session
        self._revision = revision
        self.writes: dict[str, Node | None] = {}
        self._added: dict[str, set[str]] = {}

    def apply(self, op: Op) -> Refusal | int:
        if check_path(op.path) == ROOT and not isinstance(op, Check):
            raise ValueError("the root of the store cannot be changed")
        node = self._node(op.path)
        if isinstance(op, Create):
            return Refusal.EXISTS if node is not None else self._create(op.path, op.data, op.ephemeral)
        if isinstance(op, Put):
            return self._create(op.path, op.data, False) if node is None else self._set(op.path, node, op.data)
        if node is None:
            return Refusal.MISSING
        if op.version is not None and op.version != node.version:
            return Refusal.VERSION
        if isinstance(op, Set):
            return self._set(op.path, node, op.data)
        if isinstance(op, Delete):
            return self._delete(op.path)
        return node.version

    def _node(self, path: str) -> Node | None:
        if path in self.writes:
            return self.writes[path]
        return self._tree.node(path)

    def _create(self, path: str, data: bytes, ephemeral: bool) -> Refusal | int:
        missing = [path]
        above = parent_of(path)
        while (parent := self._node(above)) is None:
            missing.append(above)
            above = parent_of(above)
        if parent.owner is not None:
            return Refusal.EPHEMERAL_PARENT
        for ancestor in reversed(missing[1:]):
            self._add(ancestor, Node(b"", 0, None, self._revision))
        self._add(path, Node(data, 0, self._session if ephemeral else None, self._revision))
        return 0

    def _add(self, path: str, node: Node) -> None:
        self.writes[path] = node
        self._added.setdefault(parent_of(path), set()).add(path)

    def _set(self, path: str, node: Node, data: bytes) -> int:
        changed = node._replace(data=data, version=node.version + 1)
        self.writes[path] = changed
        return changed.version

    def _delete(self, path: str) -> Refusal | int:
        if self._has_children(path):
            return Refusal.NOT_EMPTY
        self.writes[path] = None
        self._added.get(parent_of(path), set()).discard(path)
        return DELETED_VERSION

    def _has_children(self, path: str) -> bool:
        if self._added.get(path):
            return True
        return any(self.writes.get(child, child) is not None for child in self._tree.child_paths(path))
