"""The stores under test, each with a clock of its own that only moves when a test says so."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol

import pytest

from ottla.env.background import Threads
from ottla.env.disk import OsDisk
from ottla.store.interface import Store
from ottla.store.memory import MemoryStore, MemoryTree
from ottla.store.sqlite import SqliteStore
from tests.manual_clock import ManualClock
from tests.store.zookeeper_world import ZooKeeperWorld

SESSION_TIMEOUT = 6.0
POLL_INTERVAL = 0.1


class World(Protocol):
    async def open(self) -> Store:
        """Another store on the shared tree, started."""

    async def settle(self) -> None:
        """Let every store notice what the others did, and every watch be called."""

    async def expire(self, store: Store) -> None:
        """Make the others believe that the owner of this store is dead, and let everybody notice."""

    async def leave(self, store: Store) -> None:
        """Close one store in an orderly way."""

    async def close(self) -> None: ...


class MemoryWorld:
    def __init__(self) -> None:
        self.tree = MemoryTree()
        self._clock = ManualClock()
        self._stores: list[MemoryStore] = []

    async def open(self) -> Store:
        store = MemoryStore(self.tree, self._clock)
        await store.start()
        self._stores.append(store)
        return store

    async def settle(self) -> None:
        self._clock.advance(0)

    async def expire(self, store: Store) -> None:
        assert store.session_id is not None
        self.tree.expire(store.session_id)
        await self.settle()

    async def leave(self, store: Store) -> None:
        await store.close()

    async def close(self) -> None:
        for store in self._stores:
            await store.close()


class SqliteWorld:
    def __init__(self, directory: Path) -> None:
        self.path = str(directory / "store.db")
        self.background = Threads(2)
        self.clocks: dict[Store, ManualClock] = {}

    async def open(self) -> SqliteStore:
        clock = ManualClock()
        store = SqliteStore(
            self.path,
            clock,
            self.background,
            OsDisk(),
            session_timeout=SESSION_TIMEOUT,
            poll_interval=POLL_INTERVAL,
            busy_timeout=0.2,
        )
        self.clocks[store] = clock
        await store.start()
        return store

    async def tick(self, store: Store, seconds: float = POLL_INTERVAL) -> None:
        """Let the store's own timers run, and the work they start come to its end."""
        clock = self.clocks[store]
        clock.advance(seconds)
        # Work is done in order, so the answer to this question comes after it.
        await store.get("/")
        clock.advance(0)

    async def settle(self) -> None:
        for store in self.clocks:
            await self.tick(store)

    async def expire(self, store: Store) -> None:
        """Everybody's time passes but the owner's."""
        observer = await self.open()
        for _ in range(5):
            for living in self.clocks:
                if living is not store:
                    await self.tick(living, SESSION_TIMEOUT / 2)
        await self.leave(observer)
        await self.settle()

    async def leave(self, store: Store) -> None:
        await store.close()
        del self.clocks[store]

    async def close(self) -> None:
        for store in self.clocks:
            await store.close()
        self.background.close()


KINDS = ("memory", "sqlite", "zookeeper")


def new_world(kind: str, directory: Path, request: pytest.FixtureRequest) -> World:
    if kind == "memory":
        return MemoryWorld()
    if kind == "sqlite":
        return SqliteWorld(directory)
    return ZooKeeperWorld(request.getfixturevalue("zookeeper_address"))


def on_every_store(scenario: Callable[[World], Awaitable[None]]) -> Callable[[str, Path, pytest.FixtureRequest], None]:
    """Turn a scenario into a test that runs it on each kind of store."""

    @pytest.mark.parametrize("kind", KINDS)
    def test(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
        asyncio.run(play(scenario, new_world(kind, tmp_path, request)))

    test.__name__ = scenario.__name__
    test.__doc__ = scenario.__doc__
    return test


async def play(scenario: Callable[[World], Awaitable[None]], world: World) -> None:
    try:
        await scenario(world)
    finally:
        await world.close()
