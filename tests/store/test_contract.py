"""What every store promises, whatever it is made of."""

import asyncio
import contextlib
from collections.abc import Sequence

import pytest

from ottla.store.interface import (
    Check,
    Create,
    Delete,
    Op,
    Put,
    Refusal,
    SessionLostError,
    Set,
    Store,
    StoreConflictError,
    StoreError,
    check_path,
    is_under,
    parent_of,
)
from tests.store.worlds import World, on_every_store


async def refused(store: Store, ops: Sequence[Op]) -> tuple[int, Refusal]:
    before = await store.read_tree("/")
    with pytest.raises(StoreConflictError) as caught:
        await store.commit(ops)
    assert await store.read_tree("/") == before
    assert caught.value.op is ops[caught.value.index]
    return caught.value.index, caught.value.refusal


@on_every_store
async def test_a_node_is_created_changed_and_deleted(world: World) -> None:
    store = await world.open()
    assert await store.get("/a") is None
    assert await store.commit([Create("/a", b"one")]) == [0]
    created = await store.get("/a")
    assert created is not None
    assert (created.data, created.version, created.owner) == (b"one", 0, None)
    assert await store.commit([Set("/a", b"two", 0)]) == [1]
    changed = await store.get("/a")
    assert changed == created._replace(data=b"two", version=1)
    assert await store.commit([Delete("/a", 1)]) == [-1]
    assert await store.get("/a") is None


@on_every_store
async def test_a_node_made_again_is_another_node(world: World) -> None:
    store = await world.open()
    await store.commit([Create("/a")])
    first = await store.get("/a")
    await store.commit([Delete("/a")])
    await store.commit([Create("/a")])
    second = await store.get("/a")
    assert first is not None
    assert second is not None
    assert second.version == 0
    assert second.created > first.created


@on_every_store
async def test_missing_parents_are_made(world: World) -> None:
    store = await world.open()
    await store.commit([Create("/a/b/c", b"data"), Put("/a/d/e", b"other")])
    tree = await store.read_tree("/a")
    assert {path: node.data for path, node in tree.items()} == {
        "/a": b"", "/a/b": b"", "/a/b/c": b"data", "/a/d": b"", "/a/d/e": b"other",
    }  # fmt: skip
    assert await store.children("/a") == ["b", "d"]
    assert await store.children("/") == ["a"]
    assert await store.children("/a/b/c") == []
    assert await store.children("/missing") == []


@on_every_store
async def test_put_creates_or_overwrites(world: World) -> None:
    store = await world.open()
    assert await store.commit([Put("/a", b"1")]) == [0]
    assert await store.commit([Put("/a", b"2"), Put("/a", b"3")]) == [1, 2]


@on_every_store
async def test_a_conflict_names_its_operation_and_changes_nothing(world: World) -> None:
    store = await world.open()
    await store.commit([Create("/a/b", b"x"), Create("/e", ephemeral=True)])
    fine = Put("/fine", b"")
    assert await refused(store, [fine, Create("/a")]) == (1, Refusal.EXISTS)
    assert await refused(store, [fine, Set("/n", b"")]) == (1, Refusal.MISSING)
    assert await refused(store, [Delete("/n"), fine]) == (0, Refusal.MISSING)
    assert await refused(store, [fine, Check("/n")]) == (1, Refusal.MISSING)
    assert await refused(store, [fine, Set("/a/b", b"", 1)]) == (1, Refusal.VERSION)
    assert await refused(store, [fine, Delete("/a/b", 7)]) == (1, Refusal.VERSION)
    assert await refused(store, [fine, fine, Check("/a/b", 1)]) == (2, Refusal.VERSION)
    assert await refused(store, [fine, Delete("/a")]) == (1, Refusal.NOT_EMPTY)
    assert await refused(store, [fine, Create("/e/child")]) == (1, Refusal.EPHEMERAL_PARENT)
    assert await refused(store, [fine, Put("/e/child/grandchild", b"")]) == (1, Refusal.EPHEMERAL_PARENT)


@on_every_store
async def test_operations_see_the_ones_before(world: World) -> None:
    store = await world.open()
    assert await store.commit([Create("/a/b"), Set("/a/b", b"x", 0), Check("/a/b", 1), Delete("/a/b"), Delete("/a")]) \
        == [0, 1, 1, -1, -1]  # fmt: skip
    assert await store.get("/a") is None
    await store.commit([Create("/a/b")])
    assert await store.commit([Delete("/a/b"), Delete("/a"), Create("/a/c", b"new")]) == [-1, -1, 0]
    assert await store.children("/a") == ["c"]
    assert await refused(store, [Delete("/a/c"), Create("/a/d"), Delete("/a")]) == (2, Refusal.NOT_EMPTY)


