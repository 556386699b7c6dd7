"""What is special about a store in a file: other processes, crashes, damage, and its cost to the event loop."""

import asyncio
import contextlib
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, TypeVar

import pytest

from ottla.env.background import Threads
from ottla.env.disk import OsDisk
from ottla.store import sqlite_tree
from ottla.store.interface import Create, Delete, Put, SessionLostError, StoreConflictError, StoreError
from ottla.store.sqlite import SqliteStore
from ottla.store.sqlite_file import SqliteFile
from tests.manual_clock import ManualClock
from tests.store.worlds import POLL_INTERVAL, SESSION_TIMEOUT, SqliteWorld, play

T = TypeVar("T")
ROOT = Path(__file__).parents[2]


def in_world(tmp_path: Path, scenario: Callable[[SqliteWorld], Awaitable[None]]) -> None:
    world = SqliteWorld(tmp_path)
    asyncio.run(play(lambda _: scenario(world), world))


@contextlib.contextmanager
def process(path: str, what: str) -> Iterator[tuple[subprocess.Popen[str], IO[str]]]:
    command = [sys.executable, "-m", "tests.store.broker_process", path, what]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        try:
            yield running, running.stdout
        finally:
            running.kill()


def test_a_killed_process_is_found_by_its_lock(tmp_path: Path) -> None:
    async def scenario(world: SqliteWorld) -> None:
        store = await world.open()
        with process(world.path, "hold") as (running, output):
            assert output.readline() == "held\n"
            await world.tick(store, SESSION_TIMEOUT / 2)
            assert await store.get("/held") is not None
            running.kill()
            running.wait()
        assert await store.get("/held") is not None
        await world.tick(store, SESSION_TIMEOUT / 2)
        assert await store.get("/held") is None

    in_world(tmp_path, scenario)


def test_a_restarted_broker_does_not_wait_for_its_ghost(tmp_path: Path) -> None:
    async def scenario(world: SqliteWorld) -> None:
        with process(world.path, "hold") as (running, output):
            assert output.readline() == "held\n"
            running.kill()
            running.wait()
        store = await world.open()
        assert await store.commit([Create("/held", ephemeral=True)]) == [0]

    in_world(tmp_path, scenario)


def test_a_stopped_process_loses_its_session_and_hears_of_it(tmp_path: Path) -> None:
    async def scenario(world: SqliteWorld) -> None:
        store = await world.open()
        with process(world.path, "hold") as (running, output):
            assert output.readline() == "held\n"
            running.send_signal(signal.SIGSTOP)
            await world.tick(store, SESSION_TIMEOUT / 2)
            await world.tick(store, 59.0)
            assert await store.get("/held") is not None
            await world.tick(store, 2.0)
            assert await store.get("/held") is None
            running.send_signal(signal.SIGCONT)
            assert output.readline() == "lost\n"
            assert running.wait(60) == 0

    in_world(tmp_path, scenario)


def test_a_crash_leaves_whole_commits_and_all_that_were_acknowledged(tmp_path: Path) -> None:
    async def scenario(world: SqliteWorld) -> None:
        acknowledged = 0
        with process(world.path, "count") as (running, output):
            while acknowledged < 30:
                acknowledged = int(output.readline())
            running.kill()
            acknowledged = max([acknowledged, *(int(line) for line in output if line.endswith("\n"))])
        store = await world.open()
        tree = await store.read_tree("/")
        numbers = {int(tree[path].data) for path in ("/one", "/two/deep", "/three")}
        assert len(numbers) == 1
        assert numbers.pop() in (acknowledged, acknowledged + 1)

    in_world(tmp_path, scenario)


