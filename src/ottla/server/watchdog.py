"""Names in the log what held the event loop too long: the request, and where in the code it was.

A thread looks every 25 ms. When the loop's thread has worked since the last look, the watchdog asks the loop for a sign
of life, a callback that it runs as soon as it is free. The loop is held while it neither gives that sign nor begins a
new request. Processor time of the loop's thread counts, not the clock on the wall, so that a machine which gives the
broker no processor is not taken for a long request.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
import time

logger = logging.getLogger("ottla.watchdog")

HELD = "the event loop was held for"
"""The start of every line that the watchdog logs about a hold. Tests search broker logs for it."""

MAX_CPU_SECONDS = 0.1
MAX_BLOCKED_SECONDS = 1.0
"""How long the loop's thread may sleep, in a system call or for a lock, before it gives the sign it was asked for."""
MAX_SILENT_SECONDS = 10.0
"""A hold that lasts longer is reported before it ends: it may never end."""

_INTERVAL = 0.025
_IDLE_CPU_SECONDS = 0.001
"""A loop that used less processor time since its last sign of life is idle: it need not be woken up."""
_MAX_UNASKED_LOOKS = 20
"""A loop that is blocked in a system call uses as little, so the watchdog asks now and then in any case."""
_SHOWN_FRAMES = 4
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_CONNECTION = os.path.join("server", "connection.py")
_RUNNER = os.path.join("asyncio", "runners.py")


class Watchdog:
    """One per broker. The loop's thread calls `start` and `stop`; a watchdog that was not started does nothing."""

    def __init__(self) -> None:
        self.serving: object = None
        """What the loop serves now or served last. A connection stores a new object here for each request: the watchdog
        takes a new object for progress. Its text is what the log shows: an API's name, or an object with a `__str__`.
        """
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()

    def start(self) -> None:
        watch = _Watch(self, asyncio.get_running_loop(), threading.get_ident(), threading.get_native_id())
        self._thread = threading.Thread(target=self._look, args=(watch,), name="ottla-watchdog", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _look(self, watch: _Watch) -> None:
        try:
            while not (self._stopping.wait(_INTERVAL) or watch.is_over):
                watch.look()
        except Exception:
            logger.exception("the watchdog of the event loop has ended; the broker goes on without it")


class _Watch:
    """What the watchdog's thread knows about the loop. Only that thread changes it, except for `_answered_at`."""

    def __init__(self, watchdog: Watchdog, loop: asyncio.AbstractEventLoop, thread: int, native_thread: int) -> None:
        self._watchdog = watchdog
        self._loop = loop
        self._thread = thread
        self._state_file = f"/proc/self/task/{native_thread}/stat"
        self._cpu_clock = time.pthread_getcpuclockid(thread) if hasattr(time, "pthread_getcpuclockid") else None
        self._asked = False
        self._answered_at: float | None = 0.0
        """The processor time of the loop's thread when it last gave a sign of life; None while the watchdog waits."""
        self._unasked_looks = 0
        self._begin(None)

    @property
    def is_over(self) -> bool:
        """Whether the loop has ended without `stop`, as after an error."""
        return self._loop.is_closed()

    def _begin(self, serving: object) -> None:
        """The loop was free, or began another request, a moment ago: a hold can begin."""
        self._serving = serving
        self._began_wall, self._began_cpu = time.monotonic(), self._cpu_time()
        self._cpu = 0.0
        """Processor time that the loop's thread has used since then."""
        self._blocked_looks = 0
        self._stack: list[str] | None = None
        self._reported = False

    def _answer(self) -> None:
        """Runs on the event loop."""
        self._answered_at = time.thread_time()

    def look(self) -> None:
        serving, answered_at = self._watchdog.serving, self._answered_at
        if not self._asked:
            self._ask_unless_idle(answered_at or 0.0, serving)
        elif answered_at is not None:
            if serving is self._serving:
                self._cpu = answered_at - self._began_cpu
            self._report_if_long()
            self._asked = False
            self._ask_unless_idle(answered_at, serving)
        elif serving is not self._serving:
            self._report_if_long()
            self._begin(serving)
        else:
            self._measure()

    def _ask_unless_idle(self, answered_at: float, serving: object) -> None:
        self._unasked_looks += 1
        if self._cpu_time() - answered_at > _IDLE_CPU_SECONDS or self._unasked_looks > _MAX_UNASKED_LOOKS:
            self._unasked_looks = 0
            self._begin(serving)
            self._asked, self._answered_at = True, None
            self._loop.call_soon_threadsafe(self._answer)

    def _measure(self) -> None:
        self._cpu = self._cpu_time() - self._began_cpu
        self._blocked_looks += self._sleeps()
        if self._cpu > MAX_CPU_SECONDS / 4 or self._blocked_looks > 1:
            # The hold may be over and its end not yet seen: then nothing of the broker runs any more.
            self._stack = _stack_of(self._thread) or self._stack or []
        if time.monotonic() - self._began_wall > MAX_SILENT_SECONDS:
            self._report_if_long()

    def _report_if_long(self) -> None:
        if self._stack is None or self._reported:
            return
        if self._cpu > MAX_CPU_SECONDS:
            seconds = self._cpu
        elif self._blocked_looks * _INTERVAL >= MAX_BLOCKED_SECONDS:
            seconds = time.monotonic() - self._began_wall
        else:
            return
        self._reported = True
        where = ", ".join(self._stack[:_SHOWN_FRAMES]) or "no Python code"
        logger.warning("%s %d ms by %s (%s)", HELD, seconds * 1000, _name(self._serving, self._stack), where)

    def _cpu_time(self) -> float:
        return 0.0 if self._cpu_clock is None else time.clock_gettime(self._cpu_clock)

    def _sleeps(self) -> bool:
        """Whether the loop's thread waits for something else than a processor."""
        try:
            with open(self._state_file) as file:
                return file.read().rpartition(")")[2].split()[0] != "R"
        except OSError:
            return True  # Not Linux: every look counts.


def _stack_of(thread: int) -> list[str]:
    """The places in the broker's own code that the loop has called, innermost first.

    A function in C that keeps the interpreter's lock delays this thread: what is found is then the place after it.
    """
    frame = sys._current_frames().get(thread)
    places: list[str] = []
    while frame is not None:
        code = frame.f_code
        if code.co_filename.endswith(_RUNNER):
            break  # Beyond it is only how the loop was started.
        if code.co_filename.startswith(_PACKAGE):
            places.append(f"{code.co_filename[len(_PACKAGE) :]}:{frame.f_lineno} {code.co_name}")
        frame = frame.f_back
    return places


def _name(serving: object, stack: list[str]) -> str:
    """A task runs without its connection: the request that was served last is then not what holds the loop."""
    is_request = not stack or any(place.startswith(_CONNECTION) for place in stack)
    return str(serving) if serving is not None and is_request else "a task"
