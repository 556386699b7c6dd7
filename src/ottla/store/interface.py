"""The API of a store: ZooKeeper's model, reduced to the needs of a cluster.

A store is a tree of small nodes. A `commit` is an atomic list of operations with version checks: all operations are
done or none. Reading is level-triggered: a watch only reports that something changed, and `read_changes` returns the
present state.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Protocol, TypeAlias

ROOT = "/"


class Node(NamedTuple):
    data: bytes
    version: int
    """0 when the node is created; grows by one with each change of its data."""
    owner: int | None
    """The session that owns an ephemeral node; None for a persistent node."""
    created: int
    """Grows over the whole tree. It tells a node that was deleted and created again from the earlier one."""


class Changes(NamedTuple):
    revision: int
    """The `since` argument of the next `read_changes`."""
    nodes: dict[str, Node | None]
    """The present value of each changed node; None for a deleted node."""
    complete: bool
    """`nodes` is the whole tree, because this is the first read, or `since` is too old."""


@dataclass(frozen=True, slots=True)
class Create:
    """Fails if the node exists. Missing parents are created as empty persistent nodes."""

    path: str
    data: bytes = b""
    ephemeral: bool = False


@dataclass(frozen=True, slots=True)
class Set:
    """Fails if the node is missing or, unless `version` is None, has another version."""

    path: str
    data: bytes
    version: int | None = None


@dataclass(frozen=True, slots=True)
class Put:
    """Creates or overwrites the node. The last writer wins."""

    path: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Delete:
    """Fails if the node is missing, has children or, unless `version` is None, has another version."""

    path: str
    version: int | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """Changes nothing. Fails if the node is missing or, unless `version` is None, has another version."""

    path: str
    version: int | None = None


Op: TypeAlias = Create | Set | Put | Delete | Check


class StoreError(Exception):
    """The store failed. The message is one sentence for the operator."""


class SessionLostError(StoreError):
    """The session has ended, and its ephemeral nodes are deleted. Commits fail until `start` begins a new session.

    A commit that was in flight when the session ended may be done or not. The caller can read the tree to find out.
    """


class CommitTooLargeError(StoreError):
    """The commit has too many operations or too much data for the store. None of the operations was done."""


class Refusal(Enum):
    EXISTS = "it exists"
    MISSING = "it is missing"
    VERSION = "it has another version"
    NOT_EMPTY = "it has children"
    EPHEMERAL_PARENT = "its parent is ephemeral"


class StoreConflictError(StoreError):
    """The store rejected one operation of a commit, so none of the operations was done."""

    def __init__(self, index: int, op: Op, refusal: Refusal) -> None:
        super().__init__(f"{type(op).__name__} {op.path} was rejected: {refusal.value}.")
        self.index = index
        self.op = op
        self.refusal = refusal


class Watch(Protocol):
    def cancel(self) -> None: ...


class Store(Protocol):
    @property
    def session_id(self) -> int | None:
        """The session that owns this store's ephemeral nodes; None before `start` and after the session is lost."""

    async def start(self) -> None:
        """Open the store and begin a session. After a session is lost, begin the next one."""

    async def close(self) -> None:
        """End the session, which deletes its ephemeral nodes. Does not call the `on_session_lost` callbacks."""

    def on_session_lost(self, callback: Callable[[], None]) -> None:
        """Register a callback for a session that ends without `close`. Its ephemeral nodes are deleted by then."""

    async def get(self, path: str) -> Node | None: ...

    async def children(self, path: str) -> list[str]:
        """The sorted names (not paths) of the children of a node; empty if there is no such node."""

    async def read_tree(self, *prefixes: str) -> dict[str, Node]:
        """A consistent snapshot of the nodes at the prefixes and all nodes below them."""

    async def read_changes(self, since: int, *prefixes: str) -> Changes:
        """The changes under the prefixes since an earlier revision; 0 returns the whole tree."""

    async def commit(self, ops: Sequence[Op]) -> list[int]:
        """Do all operations in order, or none and raise StoreConflictError.

        Returns the version of each node after its operation (-1 for Delete). When this returns, the change is durable,
        visible to every reader, and included in the next `read_changes`.
        """

    def watch(self, callback: Callable[[], None], *prefixes: str) -> Watch:
        """Call back after a node at or below a prefix has changed. Several changes may cause a single call."""


def check_path(path: str) -> str:
    """Raise ValueError for a path that ZooKeeper would reject, so that all stores accept the same paths."""
    bad = (
        not path.startswith(ROOT)
        or (path.endswith("/") and path != ROOT)
        or "//" in path
        or "\0" in path
        or any(segment in (".", "..") for segment in path.split("/"))
        or any("\ud800" <= character <= "\udfff" for character in path)
    )
    if bad:
        raise ValueError(f"invalid path: {path!r}")
    return path


def parent_of(path: str) -> str:
    return path[: path.rindex("/")] or ROOT


def is_under(path: str, prefix: str) -> bool:
    """Whether a path is at or below the prefix. `/controller_epoch` is not below `/controller`."""
    return path == prefix or prefix == ROOT or path.startswith(prefix + "/")
