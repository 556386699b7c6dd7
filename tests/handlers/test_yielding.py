"""Long lists leave room for others."""

import asyncio

from ottla.handlers.yielding import yielding
from tests.server.worlds import ManualClock, asynchronous


@asynchronous
async def test_others_get_their_turn() -> None:
    clock, trace = ManualClock(), list[str]()

    async def other() -> None:
        trace.append("other")

    task = asyncio.ensure_future(other())
    async for item in yielding(clock, range(3)):
        trace.append(str(item))
        clock.pass_by(0.015)
    await task
    assert trace == ["0", "1", "other", "2"]


@asynchronous
async def test_a_short_list_is_done_at_once() -> None:
    interrupted = asyncio.Event()
    asyncio.get_running_loop().call_soon(interrupted.set)
    assert [item async for item in yielding(ManualClock(), range(3))] == [0, 1, 2]
    assert not interrupted.is_set()
