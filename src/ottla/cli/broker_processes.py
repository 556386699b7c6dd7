"""Brokers as child processes, and what happens to them as one stream of events.

Everything that is waited for arrives in one queue: a line a broker printed, the end of a broker, a signal. The parent
has no timers and no locks; threads only read what the children print.
"""

import queue
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ottla.cli.child import child_command
from ottla.env.platform import resident_memory

READY = "Ottla is ready: "
STOP_SECONDS = 60.0
"""How long a broker may take to hand over and to bring its logs to disk."""
_LAST_LINES = 20


@dataclass(frozen=True, slots=True)
class BrokerPlan:
    """How a broker is started; the settings win over those of the arguments."""

    id: int
    arguments: tuple[str, ...]
    settings: Mapping[str, str]

    def command(self) -> list[str]:
        options = (part for key, value in self.settings.items() for part in ("--set", f"{key}={value}"))
        return child_command(["serve", *self.arguments, *options])


class Ready(NamedTuple):
    broker: "BrokerProcess"


class Ended(NamedTuple):
    broker: "BrokerProcess"


class Stop(NamedTuple):
    """A signal asks for the end."""


Event = Ready | Ended | Stop
Events = queue.SimpleQueue[Event]


class BrokerProcess:
    """One broker, from start to end. Start it from the main thread: the child lives as long as the thread does."""

    def __init__(self, plan: BrokerPlan, events: Events, print_line: Callable[[int, str], None]) -> None:
        self.id = plan.id
        self.listeners: list[str] = []
        """As NAME://host:port, once it is ready."""
        self._events = events
        self._print_line = print_line
        self._last: deque[str] = deque(maxlen=_LAST_LINES)
        # A session of its own, so that Ctrl-C reaches the parent only, which then stops all of them.
        self._process = subprocess.Popen(
            plan.command(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        threading.Thread(target=self._read, name=f"broker-{plan.id}", daemon=True).start()

    @property
    def address(self) -> str | None:
        """Host and port of the first listener."""
        return self.listeners[0].partition("://")[2] if self.listeners else None

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    @property
    def pid(self) -> int:
        return self._process.pid

    def why_ended(self) -> str:
        code = self._process.wait()
        if code < 0:
            return f"was ended by {signal.Signals(-code).name}"
        said = next((line for line in reversed(self._last) if line.strip()), "")
        return f"ended with exit code {code}" + (f": {said}" if code and said else "")

    def memory(self) -> int | None:
        """Bytes of resident memory; None when it has ended."""
        return resident_memory(self._process.pid)

    def terminate(self) -> None:
        if self.is_running:
            self._process.terminate()

    def wait(self, deadline: float) -> int:
        """Its exit code. A broker that has not stopped by the deadline, on the steady clock, is killed."""
        try:
            return self._process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            text = line.rstrip("\n")
            self._last.append(text)
            if text.startswith(READY):
                self.listeners = text.removeprefix(READY).split(", ")
                self._events.put(Ready(self))
            else:
                self._print_line(self.id, text)
        self._process.wait()
        self._events.put(Ended(self))


def stop_all(brokers: list[BrokerProcess]) -> int:
    """Stop them together. Returns the worst exit code."""
    for broker in brokers:
        broker.terminate()
    deadline = time.monotonic() + STOP_SECONDS
    return max((abs(broker.wait(deadline)) for broker in brokers), default=0)
