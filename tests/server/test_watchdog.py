"""The watchdog on a real event loop, with callbacks that hold it."""

import asyncio
import logging
import os
import re
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import ottla
from ottla.server.event_loop import new_event_loop
from ottla.server.watchdog import HELD, Watchdog

PACKAGE = os.path.dirname(os.path.abspath(ottla.__file__))
TIMEOUT = 60.0


def place(file: str, source: str) -> dict[str, Any]:
    """Functions whose code seems to be in a file of the package."""
    scope: dict[str, Any] = {"time": time}
    exec(compile(source, os.path.join(PACKAGE, file), "exec"), scope)
    return scope


BURN = """
def describe(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass
"""
SERVE = "def received(describe, seconds):\n    describe(seconds)\n"

burn: Callable[[float], None] = place("handlers/metadata.py", BURN)["describe"]
received: Callable[[Callable[[float], None], float], None] = place("server/connection.py", SERVE)["received"]


def held_lines(log: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in log.records if record.name == "ottla.watchdog"]


async def line_of(log: pytest.LogCaptureFixture, text: str) -> str:
    deadline = time.monotonic() + TIMEOUT
    while time.monotonic() < deadline:
        for line in held_lines(log):
            if text in line:
                return line
        await asyncio.sleep(0.01)
    raise AssertionError(f"nothing was logged about {text!r}")


def watch(scenario: Callable[[Watchdog], Awaitable[None]]) -> None:
    async def run() -> None:
        watchdog = Watchdog()
        watchdog.start()
        try:
            await scenario(watchdog)
        finally:
            watchdog.stop()

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(run())


def test_a_request_that_uses_the_processor_is_named(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(watchdog: Watchdog) -> None:
        watchdog.serving = "Metadata"
        received(burn, 0.4)
        line = await line_of(caplog, "by Metadata")
        match = re.fullmatch(rf"{HELD} (\d+) ms by Metadata \((.*)\)", line)
        assert match is not None, line
        assert 350 <= int(match[1]) < 4000
        assert re.fullmatch(r"handlers/metadata.py:\d+ describe, server/connection.py:2 received", match[2])

    watch(scenario)
    assert len(held_lines(caplog)) == 1


def test_a_task_is_not_taken_for_the_request_before_it(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(watchdog: Watchdog) -> None:
        watchdog.serving = "Fetch"
        await asyncio.sleep(0)
        burn(0.4)
        assert "(handlers/metadata.py:" in await line_of(caplog, "by a task")

    watch(scenario)
    assert len(held_lines(caplog)) == 1


def test_many_requests_between_two_beats_are_not_one_long_request(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(watchdog: Watchdog) -> None:
        for number in range(100):
            watchdog.serving = f"Heartbeat {number}"
            received(burn, 0.01)
        watchdog.serving = "Metadata"
        received(burn, 0.4)
        await line_of(caplog, "by Metadata")

    watch(scenario)
    assert len(held_lines(caplog)) == 1


def test_a_short_sleep_is_not_blamed(caplog: pytest.LogCaptureFixture) -> None:
    """From inside the process, a machine without a free CPU looks the same."""

    async def scenario(watchdog: Watchdog) -> None:
        watchdog.serving = "Fetch"
        received(time.sleep, 0.5)
        await asyncio.sleep(0)
        watchdog.serving = "Metadata"
        received(burn, 0.4)
        await line_of(caplog, "by Metadata")

    watch(scenario)
    assert len(held_lines(caplog)) == 1


def test_a_long_sleep_is_named(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(watchdog: Watchdog) -> None:
        watchdog.serving = "CreateTopics"
        received(time.sleep, 3.0)
        assert "server/connection.py" in await line_of(caplog, "by CreateTopics")

    watch(scenario)
    assert len(held_lines(caplog)) == 1


def test_an_idle_loop_is_not_blamed_and_stopping_leaves_no_thread(caplog: pytest.LogCaptureFixture) -> None:
    before = threading.active_count()

    async def scenario(watchdog: Watchdog) -> None:
        assert threading.active_count() == before + 1
        await asyncio.sleep(0.3)

    watch(scenario)
    assert threading.active_count() == before
    assert held_lines(caplog) == []


def watchdog_threads() -> set[threading.Thread]:
    """The watchdogs of all brokers in this process: other tests may have a broker that lives as long as the process."""
    return {thread for thread in threading.enumerate() if thread.name == "ottla-watchdog"}


def test_a_loop_that_is_closed_ends_its_watchdog(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> Watchdog:
        watchdog = Watchdog()
        watchdog.start()
        return watchdog

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        before = watchdog_threads()
        watchdog = runner.run(run())
    (thread,) = watchdog_threads() - before
    thread.join(TIMEOUT)
    assert not thread.is_alive()
    watchdog.stop()
    assert held_lines(caplog) == []


def test_one_that_was_never_started_can_be_stopped() -> None:
    Watchdog().stop()


def test_a_broken_watchdog_leaves_the_broker_alone(caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        def __str__(self) -> str:
            raise ValueError("no name")

    async def scenario(watchdog: Watchdog) -> None:
        watchdog.serving = Broken()
        received(burn, 0.4)
        await line_of(caplog, "has failed")

    watch(scenario)
    assert [record.levelno for record in caplog.records if record.name == "ottla.watchdog"] == [logging.ERROR]


def test_an_embedded_broker_is_watched() -> None:
    before = watchdog_threads()
    with ottla.embedded():
        assert len(watchdog_threads() - before) == 1
    assert watchdog_threads() <= before
