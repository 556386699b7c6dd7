"""The store on a real ZooKeeper, under the faults that a real ZooKeeper has."""

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import pytest

from ottla.cli.zookeeper_server import ZooKeeperServer
from ottla.env.background import Threads
from ottla.store import zookeeper_mirror
from ottla.store.interface import (
    Check,
    CommitTooLargeError,
    Create,
    Delete,
    Op,
    Put,
    Refusal,
    SessionLostError,
    Set,
    StoreConflictError,
    StoreError,
)
from ottla.store.zookeeper import ZooKeeperStore
from tests.manual_clock import ManualClock
from tests.store.tcp_proxy import TcpProxy
from tests.store.zookeeper_world import ZooKeeperWorld, eventually, steal_session


class Scene(NamedTuple):
    world: ZooKeeperWorld
    proxy: TcpProxy
    store: ZooKeeperStore
    """Talks to ZooKeeper through the proxy."""
    other: ZooKeeperStore
    """Talks to it directly."""


def chroot(world: ZooKeeperWorld) -> str:
    return world.address[world.address.index("/") :]


def behind_a_proxy(scenario: Callable[[Scene], Awaitable[None]]) -> Callable[[str], None]:
    async def play(address: str) -> None:
        world = ZooKeeperWorld(address)
        async with TcpProxy(address) as proxy:
            try:
                other = await world.open()
                store = await world.open(proxy.address + chroot(world))
                await scenario(Scene(world, proxy, store, other))
            finally:
                proxy.resume()
                proxy.accepting = True
                await world.close()

    def test(zookeeper_address: str) -> None:
        asyncio.run(asyncio.wait_for(play(zookeeper_address), 60))

    test.__name__ = scenario.__name__
    test.__doc__ = scenario.__doc__
    return test


async def version(store: ZooKeeperStore, path: str) -> int | None:
    node = await store.get(path)
    return None if node is None else node.version


@behind_a_proxy
async def test_a_commit_whose_answer_is_lost_was_done_once(scene: Scene) -> None:
    _, proxy, store, other = scene
    await store.commit([Create("/a", b"0"), Create("/gone")])
    session = store.session_id
    await store.read_changes(0, "/")  # So that the commit can be planned without asking anything first.
    proxy.replies.clear()
    ops: list[Op] = [Put("/a", b"1"), Put("/new/deep", b""), Delete("/gone"), Check("/a"), Create("/e", ephemeral=True)]
    commit = asyncio.ensure_future(store.commit(ops))

    async def is_done() -> bool:
        return await version(other, "/a") == 1

    await eventually(is_done)
    await other.commit([Set("/new/deep", b"by the other", 0)])
    proxy.cut()
    proxy.resume()
    assert await commit == [1, 0, -1, 1, 0]
    assert await version(other, "/a") == 1
    assert await version(other, "/new/deep") == 1
    assert store.session_id == session
    assert await store.commit([Set("/a", b"2", 1)]) == [2]


@behind_a_proxy
async def test_a_commit_that_never_arrived_is_done_after_all(scene: Scene) -> None:
    _, proxy, store, other = scene
    await store.commit([Create("/a", b"0")])
    proxy.requests.clear()
    commit = asyncio.ensure_future(store.commit([Set("/a", b"1", 0)]))
    await asyncio.sleep(
        0.05
    )  # Nothing shows that the request has reached the proxy; either way the result is the same.
    assert await version(other, "/a") == 0
    proxy.cut()
    proxy.resume()
    assert await commit == [1]
    assert await version(other, "/a") == 1


@behind_a_proxy
async def test_a_refusal_whose_answer_is_lost_is_told(scene: Scene) -> None:
    _, proxy, store, other = scene
    await store.commit([Create("/a", b"0")])
    proxy.replies.clear()
    commit = asyncio.ensure_future(store.commit([Create("/b"), Set("/a", b"1", 7)]))
    await asyncio.sleep(0.05)  # As above: whether it was sent once or twice must make no difference.
    proxy.cut()
    proxy.resume()
    with pytest.raises(StoreConflictError) as caught:
        await commit
    assert (caught.value.index, caught.value.refusal) == (1, Refusal.VERSION)
    assert await other.get("/b") is None


