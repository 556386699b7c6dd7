"""Logs which request held the event loop too long, and where in the code.

A thread checks the loop every 25 ms. If the loop's thread has used CPU time since the last check, the watchdog sends a
probe: a callback that the loop runs as soon as it is free. The loop is held while it neither runs the probe nor begins
a new request. The watchdog measures CPU time of the loop's thread, not wall time, so an overloaded machine does not
look like a long request. A system other than Linux tells only the CPU time of the whole process, which other threads
may have used.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
import time

from ottla.env.platform import thread_usage

logger = logging.getLogger("ottla.watchdog")

HELD = "the event loop was held for"
"""The start of every line that the watchdog logs about a hold. Tests search broker logs for it."""

MAX_CPU_SECONDS = 0.1
MAX_BLOCKED_SECONDS = 1.0
"""How long the loop's thread may sleep, in a system call or for a lock, before it runs the probe."""
MAX_SILENT_SECONDS = 10.0
"""A longer hold is logged before it ends, because it may never end."""

_INTERVAL = 0.025
_IDLE_CPU_SECONDS = 0.001
"""A loop that used less CPU time since its last probe is idle, so the watchdog does not wake it up."""
_MAX_CHECKS_WITHOUT_PROBE = 20
"""A loop that is blocked in a system call uses no CPU time either, so the watchdog probes it from time to time."""
_SHOWN_FRAMES = 4
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_CONNECTION = os.path.join("server", "connection.py")
_RUNNER = os.path.join("asyncio", "runners.py")


class Watchdog:
    """One per broker. The loop's thread calls `start` and `stop`. Without `start`, the watchdog does nothing."""

    def __init__(self) -> None:
        self.serving: object = None
        """The request that the loop serves now or served last. A connection stores a new object for each request: a new
        object means progress. The log shows the object's text: the name of an API, or the result of `__str__`."""
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()

    def start(self) -> None:
        watch = _Watch(self, asyncio.get_running_loop(), threading.get_ident(), threading.get_native_id())
        self._thread = threading.Thread(target=self._run, args=(watch,), name="ottla-watchdog", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _run(self, watch: _Watch) -> None:
        try:
            while not (self._stopping.wait(_INTERVAL) or watch.is_over):
                watch.check()
        except Exception:
            logger.exception("the watchdog of the event loop has failed; the broker continues without it")


class _Watch:
    """The state of the watchdog's thread. Only that thread changes it, except for `_probe_ran_at`."""

    def __init__(self, watchdog: Watchdog, loop: asyncio.AbstractEventLoop, thread: int, native_thread: int) -> None:
        self._watchdog = watchdog
        self._loop = loop
        self._thread = thread
        self._usage = thread_usage(thread, native_thread)
        self._probing = False
        self._probe_ran_at: float | None = 0.0
        """CPU time of the loop's thread when it ran the last probe; None while a probe is pending."""
        self._checks_without_probe = 0
        self._begin(None)

    @property
    def is_over(self) -> bool:
        """Whether the loop has ended without `stop`, for example after an error."""
        return self._loop.is_closed()

    def _begin(self, serving: object) -> None:
        """Start to measure a possible hold: the loop has just been free, or has begun another request."""
        self._serving = serving
        self._began_wall, self._began_cpu = time.monotonic(), self._usage.cpu_time()
        self._cpu = 0.0
        """CPU time that the loop's thread has used since then."""
        self._blocked_checks = 0
        self._stack: list[str] | None = None
        self._reported = False

    def _probe(self) -> None:
        """Runs on the event loop."""
        self._probe_ran_at = self._usage.own_cpu_time()

    def check(self) -> None:
        serving, probe_ran_at = self._watchdog.serving, self._probe_ran_at
        if not self._probing:
            self._probe_unless_idle(probe_ran_at or 0.0, serving)
        elif probe_ran_at is not None:
            if serving is self._serving:
                self._cpu = probe_ran_at - self._began_cpu
            self._report_if_long()
            self._probing = False
            self._probe_unless_idle(probe_ran_at, serving)
        elif serving is not self._serving:
            self._report_if_long()
            self._begin(serving)
        else:
            self._measure()

    def _probe_unless_idle(self, probe_ran_at: float, serving: object) -> None:
        self._checks_without_probe += 1
        is_busy = self._usage.cpu_time() - probe_ran_at > _IDLE_CPU_SECONDS
        if is_busy or self._checks_without_probe > _MAX_CHECKS_WITHOUT_PROBE:
            self._checks_without_probe = 0
            self._begin(serving)
            self._probing, self._probe_ran_at = True, None
            self._loop.call_soon_threadsafe(self._probe)

    def _measure(self) -> None:
        self._cpu = self._usage.cpu_time() - self._began_cpu
        self._blocked_checks += self._usage.sleeps()
        if self._cpu > MAX_CPU_SECONDS / 4 or self._blocked_checks > 1:
            # The stack is empty if the hold has just ended. Then the stack of the last check stays.
            self._stack = _stack_of(self._thread) or self._stack or []
        if time.monotonic() - self._began_wall > MAX_SILENT_SECONDS:
            self._report_if_long()

    def _report_if_long(self) -> None:
        if self._stack is None or self._reported:
            return
        if self._cpu > MAX_CPU_SECONDS:
            seconds = self._cpu
        elif self._blocked_checks * _INTERVAL >= MAX_BLOCKED_SECONDS:
            seconds = time.monotonic() - self._began_wall
        else:
            return
        self._reported = True
        where = ", ".join(self._stack[:_SHOWN_FRAMES]) or "no Python code"
        logger.warning("%s %d ms by %s (%s)", HELD, seconds * 1000, _name(self._serving, self._stack), where)


def _stack_of(thread: int) -> list[str]:
    """The frames of the broker's own code in the loop's thread, innermost first.

    A C function that holds Python's global lock delays this thread. The result is then the line after that call.
    """
    frame = sys._current_frames().get(thread)
    places: list[str] = []
    while frame is not None:
        code = frame.f_code
        if code.co_filename.endswith(_RUNNER):
            break  # The outer frames only start the loop.
        if code.co_filename.startswith(_PACKAGE):
            places.append(f"{code.co_filename[len(_PACKAGE) :]}:{frame.f_lineno} {code.co_name}")
        frame = frame.f_back
    return places


def _name(serving: object, stack: list[str]) -> str:
    """The request that holds the loop, or "a task" if no connection is on the stack: then a background task holds the
    loop, not the last request."""
    is_request = not stack or any(place.startswith(_CONNECTION) for place in stack)
    return str(serving) if serving is not None and is_request else "a task"
