"""Translates the operations of a commit into the steps of one ZooKeeper transaction, and a failed step into a conflict.

ZooKeeper has no `Put`, creates no parents, and does not return the version that a check saw. So a plan uses the known
versions of the nodes, and every step that depends on such a version has a condition that fails if the version is stale.
Then the store reads the nodes and makes a new plan. A plan never rejects an operation itself; only ZooKeeper does.
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
"""The parent of the guard nodes of all sessions (`zookeeper_commits`). Readers of the store do not see it."""

ANY_VERSION = -1
NO_VERSION = 2**31 - 1
"""A version that no node has. The step fails with MISSING or VERSION, which tells whether the node exists."""
DELETED_VERSION = -1

Facts = Mapping[str, int | None]
"""The version of each node that was read, or None for a missing node."""


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
    """The index of the operation that this step belongs to."""
    stale_refusals: frozenset[Refusal]
    """The refusals which mean that the plan used stale versions."""


class Plan(NamedTuple):
    ops: Sequence[Op]
    steps: list[Step]
    versions: list[int]
    """What the commit returns if the transaction succeeds."""
    unknown: set[str]
    """Nodes to read first. The plan is usable only if this is empty."""

    def conflict(self, index: int, refusal: Refusal) -> StoreConflictError | None:
        """The conflict to raise after a step was rejected. None: the plan was stale, so make a new one."""
        step = self.steps[index]
        if refusal in step.stale_refusals:
            return None
        return StoreConflictError(step.cause, self.ops[step.cause], refusal)


def check_ops(ops: Sequence[Op]) -> None:
    for op in ops:
        if check_path(op.path) == ROOT and not isinstance(op, Check):
            raise ValueError("the root of the store cannot be changed")


def make_plan(ops: Sequence[Op], known: Callable[[str], int | None] | Facts) -> Plan:
    """`known` returns the version of a node, and raises KeyError if it is unknown."""
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
        stale_refusals = frozenset({Refusal.MISSING, Refusal.VERSION})
        self._step(Act.SET, index, op.path, op.data, version, stale_refusals=stale_refusals)
        self._now[op.path] = version + 1
        return version + 1

    def _versioned(self, index: int, op: Set | Check) -> int:
        """If the caller gives no version, the step has the known version, since the commit must return it."""
        stale_refusals: frozenset[Refusal] = frozenset()
        version = op.version
        if version is None:
            version = self._version(op.path)
            version = NO_VERSION if version is None else version
            stale_refusals = frozenset({Refusal.VERSION})
        version = _given(version, ANY_VERSION)
        if isinstance(op, Check):
            self._step(Act.CHECK, index, op.path, version=version, stale_refusals=stale_refusals)
            return version
        self._step(Act.SET, index, op.path, op.data, version, stale_refusals=stale_refusals)
        # If the step must fail, the number does not matter, but it must be valid.
        self._now[op.path] = min(version + 1, NO_VERSION)
        return version + 1

    def _create(self, index: int, path: str, data: bytes, ephemeral: bool, stale_refusals: frozenset[Refusal]) -> int:
        missing = []
        above = parent_of(path)
        while above != ROOT and self._version(above) is None:
            missing.append(above)
            above = parent_of(above)
        for ancestor in reversed(missing):
            self._make(index, ancestor, b"", False, frozenset({Refusal.MISSING, Refusal.EXISTS}))
        self._make(index, path, data, ephemeral, stale_refusals)
        return 0

    def _make(self, index: int, path: str, data: bytes, ephemeral: bool, stale_refusals: frozenset[Refusal]) -> None:
        self._step(Act.CREATE, index, path, data, ephemeral=ephemeral, stale_refusals=stale_refusals)
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
        stale_refusals: frozenset[Refusal] = frozenset(),
    ) -> None:
        self.steps.append(Step(act, path, data, version, ephemeral, index, stale_refusals))

    def _version(self, path: str) -> int | None:
        """The version after the steps so far. A node that they created or removed has no other children."""
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


def _given(version: int | None, default: int) -> int:
    """The caller's version, or NO_VERSION if it is out of range. ZooKeeper would take -1 for any version."""
    if version is None:
        return default
    return version if 0 <= version < NO_VERSION else NO_VERSION