@behind_a_proxy
async def test_increments_are_exact_while_connections_are_cut(scene: Scene) -> None:
    """Two stores overwrite the same node; each commit gets a version of its own, and none is done twice."""
    _, proxy, store, other = scene
    chance, cuts = random.Random(7), 6
    await store.commit([Create("/counter")])
    versions: dict[ZooKeeperStore, list[int]] = {store: [], other: []}
    stopping = asyncio.Event()

    async def write(writer: ZooKeeperStore) -> None:
        while not stopping.is_set():
            versions[writer].extend(await writer.commit([Put("/counter", b"x")]))

    writing = [asyncio.ensure_future(write(writer)) for writer in (store, store, other)]
    for connection in range(1, cuts + 1):
        # Each cut hits a connection of its own: what the last one had brought may count only now.
        await eventually(lambda connection=connection: proxy.connections >= connection)
        goal = len(versions[store]) + chance.randint(1, 20)
        await eventually(lambda goal=goal: len(versions[store]) >= goal)
        proxy.cut()
    stopping.set()
    await asyncio.gather(*writing)
    together = sorted(versions[store] + versions[other])
    assert together == list(range(1, len(together) + 1))
    assert await version(other, "/counter") == len(together)


@behind_a_proxy
async def test_a_session_that_expires_takes_its_commit_along(scene: Scene) -> None:
    world, proxy, store, other = scene
    await store.commit([Create("/mine", ephemeral=True), Create("/stays")])
    lost: list[bool] = []
    store.on_session_lost(lambda: lost.append(True))
    proxy.requests.clear()
    under_way = asyncio.ensure_future(store.commit([Put("/a", b"")]))
    waiting = [asyncio.ensure_future(store.commit([Put("/b", b"")])) for _ in range(3)]
    await asyncio.sleep(0)
    await steal_session(store, world.address)
    proxy.cut()
    proxy.resume()
    for commit in (under_way, *waiting):
        with pytest.raises(SessionLostError):
            await commit
    assert lost == [True]
    assert await other.get("/mine") is None
    assert await other.get("/a") is None
    assert await other.get("/b") is None
    assert await store.children("/") == ["stays"]
    await store.start()
    assert await store.commit([Put("/a", b"")]) == [0]


@behind_a_proxy
async def test_what_changed_while_there_was_no_connection_is_found(scene: Scene) -> None:
    world, proxy, store, other = scene
    await other.commit([Create("/t/changed"), Create("/t/gone/deep"), Create("/t/same"), Create("/elsewhere")])
    start = await store.read_changes(0, "/t")
    calls: list[bool] = []
    store.watch(lambda: calls.append(True), "/t")
    await world.settle()
    assert calls == []
    proxy.accepting = False
    proxy.cut()
    await other.commit([Set("/t/changed", b"x"), Delete("/t/gone/deep"), Delete("/t/gone"), Create("/t/new/deep")])
    proxy.accepting = True
    changes = await store.read_changes(start.revision, "/t")
    assert not changes.complete
    assert {path: node is not None for path, node in changes.nodes.items()} == {
        "/t/changed": True, "/t/gone": False, "/t/gone/deep": False, "/t/new": True, "/t/new/deep": True,
    }  # fmt: skip
    await world.settle()
    assert calls == [True]
    await other.commit([Set("/t/new/deep", b"y")])
    await world.settle()
    assert calls == [True, True]
    assert set((await store.read_changes(changes.revision, "/t")).nodes) == {"/t/new/deep"}


@behind_a_proxy
async def test_without_a_connection_it_waits_for_a_while_and_then_says_so(scene: Scene) -> None:
    world, proxy, store, other = scene
    await store.commit([Create("/a")])
    proxy.accepting = False
    proxy.cut()
    await eventually(lambda: not _is_connected(store))
    commit, read = asyncio.ensure_future(store.commit([Put("/a", b"x")])), asyncio.ensure_future(store.get("/a"))
    await asyncio.sleep(0)
    assert not commit.done()
    world.clocks[store].advance(6.0)
    for refused in (commit, read, store.commit([Put("/a", b"y")]), store.read_changes(0, "/")):
        with pytest.raises(StoreError, match="has not been reached for 6 seconds"):
            await refused
    assert store.session_id is not None
    proxy.accepting = True
    await eventually(lambda: _is_connected(store))
    assert await store.commit([Put("/a", b"z")]) == [1]
    assert await version(other, "/a") == 1


def _is_connected(store: ZooKeeperStore) -> bool:
    return store._client is not None and store._client._connected


@behind_a_proxy
async def test_a_commit_that_may_have_been_done_waits_however_long(scene: Scene) -> None:
    world, proxy, store, other = scene
    proxy.replies.clear()
    commit = asyncio.ensure_future(store.commit([Create("/a")]))

    async def is_done() -> bool:
        return await other.get("/a") is not None

    await eventually(is_done)
    proxy.accepting = False
    proxy.cut()
    proxy.resume()
    await eventually(lambda: not _is_connected(store))
    world.clocks[store].advance(600.0)
    await asyncio.sleep(0)
    assert not commit.done()
    proxy.accepting = True
    assert await commit == [0]


