"""Stores in a real ZooKeeper, each with a clock of its own that only moves when a test says so."""

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable

from kazoo.client import KazooClient

from ottla.env.background import Threads
from ottla.store.interface import Store
from ottla.store.zookeeper import ZooKeeperStore
from tests.manual_clock import ManualClock

SESSION_TIMEOUT = 6.0
DEADLINE = 30.0


async def eventually(condition: Callable[[], Awaitable[bool]] | Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE
    while True:
        result = condition()
        if result if isinstance(result, bool) else await result:
            return
        assert time.monotonic() < deadline, f"not within {DEADLINE} s"
        await asyncio.sleep(0.005)


async def steal_session(store: ZooKeeperStore, address: str) -> None:
    """End the session from another connection: whoever has its id and password has the session."""
    client = store._client
    assert client is not None
    assert client.identity is not None
    thief = KazooClient(address, timeout=SESSION_TIMEOUT, client_id=client.identity)
    await asyncio.to_thread(thief.start)
    await asyncio.to_thread(thief.stop)
    thief.close()


class ZooKeeperWorld:
    def __init__(self, address: str) -> None:
        self.address = f"{address}/{uuid.uuid4().hex}/tree"
        self.background = Threads(2)
        self.clocks: dict[Store, ManualClock] = {}

    async def open(
        self, address: str | None = None, *, session_timeout: float = SESSION_TIMEOUT, **options: object
    ) -> ZooKeeperStore:
        clock = ManualClock()
        store = ZooKeeperStore(
            address or self.address,
            clock,
            self.background,
            session_timeout=session_timeout,
            **options,  # type: ignore[arg-type]
        )
        self.clocks[store] = clock
        await store.start()
        return store

    async def settle(self) -> None:
        """An answer comes after the news of what happened before it."""
        for store, clock in self.clocks.items():
            await store.get("/")
            clock.advance(0)

    async def expire(self, store: Store) -> None:
        assert isinstance(store, ZooKeeperStore)
        await steal_session(store, self.address)
        await eventually(lambda: store.session_id is None)
        await self.settle()

    async def leave(self, store: Store) -> None:
        await store.close()
        del self.clocks[store]

    async def close(self) -> None:
        for store in self.clocks:
            await store.close()
        self.background.close()