def test_a_log_cut_anywhere_holds_whole_commits(tmp_path: Path) -> None:
    """Power loss: the write-ahead log ends at any byte."""
    original = tmp_path / "original"
    original.mkdir()

    async def write(world: SqliteWorld) -> None:
        store = await world.open()
        for number in range(8):
            data = b"%d" % number * 500
            await store.commit([Put("/one", data), Put("/two/deep", data), Put("/three", data)])
        for file in ("store.db", "store.db-wal"):
            shutil.copy(original / file, tmp_path / file)

    in_world(original, write)
    log = (tmp_path / "store.db-wal").read_bytes()
    assert len(log) > 8 * 3 * 500
    seen: set[bytes] = set()

    async def check(world: SqliteWorld) -> None:
        store = await world.open()
        tree = await store.read_tree("/")
        values = {tree[path].data if path in tree else b"" for path in ("/one", "/two/deep", "/three")}
        assert len(values) == 1
        seen.update(values)

    for index, end in enumerate([*range(0, len(log), 3571), len(log)]):
        copy = tmp_path / str(index)
        copy.mkdir()
        shutil.copy(tmp_path / "store.db", copy / "store.db")
        (copy / "store.db-wal").write_bytes(log[:end])
        in_world(copy, check)
    assert len(seen) > 4


def test_a_silent_store_file_loses_the_session_after_its_timeout(tmp_path: Path) -> None:
    class Unplugged(Threads):
        broken = False

        def run(self, function: Callable[[], T]) -> asyncio.Future[T]:
            if not self.broken:
                return super().run(function)
            failed: asyncio.Future[T] = asyncio.get_running_loop().create_future()
            failed.set_exception(StoreError("The disk is gone."))
            return failed

    async def scenario() -> None:
        background, clock, lost = Unplugged(1), ManualClock(), list[bool]()
        store = SqliteStore(str(tmp_path / "s"), clock, background, OsDisk(), session_timeout=6.0, poll_interval=1.0)
        store.on_session_lost(lambda: lost.append(True))
        await store.start()
        background.broken = True
        for second in range(1, 9):
            clock.advance(1.0)
            with pytest.raises(StoreError):
                await store.get("/")
            assert bool(lost) == (second > 6)
        background.broken = False
        assert store.session_id is None
        await store.start()
        assert await store.commit([Put("/back", b"")]) == [0]
        await store.close()
        background.close()

    asyncio.run(scenario())


def test_an_abandoned_session_is_found_by_its_lock(tmp_path: Path) -> None:
    """A broker in a test that ends like a killed process leaves its session behind, but not the lock of it."""

    async def scenario() -> None:
        path, clock, workers = str(tmp_path / "s"), ManualClock(), [Threads(1), Threads(1), Threads(1)]
        killed, other, next_run = (SqliteStore(path, clock, each, OsDisk()) for each in workers)
        await killed.start()
        await other.start()
        await killed.commit([Create("/held", b"", ephemeral=True)])
        workers[0].close()
        killed.abandon()
        killed.abandon()
        assert await other.get("/held") is not None
        await next_run.start()
        assert await other.get("/held") is None
        for store, each in ((other, workers[1]), (next_run, workers[2])):
            await store.close()
            each.close()

    asyncio.run(scenario())


def test_a_paused_leader_cannot_commit_before_it_hears_of_its_loss(tmp_path: Path) -> None:
    async def scenario(world: SqliteWorld) -> None:
        store, other = await world.open(), await world.open()
        for _ in range(4):
            await world.tick(other, SESSION_TIMEOUT / 2)
        assert store.session_id is not None
        with pytest.raises(SessionLostError):
            await store.commit([Put("/late", b"")])
        assert await other.get("/late") is None

    in_world(tmp_path, scenario)


def test_heartbeats_keep_a_session_alive(tmp_path: Path) -> None:
    async def scenario(world: SqliteWorld) -> None:
        stores = [await world.open(), await world.open()]
        sessions = [store.session_id for store in stores]
        for _ in range(40):
            for store in stores:
                await world.tick(store, SESSION_TIMEOUT / 4)
        assert [store.session_id for store in stores] == sessions

    in_world(tmp_path, scenario)