@behind_a_proxy
async def test_a_connection_on_which_nobody_answers_is_given_up_in_time(scene: Scene) -> None:
    """A server does that when it is just starting: the session must not expire while the store waits for it."""
    _, proxy, store, _ = scene
    session = store.session_id
    await store.commit([Create("/e", ephemeral=True)])
    proxy.replies.clear()
    before = proxy.connections
    proxy.cut()
    await eventually(lambda: proxy.connections > before + 1)
    proxy.resume()
    assert await store.commit([Set("/e", b"", 0)]) == [1]
    assert store.session_id == session


@behind_a_proxy
async def test_a_paused_connection_expires_the_session(scene: Scene) -> None:
    """Here it is ZooKeeper that finds out, and the store learns it when it can talk to ZooKeeper again."""
    world, proxy, _, other = scene
    quick = await world.open(proxy.address + chroot(world), session_timeout=2.0)
    await quick.commit([Create("/quick", ephemeral=True)])
    lost: list[bool] = []
    quick.on_session_lost(lambda: lost.append(True))
    proxy.pause()

    async def is_gone() -> bool:
        return await other.get("/quick") is None

    await eventually(is_gone)
    assert quick.session_id is not None
    assert lost == []
    proxy.cut()
    proxy.resume()
    await eventually(lambda: quick.session_id is None)
    assert lost == [True]


async def increment_and_fault(server: ZooKeeperServer, fault: Callable[[], Awaitable[None]]) -> None:
    world = ZooKeeperWorld(server.address)
    try:
        stores = [await world.open(), await world.open()]
        await stores[0].commit([Create("/counter")])
        watcher = await world.open()
        start = await watcher.read_changes(0, "/")
        sessions = [store.session_id for store in stores]
        await stores[0].commit([Create("/alive", ephemeral=True)])
        versions: list[int] = []
        stopping = asyncio.Event()

        async def write(store: ZooKeeperStore) -> None:
            while not stopping.is_set():
                versions.extend(await store.commit([Put("/counter", b"x")]))

        writing = [asyncio.ensure_future(write(store)) for store in stores]
        await eventually(lambda: len(versions) > 20)
        await fault()
        before = len(versions)
        await eventually(lambda: len(versions) > before + 20)
        stopping.set()
        await asyncio.gather(*writing)
        assert sorted(versions) == list(range(1, len(versions) + 1))
        changes = await watcher.read_changes(start.revision, "/")
        node = changes.nodes["/counter"]
        assert node is not None
        assert node.version == len(versions)
        assert [store.session_id for store in stores] == sessions
        assert await watcher.get("/alive") is not None
    finally:
        await world.close()


def test_a_killed_server_loses_and_repeats_nothing(zookeeper_server: ZooKeeperServer) -> None:
    async def fault() -> None:
        process = zookeeper_server.process
        assert process is not None
        process.kill()
        await asyncio.to_thread(process.wait)
        await asyncio.to_thread(zookeeper_server.start)

    asyncio.run(asyncio.wait_for(increment_and_fault(zookeeper_server, fault), 90))


def test_a_paused_server_loses_and_repeats_nothing(zookeeper_server: ZooKeeperServer) -> None:
    """For less than the session timeout, but long enough for kazoo to miss an answer to its ping."""

    async def fault() -> None:
        assert zookeeper_server.process is not None
        os.kill(zookeeper_server.process.pid, signal.SIGSTOP)
        await asyncio.sleep(1.0)
        os.kill(zookeeper_server.process.pid, signal.SIGCONT)

    asyncio.run(asyncio.wait_for(increment_and_fault(zookeeper_server, fault), 90))


def in_zookeeper(scenario: Callable[[ZooKeeperWorld], Awaitable[None]]) -> Callable[[str], None]:
    async def play(address: str) -> None:
        world = ZooKeeperWorld(address)
        try:
            await scenario(world)
        finally:
            await world.close()

    def test(zookeeper_address: str) -> None:
        asyncio.run(asyncio.wait_for(play(zookeeper_address), 60))

    test.__name__ = scenario.__name__
    test.__doc__ = scenario.__doc__
    return test