@on_every_store
async def test_a_check_of_the_root_and_an_empty_commit_are_fine(world: World) -> None:
    store = await world.open()
    assert await store.commit([Check("/")]) == [0]
    assert await store.commit([]) == []


@on_every_store
async def test_bad_paths_are_refused(world: World) -> None:
    store = await world.open()
    for path in ("", "a", "/a/", "//", "/a//b", "/.", "/../a", "/a\0b", "/\ud800"):
        with pytest.raises(ValueError, match="path"):
            await store.commit([Create(path)])
        with pytest.raises(ValueError, match="path"):
            await store.get(path)
    for op in (Create("/"), Set("/", b""), Put("/", b""), Delete("/")):
        with pytest.raises(ValueError, match="root"):
            await store.commit([op])


@on_every_store
async def test_read_tree_takes_whole_segments(world: World) -> None:
    store = await world.open()
    names = ["/c", "/c/x", "/c_d", "/c-d", "/c.", "/c0", "/b/c", "/c/x/ü"]
    await store.commit([Put(name, b"") for name in names])
    assert set(await store.read_tree("/c")) == {"/c", "/c/x", "/c/x/ü"}
    assert set(await store.read_tree("/c0", "/b")) == {"/c0", "/b", "/b/c"}
    assert set(await store.read_tree("/")) == {"/", "/b", *names}
    assert await store.read_tree("/missing") == {}


@on_every_store
async def test_changes_are_told_since_a_revision(world: World) -> None:
    store, other = await world.open(), await world.open()
    await store.commit([Create("/a/x", b"1"), Create("/a/y"), Create("/b")])
    start = await store.read_changes(0, "/a", "/b")
    assert start.complete
    assert set(start.nodes) == {"/a", "/a/x", "/a/y", "/b"}
    nothing = await store.read_changes(start.revision, "/a", "/b")
    assert (nothing.nodes, nothing.complete, nothing.revision) == ({}, False, start.revision)
    await other.commit([Set("/a/x", b"2"), Create("/elsewhere")])
    await store.commit([Delete("/a/y"), Create("/b/z")])
    changes = await store.read_changes(start.revision, "/a", "/b")
    assert not changes.complete
    assert set(changes.nodes) == {"/a/x", "/a/y", "/b/z"}
    assert changes.nodes["/a/y"] is None
    assert changes.nodes["/a/x"] == await store.get("/a/x")
    assert (await other.read_changes(changes.revision, "/a", "/b")).nodes == {}


@on_every_store
async def test_a_node_deleted_and_made_again_is_a_change_not_a_loss(world: World) -> None:
    store = await world.open()
    await store.commit([Create("/a")])
    revision = (await store.read_changes(0, "/")).revision
    await store.commit([Delete("/a")])
    await store.commit([Create("/a", b"again")])
    changes = await store.read_changes(revision, "/")
    assert changes.nodes == {"/a": await store.get("/a")}


@on_every_store
async def test_watches_tell_that_something_below_changed(world: World) -> None:
    store, other = await world.open(), await world.open()
    await store.commit([Create("/a/b"), Create("/ab")])
    await world.settle()
    calls: list[str] = []
    store.watch(lambda: calls.append("a"), "/a")
    store.watch(lambda: calls.append("two"), "/ab", "/a/b")
    other.watch(lambda: calls.append("other"), "/")
    await other.commit([Put("/a/b", b""), Put("/a/c", b"")])
    await other.commit([Put("/a/d", b"")])
    assert calls == []
    await world.settle()
    assert sorted(calls) == ["a", "other", "two"]
    calls.clear()
    await world.settle()
    assert calls == []
    await store.commit([Put("/ab", b"")])
    await world.settle()
    assert sorted(calls) == ["other", "two"]
    calls.clear()
    await store.commit([Check("/a/b")])
    await refused(store, [Put("/a/b", b""), Check("/missing")])
    await world.settle()
    assert calls == []


