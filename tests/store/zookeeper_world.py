"""Stores in a real ZooKeeper, each with a clock of its own that only moves when a test says so."""

import asyncio
import contextlib
import struct
import time
import uuid
from collections.abc import Awaitable, Callable

from kazoo.protocol.serialization import Close, Connect

from ottla.env.background import Threads
from ottla.store.interface import Store
from ottla.store.zookeeper import ZooKeeperStore
from tests.manual_clock import ManualClock

SESSION_TIMEOUT = 6.0
DEADLINE = 60.0


async def eventually(condition: Callable[[], Awaitable[bool]] | Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE
    while True:
        result = condition()
        if result if isinstance(result, bool) else await result:
            return
        assert time.monotonic() < deadline, f"not within {DEADLINE} s"
        await asyncio.sleep(0.005)


async def steal_session(store: ZooKeeperStore, address: str) -> None:
    """End the session from another connection: whoever has its id and password has the session.

    The store takes it back as soon as it can, perhaps before the request to end it is read, so this is repeated until
    ZooKeeper does not know the session any more.
    """
    assert store._client is not None
    assert store._client.identity is not None
    session, password = store._client.identity
    take = Connect(0, 0, int(SESSION_TIMEOUT * 1000), session, password, False).serialize()
    end = struct.pack("!ii", 1, Close.type)
    host, _, port = address.partition("/")[0].rpartition(":")
    granted_timeout = 1
    while granted_timeout > 0:
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"".join(struct.pack("!i", len(message)) + message for message in (take, end)))
        with contextlib.suppress(ConnectionResetError):
            answer = await reader.read()
            if len(answer) >= 12:
                granted_timeout = struct.unpack_from("!i", answer, 8)[0]
        writer.close()


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
