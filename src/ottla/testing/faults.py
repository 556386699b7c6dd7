"""Faults that a test plans for a broker: errors, delays and dropped connections. Thread-safe."""

from __future__ import annotations

import difflib
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from ottla.errors import ErrorCode
from ottla.handlers.registry import HANDLERS, Served
from ottla.testing.messages import can_fail, names_topics

TOOLS_CLIENT_ID = "ottla-testing"
"""The client id of the clients behind `EmbeddedBroker.produce` and the like, which see no faults."""

_APIS = {served.api.name: served for served in HANDLERS.values()}
_SHOWN_MATCHES = 5


@dataclass(frozen=True)
class Fail:
    """Answer with an error, without processing the request."""

    code: ErrorCode

    def __str__(self) -> str:
        return f"fail with {self.code.name}"


@dataclass(frozen=True)
class Delay:
    """Process the request, and hold its reply back."""

    seconds: float

    def __str__(self) -> str:
        return f"delay by {self.seconds:g} s"


@dataclass(frozen=True)
class Drop:
    """Close the connection instead of a reply, before or after the request is processed."""

    after: bool

    def __str__(self) -> str:
        return f"drop the connection {'after' if self.after else 'before'} processing"


Effect: TypeAlias = Fail | Delay | Drop


class Fault:
    """A planned fault. `fired` counts the requests that it has affected, also after it is used up or removed."""

    def __init__(self, api: str, effect: Effect, times: int | None, topic: str | None) -> None:
        self.api = api
        self.effect = effect
        self.times = times
        """How many requests the fault affects; None: every request until the fault is removed."""
        self.topic = topic
        self.fired = 0
        self._removed = False
        self._changed = threading.Condition()

    def __repr__(self) -> str:
        topic = "" if self.topic is None else f" for topic {self.topic!r}"
        limit = "" if self.times is None else f" of {self.times}"
        return f"<{self.api}{topic}: {self.effect}; fired {self.fired}{limit} times>"

    @property
    def is_active(self) -> bool:
        return not self._removed and (self.times is None or self.fired < self.times)

    def remove(self) -> None:
        with self._changed:
            self._removed = True

    def wait(self, times: int | None = None, timeout: float = 10.0) -> None:
        """Wait until the fault has fired this often. Default: as often as planned, at least once."""
        wanted = times if times is not None else self.times or 1
        deadline = time.monotonic() + timeout
        with self._changed:
            while self.fired < wanted:
                remaining = deadline - time.monotonic()
                if remaining <= 0:
                    raise TimeoutError(f"{self!r} has not fired {wanted} times in {timeout:g} s")
                self._changed.wait(remaining)

    def fire(self) -> bool:
        """Count a request. False if the fault is no longer active: the request is not affected."""
        with self._changed:
            if not self.is_active:
                return False
            self.fired += 1
            self._changed.notify_all()
            return True


class Faults:
    """The faults of a broker, or of all brokers of a cluster. If several fit a request, the oldest one applies.

    Faults affect clients only: not the requests between brokers, and not the methods of the broker object itself, such
    as `produce`.
    """

    def __init__(self) -> None:
        self._faults: tuple[Fault, ...] = ()
        self._lock = threading.Lock()

    def fail(self, api: str, error: str, times: int | None = 1, *, topic: str | None = None) -> Fault:
        """Answer the next requests with an error instead of processing them. The reply has the error in each place that
        it has for one: for the whole request, for each topic, for each partition.

        With `topic`, only requests that name this topic are affected, as a whole.
        """
        served = _find_api(api)
        if not can_fail(served.api.response):
            raise ValueError(f"the response of {api} has no error code")
        return self._add(served, Fail(_find_error(error)), times, topic)

    def delay(self, api: str, seconds: float, times: int | None = 1, *, topic: str | None = None) -> Fault:
        """Process the next requests at once, and send their replies this much later, on the broker's clock. Further
        requests on the same connection wait too."""
        if seconds < 0:
            raise ValueError(f"a delay of {seconds} s is negative")
        return self._add(_find_api(api), Delay(seconds), times, topic)

    def drop_connection(
        self, api: str, times: int | None = 1, *, after: bool = False, topic: str | None = None
    ) -> Fault:
        """Close the connection instead of processing the next requests. With `after`, the requests are processed and
        only their replies are lost."""
        return self._add(_find_api(api), Drop(after), times, topic)

    def clear(self) -> None:
        """Remove all faults."""
        with self._lock:
            for fault in self._faults:
                fault.remove()
            self._faults = ()

    @property
    def active(self) -> tuple[Fault, ...]:
        return tuple(fault for fault in self._faults if fault.is_active)

    def _add(self, served: Served, effect: Effect, times: int | None, topic: str | None) -> Fault:
        if times is not None and times < 1:
            raise ValueError(f"times is {times}; use 1 or more, or None for every request")
        name = served.api.name
        if topic is not None and not names_topics(served.request):
            raise ValueError(f"{name} requests name no topics")
        fault = Fault(name, effect, times, topic)
        with self._lock:
            self._faults = (*self.active, fault)
        return fault


def _find_api(name: str) -> Served:
    served = _APIS.get(name)
    if served is None:
        raise ValueError(f"there is no API {name!r}{_suggestion(name, _APIS)}")
    return served


def _find_error(name: str) -> ErrorCode:
    if name == ErrorCode.NONE.name:
        raise ValueError("NONE is not an error")
    if name not in ErrorCode.__members__:
        raise ValueError(f"there is no error {name!r}{_suggestion(name, ErrorCode.__members__)}")
    return ErrorCode[name]


def _suggestion(name: str, known: Iterable[str]) -> str:
    by_lower_case = {each.lower(): each for each in known}
    close = difflib.get_close_matches(name.lower(), by_lower_case, _SHOWN_MATCHES)
    return f"; did you mean {', '.join(by_lower_case[each] for each in close)}?" if close else ""
