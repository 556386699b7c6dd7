"""Work in threads: results and errors arrive on the event loop."""

import asyncio
import threading

import pytest

from ottla.env.background import Pauses, Threads
from tests.server.worlds import asynchronous


@asynchronous
async def test_results_come_back() -> None:
    threads = Threads(2)
    here = threading.get_ident()
    assert await threads.run(threading.get_ident) != here
    assert await asyncio.gather(*(threads.run(lambda n=n: n * n) for n in range(20))) == [n * n for n in range(20)]  # type: ignore[misc]
    threads.close()


@asynchronous
async def test_errors_come_back() -> None:
    threads = Threads(1)

    def fail() -> None:
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        await threads.run(fail)
    assert await threads.run(lambda: "still working") == "still working"
    threads.close()


@asynchronous
async def test_closing_waits_for_what_has_begun() -> None:
    threads, begun, done = Threads(1), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        done.wait(60)

    future = threads.run(work)
    assert begun.wait(60)
    threading.Timer(0.05, done.set).start()
    threads.close()
    assert done.is_set()
    await future


@asynchronous
async def test_closing_can_drop_what_has_not_begun() -> None:
    threads, begun, done = Threads(1, drop_queued=True), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        done.wait(60)

    first, second = threads.run(work), threads.run(work)
    assert begun.wait(60)
    threading.Timer(0.05, done.set).start()
    threads.close()
    await asyncio.wait([first, second])
    assert not first.cancelled()
    assert second.cancelled()


def test_a_thread_that_computes_sleeps_as_long_as_it_worked() -> None:
    now, slept = [0.0], list[float]()
    pauses = Pauses(lambda: now[0], slept.append)
    for _ in range(100):
        now[0] += 0.0006
        pauses()
    assert slept == pytest.approx([0.0012] * 50)
