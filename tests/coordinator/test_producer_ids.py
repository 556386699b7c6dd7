"""No two producers of a cluster ever get the same id."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ottla.cluster.znodes import PRODUCER_ID_BLOCK
from ottla.coordinator.producer_ids import ProducerIds
from ottla.errors import ErrorCode
from ottla.store.interface import Delete, Put, Store
from ottla.store.memory import MemoryStore, MemoryTree
from ottla.store.sqlite import SqliteStore
from tests.coordinator.world import STORES
from tests.manual_clock import ManualClock
from tests.metadata.world import TroubledStore
from tests.replication.world import ManualBackground, WatchedDisk, expect, on_loop, settle

on_both_stores = pytest.mark.parametrize("store", STORES)


class Stores:
    """Any number of brokers on one store."""

    def __init__(self, path: Path, kind: str) -> None:
        self._path = str(path / "store.sqlite")
        self._kind = kind
        self._tree = MemoryTree()
        self._clock = ManualClock()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Store]:
        store: Store = MemoryStore(self._tree, self._clock)
        if self._kind == "sqlite":
            store = SqliteStore(self._path, self._clock, ManualBackground(), WatchedDisk())
        await store.start()
        yield store
        await store.close()


@on_both_stores
@on_loop
async def test_ids_are_given_out_one_by_one_from_0(tmp_path: Path, store: str) -> None:
    async with Stores(tmp_path, store).open() as opened:
        ids = ProducerIds(1, opened)
        assert [await ids.next() for _ in range(2500)] == list(range(2500))


@on_both_stores
@on_loop
async def test_two_brokers_never_share_an_id(tmp_path: Path, store: str) -> None:
    stores = Stores(tmp_path, store)
    async with stores.open() as first, stores.open() as second:
        brokers = [ProducerIds(1, first), ProducerIds(2, second)]

        async def take(broker: ProducerIds) -> list[int]:
            return [await broker.next() for _ in range(1200)]

        taken = await asyncio.gather(*(take(broker) for broker in brokers for _ in range(2)))
        ids = [number for numbers in taken for number in numbers]
        assert len(set(ids)) == len(ids) == 4800


@on_both_stores
@on_loop
async def test_a_restarted_broker_goes_on_with_the_next_block(tmp_path: Path, store: str) -> None:
    stores = Stores(tmp_path, store)
    async with stores.open() as opened:
        ids = ProducerIds(1, opened)
        assert [await ids.next() for _ in range(3)] == [0, 1, 2]
    async with stores.open() as opened:
        assert await ProducerIds(1, opened).next() == 1000


@on_loop
async def test_many_requests_at_once_share_a_block() -> None:
    store = TroubledStore(MemoryTree(), ManualClock())
    await store.start()
    ids = ProducerIds(1, store)
    assert sorted(await asyncio.gather(*(ids.next() for _ in range(500)))) == list(range(500))


@on_loop
async def test_who_loses_the_race_for_a_block_takes_the_next() -> None:
    tree = MemoryTree()
    store, rival_store = TroubledStore(tree, ManualClock()), MemoryStore(tree, ManualClock())
    await store.start()
    await rival_store.start()
    rival: list[int] = []

    def take_first() -> None:
        coroutine = ProducerIds(2, rival_store).next()
        with pytest.raises(StopIteration) as result:
            coroutine.send(None)
        rival.append(result.value.value)

    store.before_commit = take_first
    assert await ProducerIds(1, store).next() == 1000
    assert rival == [0]


@pytest.mark.parametrize("operation", ["get", "commit"])
@on_loop
async def test_a_store_in_trouble_asks_the_client_to_try_again(operation: str) -> None:
    store = TroubledStore(MemoryTree(), ManualClock())
    await store.start()
    ids = ProducerIds(1, store)
    store.broken.add(operation)
    with expect(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
        await ids.next()
    store.broken.clear()
    assert await ids.next() == 0


@on_both_stores
@on_loop
async def test_who_cannot_wait_finds_ids_the_next_time(tmp_path: Path, store: str) -> None:
    async with Stores(tmp_path, store).open() as opened:
        ids = ProducerIds(1, opened)
        assert ids.take() is None
        assert ids.take() is None, "one block on its way is enough"
        await settle()
        assert [ids.take() for _ in range(1000)] == list(range(1000))
        assert ids.take() is None
        await settle()
        assert (ids.take(), await ids.next()) == (1000, 1001)


@on_loop
async def test_who_cannot_wait_is_not_hurt_by_a_store_that_fails(caplog: pytest.LogCaptureFixture) -> None:
    store = TroubledStore(MemoryTree(), ManualClock())
    await store.start()
    ids = ProducerIds(1, store)
    store.broken.add("get")
    assert ids.take() is None
    await settle()
    assert "cannot take a block of producer ids" in caplog.text
    store.broken.clear()
    assert ids.take() is None
    await settle()
    assert ids.take() == 0


@on_loop
async def test_a_damaged_block_in_the_store_is_told_to_the_client_and_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with Stores(tmp_path, "memory").open() as opened:
        await opened.commit([Put(PRODUCER_ID_BLOCK, b"not a block")])
        ids = ProducerIds(1, opened)
        with expect(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
            await ids.next()
        assert ids.take() is None
        await settle()
        assert f"{PRODUCER_ID_BLOCK} is unreadable" in caplog.text
        await opened.commit([Delete(PRODUCER_ID_BLOCK)])
        assert await ids.next() == 0