def test_waiting_commits_share_one_transaction(tmp_path: Path) -> None:
    """And a conflict among them is only its own."""

    class Counted(Threads):
        runs = 0

        def run(self, function: Callable[[], T]) -> asyncio.Future[T]:
            self.runs += 1
            return super().run(function)

    async def scenario() -> None:
        background = Counted(1)
        store = SqliteStore(str(tmp_path / "s"), ManualClock(), background, OsDisk())
        await store.start()
        before = background.runs
        ops = [Put(f"/n/{number}", b"") if number != 50 else Delete("/missing") for number in range(100)]
        outcomes = await asyncio.gather(*(store.commit([op]) for op in ops), return_exceptions=True)
        assert background.runs - before == 2
        assert [number for number, outcome in enumerate(outcomes) if outcome != [0]] == [50]
        assert isinstance(outcomes[50], StoreConflictError)
        assert len(await store.children("/n")) == 99
        await store.close()
        background.close()

    asyncio.run(scenario())


def test_a_cancelled_caller_does_not_stop_the_others(tmp_path: Path) -> None:
    async def scenario(world: SqliteWorld) -> None:
        store = await world.open()
        tasks = [asyncio.ensure_future(store.commit([Put(f"/{number}", b"")])) for number in range(5)]
        await asyncio.sleep(0)
        tasks[0].cancel()
        tasks[3].cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert [outcome == [0] for outcome in outcomes] == [False, True, True, False, True]
        assert await store.commit([Put("/later", b"")]) == [0]

    in_world(tmp_path, scenario)


def test_the_loop_runs_while_the_file_is_busy(tmp_path: Path) -> None:
    release = threading.Event()

    class Slow(Threads):
        def run(self, function: Callable[[], T]) -> asyncio.Future[T]:
            def waiting() -> T:
                assert release.wait(60)
                return function()

            return super().run(waiting)

    async def scenario() -> None:
        background = Slow(1)
        store = SqliteStore(str(tmp_path / "s"), ManualClock(), background, OsDisk())
        starting = asyncio.ensure_future(store.start())
        for _ in range(10):
            await asyncio.sleep(0)
        assert not starting.done()
        release.set()
        await starting
        await store.close()
        background.close()

    asyncio.run(scenario())


def test_far_behind_readers_get_the_whole_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_tree, "TOMBSTONES_KEPT", 3)

    async def scenario(world: SqliteWorld) -> None:
        store, other = await world.open(), await world.open()
        calls: list[bool] = []
        await store.commit([Create(f"/n/{number}") for number in range(8)])
        await world.settle()
        other.watch(lambda: calls.append(True), "/untouched")
        start = (await store.read_changes(0, "/n")).revision
        revisions = []
        for number in range(6):
            await store.commit([Delete(f"/n/{number}")])
            revisions.append((await store.read_changes(start, "/n")).revision)
        await world.tick(store, SESSION_TIMEOUT / 2)
        behind = await store.read_changes(start, "/n")
        assert behind.complete
        assert set(behind.nodes) == {"/n", "/n/6", "/n/7"}
        near = await store.read_changes(revisions[-3], "/n")
        assert (near.complete, near.nodes) == (False, {"/n/4": None, "/n/5": None})
        await world.tick(other)
        assert calls, "a watcher that cannot know what changed must be told"

    in_world(tmp_path, scenario)


def test_no_lock_files_are_left(tmp_path: Path) -> None:
    async def scenario(world: SqliteWorld) -> None:
        await world.open()
        await world.open()
        assert len([name for name in os.listdir(tmp_path) if "-session-" in name]) == 2

    in_world(tmp_path, scenario)
    assert [file.name for file in tmp_path.iterdir()] == ["store.db"]