@in_zookeeper
async def test_commits_that_go_together_fail_alone(world: ZooKeeperWorld) -> None:
    store = await world.open()
    await store.commit([Create("/a")])
    good = [store.commit([Put(f"/n/{number}", b"x")]) for number in range(20)]
    bad = [store.commit([Create("/fresh"), Create("/a")]), store.commit([Set("/n/3", b"", 5), Put("/fresh", b"")])]
    results = await asyncio.gather(*good[:10], *bad, *good[10:], return_exceptions=True)
    refusals = [result for result in results if isinstance(result, StoreConflictError)]
    assert [(refusal.index, refusal.refusal) for refusal in refusals] == [(1, Refusal.EXISTS), (0, Refusal.VERSION)]
    assert [result for result in results if result not in refusals] == [[0]] * 20
    assert await store.get("/fresh") is None
    assert len(await store.children("/n")) == 20


@in_zookeeper
async def test_a_commit_that_nobody_waits_for_any_more_is_not_begun(world: ZooKeeperWorld) -> None:
    store = await world.open()
    first = asyncio.ensure_future(store.commit([Put("/first", b"")]))
    await asyncio.sleep(0)
    second = asyncio.ensure_future(store.commit([Put("/second", b"")]))
    await asyncio.sleep(0)
    second.cancel()
    assert await first == [0]
    assert await store.commit([Put("/third", b"")]) == [0]
    assert await store.children("/") == ["first", "third"]


@in_zookeeper
async def test_a_megabyte_is_the_limit(world: ZooKeeperWorld) -> None:
    store = await world.open()
    session = store.session_id
    assert await store.commit([Put("/large", b"x" * 1_040_000)]) == [0]
    large = await store.get("/large")
    assert large is not None
    assert len(large.data) == 1_040_000
    for ops in ([Put("/a", b"x" * 1_048_576)], [Put(f"/n/{number}", b"x" * 1000) for number in range(1100)]):
        with pytest.raises(CommitTooLargeError, match="too large for ZooKeeper"):
            await store.commit(ops)
    assert await store.commit([Put("/a", b"")]) == [0]
    assert await store.children("/") == ["a", "large"]
    assert store.session_id == session


@in_zookeeper
async def test_versions_that_no_node_has_match_none(world: ZooKeeperWorld) -> None:
    store = await world.open()
    await store.commit([Create("/a")])
    for wanted in (-1, 2**31 - 1, 2**40):
        for op in (Set("/a", b"", wanted), Delete("/a", wanted), Check("/a", wanted)):
            with pytest.raises(StoreConflictError) as caught:
                await store.commit([op])
            assert caught.value.refusal is Refusal.VERSION


@in_zookeeper
async def test_changes_cost_what_changed_and_not_what_there_is(world: ZooKeeperWorld) -> None:
    store, other = await world.open(), await world.open()
    count = 1000
    await other.commit([Create(f"/t/{number}/state", b"x" * 100) for number in range(count)])
    everything = await store.read_changes(0, "/t")
    assert len(everything.nodes) == 2 * count + 1
    assert await store.read_tree("/t") == everything.nodes

    asked: list[object] = []
    client = store._client
    assert client is not None
    submit = client.submit

    def counted(content: object, **options: bool) -> object:
        asked.append(content)
        return submit(content, **options)

    client.submit = counted  # type: ignore[assignment]
    assert (await store.read_changes(everything.revision, "/t")).nodes == {}
    assert len(asked) == 1
    await other.commit([Set("/t/7/state", b"y"), Delete("/t/8/state"), Create("/t/new")])
    asked.clear()
    changes = await store.read_changes(everything.revision, "/t")
    assert set(changes.nodes) == {"/t/7/state", "/t/8/state", "/t/new"}
    assert len(asked) == 4


@in_zookeeper
async def test_a_tree_is_read_as_of_one_moment(world: ZooKeeperWorld) -> None:
    """A writer changes many nodes in each commit; a reader never sees nodes of two commits."""
    store, other = await world.open(), await world.open()
    paths = [f"/t/{number}" for number in range(20)]
    await other.commit([Create(path, b"0") for path in paths])
    stopping = asyncio.Event()

    async def write() -> None:
        number = 0
        while not stopping.is_set():
            number += 1
            await other.commit([Put(path, b"%d" % number) for path in paths])

    writing = asyncio.ensure_future(write())
    revision = 0
    mirror: dict[str, bytes] = {}
    for _ in range(10):
        tree = await store.read_tree("/t")
        assert len({node.data for path, node in tree.items() if path != "/t"}) == 1
        changes = await store.read_changes(revision, "/t")
        assert changes.revision >= revision
        revision = changes.revision
        mirror.update({path: node.data for path, node in changes.nodes.items() if node is not None and path != "/t"})
        assert len(set(mirror.values())) == 1
    stopping.set()
    await writing
    assert int(mirror["/t/0"]) > 1


