"""Virtual time: in order, and only for processes that live."""

import asyncio
import contextlib
import gc
import sys
import warnings
from typing import Any

import pytest

from sim.loop import ProcessClock, ProcessLoop, Scheduler


def process(scheduler: Scheduler, name: str = "a") -> ProcessLoop:
    return ProcessLoop(scheduler, name)  # type: ignore[abstract]


def test_time_passes_only_as_far_as_the_next_timer() -> None:
    scheduler = Scheduler()
    loop = process(scheduler)
    heard: list[tuple[str, float]] = []

    async def wait(name: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        heard.append((name, loop.time()))

    loop.create_task(wait("late", 3600.0))
    loop.create_task(wait("early", 1.0))
    assert scheduler.run_until(lambda: len(heard) == 2, 10_000.0)
    assert [name for name, _ in heard] == ["early", "late"]
    assert [when for _, when in heard] == pytest.approx([1.0, 3600.0])


def test_a_dead_process_does_nothing_any_more() -> None:
    scheduler = Scheduler()
    loop = process(scheduler)
    heard: list[str] = []
    loop.call_later(1.0, heard.append, "too late")
    loop.call_soon(heard.append, "in time")
    scheduler.run_until(lambda: bool(heard), 0.5)
    loop.kill()
    scheduler.run_until(lambda: False, 5.0)
    assert heard == ["in time"]


def test_a_process_that_stood_still_does_in_order_what_it_missed() -> None:
    scheduler = Scheduler()
    loop = process(scheduler)
    heard: list[int] = []
    loop.hold()
    for number in range(3):
        loop.call_later(1.0 + number, heard.append, number)
    scheduler.run_until(lambda: False, 10.0)
    assert heard == []
    loop.release()
    scheduler.run_until(lambda: False, 11.0)
    assert heard == [0, 1, 2]


def test_clocks_differ() -> None:
    scheduler = Scheduler()
    fast, right = process(scheduler), process(scheduler, "b")
    fast.rate = 2.0
    clock = ProcessClock(fast)
    clock.skew_ms = 500
    fired: list[float] = []
    clock.call_later(2.0, lambda: fired.append(scheduler.now))
    scheduler.run_until(lambda: bool(fired), 5.0)
    assert fired == [pytest.approx(1.0)]
    assert clock.time_ms() - ProcessClock(right).time_ms() == 1500


def test_the_collector_finds_nothing_to_finish_after_a_burial(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if a process awaits in its cleanup, and fails there because its disk is gone."""
    gc.collect()
    unraisable: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", unraisable.append)
    scheduler = Scheduler()
    loop = process(scheduler)
    cleaned: list[str] = []

    def fail() -> None:
        cleaned.append("disk")
        raise OSError("the disk is gone")

    async def wait() -> None:
        cleaned.append("network")
        await loop.create_future()

    async def serve() -> None:
        async with contextlib.AsyncExitStack() as stack:
            stack.callback(fail)
            stack.push_async_callback(wait)
            stack.push_async_callback(wait)
            await asyncio.sleep(3600.0)

    loop.create_task(serve())
    scheduler.run_until(lambda: False, 1.0)
    loop.bury()
    assert cleaned == ["network", "network", "disk"]
    gc.collect()
    assert [it.exc_value for it in unraisable] == []


def test_tasks_that_cleanup_creates_end_with_the_burial() -> None:
    """As when a broker is killed while it stops: it syncs its logs in several tasks."""
    scheduler = Scheduler()
    loop = process(scheduler)
    ran: list[int] = []
    owners: list[asyncio.AbstractEventLoop] = []

    async def sync(number: int) -> None:
        ran.append(number)

    async def serve() -> None:
        try:
            await asyncio.sleep(3600.0)
        finally:
            syncs = asyncio.gather(*(sync(number) for number in range(3)))
            owners.append(syncs.get_loop())
            await syncs

    loop.create_task(serve())
    scheduler.run_until(lambda: False, 1.0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        loop.bury()
        gc.collect()
    assert [str(warning.message) for warning in caught] == []
    assert owners == [loop]
    assert ran == []