@on_every_store
async def test_a_cancelled_watch_is_silent(world: World) -> None:
    store = await world.open()
    calls: list[int] = []
    first = store.watch(lambda: calls.append(1), "/")
    store.watch(lambda: calls.append(2), "/")
    await store.commit([Create("/a")])
    first.cancel()
    await world.settle()
    assert calls == [2]


@on_every_store
async def test_a_watch_may_commit_and_watch_again(world: World) -> None:
    store = await world.open()
    tasks: list[asyncio.Task[list[int]]] = []

    def answer() -> None:
        if not tasks:
            tasks.append(asyncio.create_task(_commit(store, [Put("/answer", b"")])))

    store.watch(answer, "/question")
    await store.commit([Create("/question")])
    await world.settle()
    assert await tasks[0] == [0]


async def _commit(store: Store, ops: Sequence[Op]) -> list[int]:
    return await store.commit(ops)


@on_every_store
async def test_ephemeral_nodes_belong_to_their_session(world: World) -> None:
    store, other = await world.open(), await world.open()
    await store.commit([Create("/live/one", b"x", ephemeral=True)])
    await other.commit([Create("/live/two", ephemeral=True), Create("/live/three")])
    node = await other.get("/live/one")
    assert node is not None
    assert node.owner == store.session_id != other.session_id
    await store.commit([Set("/live/one", b"y")])
    changed = await other.get("/live/one")
    assert changed == node._replace(data=b"y", version=1)
    revision = (await other.read_changes(0, "/live")).revision
    await store.commit([Delete("/live/one"), Create("/live/one", ephemeral=True)])
    await world.settle()
    gone: list[bool] = []
    other.watch(lambda: gone.append(True), "/live")
    await world.leave(store)
    assert await other.children("/live") == ["three", "two"]
    assert (await other.read_changes(revision, "/live")).nodes == {"/live/one": None}
    await world.settle()
    assert gone


@on_every_store
async def test_a_lost_session_takes_its_nodes_and_may_not_commit(world: World) -> None:
    store, other = await world.open(), await world.open()
    await store.commit([Create("/live/one", ephemeral=True), Create("/stays")])
    await other.commit([Create("/live/two", ephemeral=True)])
    lost: list[int] = []
    store.on_session_lost(lambda: lost.append(1))
    other.on_session_lost(lambda: lost.append(2))
    changed: list[bool] = []
    other.watch(lambda: changed.append(True), "/live")
    former = store.session_id

    await world.expire(store)

    assert lost == [1]
    assert store.session_id is None
    assert await store.children("/live") == ["two"]
    assert await store.get("/stays") is not None
    assert changed
    with pytest.raises(SessionLostError):
        await store.commit([Put("/stays", b"")])
    await store.start()
    assert store.session_id not in (None, former)
    await store.commit([Create("/live/one", ephemeral=True)])
    assert lost == [1]


@on_every_store
async def test_closing_is_not_losing(world: World) -> None:
    store, other = await world.open(), await world.open()
    lost: list[bool] = []
    store.on_session_lost(lambda: lost.append(True))
    await store.commit([Create("/e", ephemeral=True)])
    await store.close()
    await store.close()
    assert lost == []
    assert await other.get("/e") is None
    for use in (store.get("/e"), store.commit([]), store.children("/"), store.read_tree("/"), store.read_changes(0)):
        with pytest.raises(StoreError):
            await use


@on_every_store
async def test_compare_and_set_loses_no_increment(world: World) -> None:
    stores = [await world.open(), await world.open()]
    await stores[0].commit([Create("/counter", b"0")])

    async def increment(store: Store) -> None:
        done = 0
        while done < 10:
            node = await store.get("/counter")
            assert node is not None
            with contextlib.suppress(StoreConflictError):
                await store.commit([Set("/counter", b"%d" % (int(node.data) + 1), node.version)])
                done += 1

    await asyncio.gather(*(increment(store) for store in stores for _ in range(2)))
    counter = await stores[0].get("/counter")
    assert counter is not None
    assert (counter.data, counter.version) == (b"40", 40)


def test_paths() -> None:
    assert check_path("/") == "/"
    assert check_path("/a/b.c/...") == "/a/b.c/..."
    assert parent_of("/a") == "/"
    assert parent_of("/a/b") == "/a"
    assert is_under("/controller", "/controller")
    assert is_under("/controller/x", "/controller")
    assert not is_under("/controller_epoch", "/controller")
    assert is_under("/anything", "/")