@in_zookeeper
async def test_a_reader_that_is_too_far_behind_reads_everything(world: ZooKeeperWorld) -> None:
    store, other = await world.open(), await world.open()
    await store.commit([Create("/t/stays"), *(Create(f"/t/{number}") for number in range(20))])
    start = await store.read_changes(0, "/t")
    for number in range(20):
        await other.commit([Delete(f"/t/{number}")])
        latest = await store.read_changes(start.revision, "/t")
    assert len(latest.nodes) == 20
    assert not latest.complete
    await other.commit([Put("/t/stays", b"x")])
    kept, zookeeper_mirror.REMOVALS_KEPT = zookeeper_mirror.REMOVALS_KEPT, 5
    try:
        behind = await store.read_changes(start.revision, "/t")
    finally:
        zookeeper_mirror.REMOVALS_KEPT = kept
    assert behind.complete
    assert set(behind.nodes) == {"/t", "/t/stays"}
    near = await store.read_changes(latest.revision, "/t")
    assert not near.complete
    assert set(near.nodes) == {"/t/stays"}


@in_zookeeper
async def test_a_prefix_that_does_not_exist_can_be_followed(world: ZooKeeperWorld) -> None:
    store, other = await world.open(), await world.open()
    start = await store.read_changes(0, "/later", "/x/y")
    assert start.nodes == {}
    await other.commit([Create("/later/deep"), Create("/latest"), Create("/x/y")])
    there = await store.read_changes(start.revision, "/later", "/x/y")
    assert set(there.nodes) == {"/later", "/later/deep", "/x/y"}
    await other.commit([Delete("/later/deep"), Delete("/later")])
    gone = await store.read_changes(there.revision, "/later", "/x/y")
    assert gone.nodes == {"/later": None, "/later/deep": None}
    # Another store knows that nothing was removed since then, but not what was removed earlier.
    nothing = await other.read_changes(gone.revision, "/later", "/x/y")
    assert (nothing.nodes, nothing.complete) == ({}, False)
    assert (await other.read_changes(there.revision, "/later", "/x/y")).complete


@in_zookeeper
async def test_credentials_protect_what_they_made(world: ZooKeeperWorld) -> None:
    owner = await world.open(credentials="ottla:secret", protect=True)
    await owner.commit([Create("/mine", b"x")])
    assert await owner.commit([Set("/mine", b"y", 0)]) == [1]
    guest = ZooKeeperStore(world.address, ManualClock(), world.background, credentials="ottla:wrong")
    with pytest.raises(StoreError, match="does not allow these credentials"):
        await guest.start()
    same = await world.open(credentials="ottla:secret", protect=True)
    assert await same.commit([Set("/mine", b"z", 1)]) == [2]


@in_zookeeper
async def test_the_store_is_closed_and_opened_again(world: ZooKeeperWorld) -> None:
    store = await world.open()
    await store.commit([Create("/a"), Create("/e", ephemeral=True)])
    await store.close()
    await store.start()
    assert await store.children("/") == ["a"]
    assert await store.commit([Create("/e", ephemeral=True)]) == [0]


def test_nobody_there() -> None:
    async def scenario() -> None:
        clock, background = ManualClock(), Threads(1)
        store = ZooKeeperStore("127.0.0.1:1/x", clock, background, patience=3.0)
        starting = asyncio.ensure_future(store.start())
        await eventually(lambda: clock.pending > 0)
        clock.advance(3.0)
        with pytest.raises(StoreError, match=r"127\.0\.0\.1:1/x has not been reached for 3 seconds"):
            await starting
        with pytest.raises(StoreError, match="not open"):
            await store.get("/")
        background.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("address", ["", ":2181", "a:b", "host:2181,"])
def test_a_bad_address(address: str) -> None:
    async def scenario() -> None:
        store = ZooKeeperStore(address, ManualClock(), Threads(1))
        with pytest.raises(StoreError, match="is not a ZooKeeper address"):
            await store.start()

    asyncio.run(scenario())


def test_without_kazoo_it_says_what_to_install() -> None:
    program = """
import asyncio, sys
sys.modules["kazoo"] = None
from ottla.env.background import Threads
from ottla.env.clock import SystemClock
from ottla.store.interface import StoreError
from ottla.store.zookeeper import ZooKeeperStore
try:
    asyncio.run(ZooKeeperStore("127.0.0.1:1", SystemClock(), Threads(1)).start())
except StoreError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == 'ZooKeeper needs the kazoo library; install it with: pip install "kazoo<2.12"\n'
