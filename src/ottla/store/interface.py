"""The store as the rest of Ottla sees it: ZooKeeper's model, reduced to what a cluster needs.

A store is a tree of small nodes. Everything that must not race is one `commit`: a list of operations of which either
all happen or none, guarded by versions. A reader follows the tree by levels, not by events: a watch only says that
something changed, and `read_changes` says what the tree is now.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Protocol, TypeAlias

ROOT = "/"


class Node(NamedTuple):
    data: bytes
    version: int
    """0 when the node is created, one more with each change of its data."""
    owner: int | None
    """The session an ephemeral node belongs to; None for a persistent node."""
    created: int
    """Grows over the whole tree, so a node that was deleted and made again can be told from the first one."""


class Changes(NamedTuple):
    revision: int
    """Hand it to the next `read_changes`."""
    nodes: dict[str, Node | None]
    """Each node that differs since then, as it is now; None when it is gone."""
    complete: bool
    """`nodes` is the whole tree, because the caller had nothing before or is too far behind."""


@dataclass(frozen=True, slots=True)
class Create:
    """Fails when the node exists. Missing parents are made as empty persistent nodes."""

    path: str
    data: bytes = b""
    ephemeral: bool = False


@dataclass(frozen=True, slots=True)
class Set:
    """Fails when the node is missing or, unless `version` is None, has another version."""

    path: str
    data: bytes
    version: int | None = None


@dataclass(frozen=True, slots=True)
class Put:
    """Creates the node or overwrites it, whichever it takes: for values whose last writer wins."""

    path: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Delete:
    """Fails when the node is missing, has children or, unless `version` is None, has another version."""

    path: str
    version: int | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """Changes nothing; fails when the node is missing or, unless `version` is None, has another version."""

    path: str
    version: int | None = None


Op: TypeAlias = Create | Set | Put | Delete | Check


class StoreError(Exception):
    """The store cannot do its work; the message is one sentence for the operator."""


class SessionLostError(StoreError):
    """The session is over and its ephemeral nodes are gone: commits are refused until `start` begins a new one.

    A commit that was under way when the session ended may have been done or not; whoever must know reads the tree.
    """


class CommitTooLargeError(StoreError):
    """The store cannot do this many operations, or this much data, at once; none of them was done."""


class Refusal(Enum):
    EXISTS = "it exists"
    MISSING = "it is missing"
    VERSION = "it has another version"
    NOT_EMPTY = "it has children"
    EPHEMERAL_PARENT = "its parent is ephemeral"


class StoreConflictError(StoreError):
    """The store refused one operation of a commit, so none of the operations was done."""

    def __init__(self, index: int, op: Op, refusal: Refusal) -> None:
        super().__init__(f"{type(op).__name__} {op.path} was refused: {refusal.value}.")
        self.index = index
        self.op = op
        self.refusal = refusal


class Watch(Protocol):
    def cancel(self) -> None: ...


class Store(Protocol):
    @property
    def session_id(self) -> int | None:
        """The session that owns this store's ephemeral nodes; None before `start` and after a loss."""

    async def start(self) -> None:
        """Open the store and begin a session; after a loss, begin the next one."""

    async def close(self) -> None:
        """End the session, which removes its ephemeral nodes at once. Callbacks for a lost session are not called."""

    def on_session_lost(self, callback: Callable[[], None]) -> None:
        """Call when the session ended without `close`, which has removed its ephemeral nodes."""

    async def get(self, path: str) -> Node | None: ...

    async def children(self, path: str) -> list[str]:
        """Names (not paths) below a node, sorted; empty when there is no such node."""

    async def read_tree(self, *prefixes: str) -> dict[str, Node]:
        """The named nodes and everything below them, as they are at one moment."""

    async def read_changes(self, since: int, *prefixes: str) -> Changes:
        """What differs under the prefixes since an earlier revision; 0 asks for everything."""

    async def commit(self, ops: Sequence[Op]) -> list[int]:
        """Do all operations in order, or none and raise StoreConflictError.

        Returns the version each node has after its operation (for Check the one it has, for Delete -1). When it
        returns, the change is durable, visible to every reader and included in the next `read_changes`.
        """

    def watch(self, callback: Callable[[], None], *prefixes: str) -> Watch:
        """Call back, soon after, when a named node or anything below it changed; several changes may make one call."""


def check_path(path: str) -> str:
    """Refuse every path that ZooKeeper would refuse, so that all stores accept the same paths."""
    bad = (
        not path.startswith(ROOT)
        or (path.endswith("/") and path != ROOT)
        or "//" in path
        or "\0" in path
        or any(segment in (".", "..") for segment in path.split("/"))
        or any("\ud800" <= character <= "\udfff" for character in path)
    )
    if bad:
        raise ValueError(f"not a path of the store: {path!r}")
    return path


def parent_of(path: str) -> str:
    return path[: path.rindex("/")] or ROOT


def is_under(path: str, prefix: str) -> bool:
    """Whether a path is the prefix or below it: `/controller_epoch` is not under `/controller`."""
    return path == prefix or prefix == ROOT or path.startswith(prefix + "/")
