"""Random commits: every store does what a plain dict with copies would do."""

import asyncio
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.store.interface import Check, Create, Delete, Op, Put, Set, Store, StoreConflictError
from tests.store.worlds import MemoryWorld, SqliteWorld, World, play
from tests.store.zookeeper_world import ZooKeeperWorld

paths = st.sampled_from(["/a", "/a/b", "/a/b/c", "/a/d", "/e", "/e/f"])
data = st.sampled_from([b"", b"x", b"\x00\xff"])
versions = st.sampled_from([None, None, 0, 1])
operations = st.one_of(
    st.builds(Create, paths, data, st.booleans()),
    st.builds(Set, paths, data, versions),
    st.builds(Put, paths, data),
    st.builds(Delete, paths, versions),
    st.builds(Check, paths, versions),
)
commits = st.lists(st.tuples(st.sampled_from([0, 1]), st.lists(operations, max_size=6)), max_size=10)

ModelNode = tuple[bytes, int, int | None]


class RefusedError(Exception):
    pass


class Model:
    """Nodes as (data, version, which of the stores owns it)."""

    def __init__(self) -> None:
        self.nodes: dict[str, ModelNode] = {"/": (b"", 0, None)}

    def commit(self, ops: list[Op], owner: int) -> list[int]:
        before = dict(self.nodes)
        try:
            return [self._apply(op, owner) for op in ops]
        except RefusedError:
            self.nodes = before
            raise

    def _apply(self, op: Op, owner: int) -> int:
        match op:
            case Create(path, _, _) if path in self.nodes:
                raise RefusedError
            case Create(path, value, ephemeral):
                return self._create(path, value, owner if ephemeral else None)
            case Put(path, value) if path not in self.nodes:
                return self._create(path, value, None)
            case Put(path, value) | Set(path, value, _):
                self._match(path, op.version if isinstance(op, Set) else None)
                _, version, holder = self.nodes[path]
                self.nodes[path] = (value, version + 1, holder)
                return version + 1
            case Delete(path, wanted):
                self._match(path, wanted)
                if any(other.startswith(path + "/") for other in self.nodes):
                    raise RefusedError
                del self.nodes[path]
                return -1
            case Check(path, wanted):
                self._match(path, wanted)
                return self.nodes[path][1]

    def _match(self, path: str, wanted: int | None) -> None:
        if path not in self.nodes or wanted not in (None, self.nodes[path][1]):
            raise RefusedError

    def _create(self, path: str, value: bytes, owner: int | None) -> int:
        parts = path.split("/")[1:-1]
        for depth in range(1, len(parts) + 1):
            ancestor = "/" + "/".join(parts[:depth])
            if self.nodes.setdefault(ancestor, (b"", 0, None))[2] is not None:
                raise RefusedError
        self.nodes[path] = (value, 0, owner)
        return 0


async def compare(world: World, script: list[tuple[int, list[Op]]]) -> None:
    model = Model()
    stores = [await world.open(), await world.open()]
    owners = {store.session_id: index for index, store in enumerate(stores)}
    mirror: dict[str, ModelNode] = {}
    revision = 0

    async def shown(store: Store) -> dict[str, ModelNode]:
        tree = await store.read_tree("/")
        return {p: (n.data, n.version, None if n.owner is None else owners[n.owner]) for p, n in tree.items()}

    for index, ops in script:
        try:
            expected: list[int] | None = model.commit(ops, index)
        except RefusedError:
            expected = None
        try:
            actual: list[int] | None = await stores[index].commit(ops)
        except StoreConflictError:
            actual = None
        assert actual == expected
        assert await shown(stores[1 - index]) == model.nodes
        changes = await stores[1 - index].read_changes(revision, "/")
        revision = changes.revision
        if changes.complete:
            mirror.clear()
        for path, node in changes.nodes.items():
            if node is None:
                mirror.pop(path, None)
            else:
                mirror[path] = (node.data, node.version, None if node.owner is None else owners[node.owner])
        assert mirror == model.nodes
    await world.leave(stores[0])
    assert await shown(stores[1]) == {path: node for path, node in model.nodes.items() if node[2] != 0}


@settings(max_examples=80, deadline=None)
@given(commits)
def test_memory_follows_the_model(script: list[tuple[int, list[Op]]]) -> None:
    asyncio.run(play(lambda world: compare(world, script), MemoryWorld()))


@settings(max_examples=25, deadline=None)
@given(commits)
def test_sqlite_follows_the_model(script: list[tuple[int, list[Op]]]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(play(lambda world: compare(world, script), SqliteWorld(Path(directory))))


@settings(max_examples=25, deadline=None)
@given(commits)
def test_zookeeper_follows_the_model(zookeeper_address: str, script: list[tuple[int, list[Op]]]) -> None:
    asyncio.run(play(lambda world: compare(world, script), ZooKeeperWorld(zookeeper_address)))
