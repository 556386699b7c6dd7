"""From the operations of a commit to the steps of one ZooKeeper transaction, and back from its failure to a refusal.

ZooKeeper knows no `Put`, makes no parents and does not tell the version a check saw. So a plan is made from what is
known about the nodes, and every step that rests on such knowledge carries a condition that fails if the knowledge was
old: then the nodes are read again and another plan is made. What the caller asked for is never refused from here; only
ZooKeeper refuses.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from ottla.store.interface import (
    ROOT,
    Check,
    Create,
    Delete,
    Op,
    Put,
    Refusal,
    Set,
    StoreConflictError,
    check_path,
    parent_of,
)

SESSIONS = "/sessions"
"""Where each session has the node that counts its commits (`zookeeper_commits`). The store shows it to nobody."""

ANY_VERSION = -1
NO_VERSION = 2**31 - 1
"""A version no node has: the step fails in one way if the node is missing and in another if it is there."""
DELETED_VERSION = -1

Facts = Mapping[str, int | None]
"""What was read: the version of a node, or None for a node that is missing."""


class Act(Enum):
    CREATE = "create"
    SET = "set"
    DELETE = "delete"
    CHECK = "check"


class Step(NamedTuple):
    act: Act
    path: str
    data: bytes
    version: int
    ephemeral: bool
    cause: int
    """The operation this step is part of."""
    old_news: frozenset[Refusal]
    """The refusals that show that the plan was made from old knowledge."""


class Plan(NamedTuple):
    ops: Sequence[Op]
    steps: list[Step]
    versions: list[int]
    """What the commit returns if the transaction succeeds."""
    unknown: set[str]
    """Nodes to read first: the steps are good only when this is empty."""

    def conflict(self, index: int, refusal: Refusal) -> StoreConflictError | None:
        """What the refusal of a step means for the caller; None: nothing, plan again."""
        step = self.steps[index]
        if refusal in step.old_news:
            return None
        return StoreConflictError(step.cause, self.ops[step.cause], refusal)


def check_ops(ops: Sequence[Op]) -> None:
    for op in ops:
        if check_path(op.path) == ROOT and not isinstance(op, Check):
            raise ValueError("the root of the store cannot be changed")


def make_plan(ops: Sequence[Op], known: Callable[[str], int | None] | Facts) -> Plan:
    """`known` raises KeyError for a node about which nothing is known."""
    draft = _Draft(known if callable(known) else known.__getitem__)
    versions = [draft.add(index, op) for index, op in enumerate(ops)]
    return Plan(ops, draft.steps, versions, draft.unknown)


class _Draft:
    def __init__(self, known: Callable[[str], int | None]) -> None:
        self._known = known
        self._now: dict[str, int | None] = {}
        self._made_or_removed: set[str] = set()
        self.steps: list[Step] = []
        self.unknown: set[str] = set()

    def add(self, index: int, op: Op) -> int:
        if isinstance(op, Create):
            return self._create(index, op.path, op.data, op.ephemeral, frozenset({Refusal.MISSING}))
        if isinstance(op, Put):
            return self._put(index, op)
        if isinstance(op, Delete):
            self._step(Act.DELETE, index, op.path, version=_given(op.version, ANY_VERSION))
            self._now[op.path] = None
            self._made_or_removed.add(op.path)
            return DELETED_VERSION
        return self._versioned(index, op)

    def _put(self, index: int, op: Put) -> int:
        version = self._version(op.path)
        if version is None:
            return self._create(index, op.path, op.data, False, frozenset({Refusal.MISSING, Refusal.EXISTS}))
        old_news = frozenset({Refusal.MISSING, Refusal.VERSION})
        self._step(Act.SET, index, op.path, op.data, version, old_news=old_news)
        self._now[op.path] = version + 1
        return version + 1

    def _versioned(self, index: int, op: Set | Check) -> int:
        """With the version left out, the step still names the known one, since the result must tell it."""
        old_news: frozenset[Refusal] = frozenset()
        version = op.version
        if version is None:
            version = self._version(op.path)
            version = NO_VERSION if version is None else version
            old_news = frozenset({Refusal.VERSION})
        version = _given(version, ANY_VERSION)
        if isinstance(op, Check):
            self._step(Act.CHECK, index, op.path, version=version, old_news=old_news)
            return version
        self._step(Act.SET, index, op.path, op.data, version, old_news=old_news)
        # After a step that must fail, any number will do that can be sent.
        self._now[op.path] = min(version + 1, NO_VERSION)
        return version + 1

    def _create(self, index: int, path: str, data: bytes, ephemeral: bool, old_news: frozenset[Refusal]) -> int:
        missing = []
        above = parent_of(path)
        while above != ROOT and self._version(above) is None:
            missing.append(above)
            above = parent_of(above)
        for ancestor in reversed(missing):
            self._make(index, ancestor, b"", False, frozenset({Refusal.MISSING, Refusal.EXISTS}))
        self._make(index, path, data, ephemeral, old_news)
        return 0

    def _make(self, index: int, path: str, data: bytes, ephemeral: bool, old_news: frozenset[Refusal]) -> None:
        self._step(Act.CREATE, index, path, data, ephemeral=ephemeral, old_news=old_news)
        self._now[path] = 0
        if path not in self.unknown:
            self._made_or_removed.add(path)

    def _step(
        self,
        act: Act,
        index: int,
        path: str,
        data: bytes = b"",
        version: int = ANY_VERSION,
        ephemeral: bool = False,
        old_news: frozenset[Refusal] = frozenset(),
    ) -> None:
        self.steps.append(Step(act, path, data, version, ephemeral, index, old_news))

    def _version(self, path: str) -> int | None:
        """The version after the steps so far. Below a node that they made or removed there is nothing."""
        if path in self._now:
            return self._now[path]
        above = path
        while above != ROOT:
            above = parent_of(above)
            if above in self._made_or_removed:
                return None
        try:
            return self._known(path)
        except KeyError:
            self.unknown.add(path)
            return None


def _given(version: int | None, otherwise: int) -> int:
    """The caller's version; one that ZooKeeper cannot hold, or would take for any, matches no node."""
    if version is None:
        return otherwise
    return version if 0 <= version < NO_VERSION else NO_VERSION