def test_many_may_open_a_new_file_at_once(tmp_path: Path) -> None:
    def open_file(path: str) -> int:
        file = SqliteFile(path, busy_timeout=10.0)
        with file.reading():
            version: int = file.execute("PRAGMA user_version").fetchone()[0]
        file.close()
        return version

    with ThreadPoolExecutor(4) as pool:
        for round_number in range(3):
            path = str(tmp_path / str(round_number))
            assert list(pool.map(open_file, [path] * 4)) == [1] * 4


def test_commits_reach_the_medium_of_the_drive(tmp_path: Path) -> None:
    """SQLite would leave them in the cache of the drive on macOS."""
    file = SqliteFile(str(tmp_path / "file"), busy_timeout=10.0)
    with file.writing(durable=True):
        settings = [
            file.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous", "fullfsync")
        ]
    file.close()
    assert settings == ["wal", 2, 1]


def failure_to_start(path: Path) -> str:
    async def scenario() -> str:
        background = Threads(1)
        store = SqliteStore(str(path), ManualClock(), background, OsDisk(), busy_timeout=0.05)
        try:
            await store.start()
        except StoreError as error:
            return str(error)
        finally:
            await store.close()
            background.close()
        raise AssertionError("the store started")

    return asyncio.run(scenario())


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.write_bytes(b"this is not a database" * 100)
    assert failure_to_start(path) == f"The store {path} is damaged: it is not a database (file is not a database)."


def test_a_damaged_database(tmp_path: Path) -> None:
    in_world(tmp_path, _fill)
    path = tmp_path / "store.db"
    content = bytearray(path.read_bytes())
    content[1024:] = b"\xa5" * (len(content) - 1024)
    path.write_bytes(content)
    assert "is damaged" in failure_to_start(path)


async def _fill(world: SqliteWorld) -> None:
    store = await world.open()
    await store.commit([Create(f"/n/{number}", b"x" * 100) for number in range(200)])


def test_a_database_of_somebody_else(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE theirs (x)")
        connection.commit()
    assert failure_to_start(path) == f"The file {path} is a database, but not an Ottla store."


def test_a_newer_format(tmp_path: Path) -> None:
    in_world(tmp_path, _fill)
    path = tmp_path / "store.db"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 2")
    assert failure_to_start(path) == f"The store {path} has format 2; this Ottla reads format 1."


def test_a_locked_file(tmp_path: Path) -> None:
    in_world(tmp_path, _fill)
    path = tmp_path / "store.db"
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        assert failure_to_start(path) == f"The store {path} is locked by another process (database is locked)."


def test_a_commit_on_a_locked_file_fails_alone(tmp_path: Path) -> None:
    async def scenario(world: SqliteWorld) -> None:
        store = await world.open()
        with contextlib.closing(sqlite3.connect(world.path, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreError, match="is locked by another process"):
                await store.commit([Put("/a", b"")])
            assert await store.get("/a") is None
        assert await store.commit([Put("/a", b"")]) == [0]

    in_world(tmp_path, scenario)


def test_a_missing_directory(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "store.db"
    assert "cannot be opened" in failure_to_start(path)


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is read-only for the superuser")
def test_a_read_only_file(tmp_path: Path) -> None:
    in_world(tmp_path, _fill)
    path = tmp_path / "store.db"
    path.chmod(0o444)
    tmp_path.chmod(0o555)
    try:
        assert "cannot be written" in failure_to_start(path)
    finally:
        tmp_path.chmod(0o755)


def test_polling_is_what_notices(tmp_path: Path) -> None:
    async def scenario(world: SqliteWorld) -> None:
        store, other = await world.open(), await world.open()
        calls: list[bool] = []
        store.watch(lambda: calls.append(True), "/a")
        await world.settle()
        await other.commit([Put("/a", b"")])
        await world.tick(store, POLL_INTERVAL / 2)
        assert calls == []
        await world.tick(store, POLL_INTERVAL / 2)
        assert calls == [True]

    in_world(tmp_path, scenario)
