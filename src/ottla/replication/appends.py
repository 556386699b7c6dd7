"""Appends that are in the log and wait: for the in-sync replicas, for the disk, or for both."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from ottla.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.env.clock import Clock, Timer

_EXPIRY_SECONDS = 0.25
"""How often appends that have waited too long are looked for."""


class WaitingAppend(NamedTuple):
    """An append is complete when all three offsets are reached; 0 is always reached."""

    end_offset: int
    future: asyncio.Future[None]
    deadline: float
    committed: int
    synced: int
    replicated: int


class WaitingAppends:
    """One queue for a partition, in the order of the appends.

    Only appends somebody waits for are in it: the producers that wait limit its length, not the appends.
    """

    __slots__ = ("_clock", "_expiry_timer", "_partition", "queue")

    def __init__(self, partition: object, clock: Clock) -> None:
        self._partition = partition
        """Named in errors."""
        self._clock = clock
        self._expiry_timer: Timer | None = None
        self.queue: deque[WaitingAppend] = deque()
        """Read by the partition, which asks for nothing to be completed while the queue is empty."""

    def add(
        self, end_offset: int, *, committed: int = 0, synced: int = 0, replicated: int = 0, timeout: float = math.inf
    ) -> asyncio.Future[None]:
        """A future that is done when the high watermark, the synced end and the replicated offset have reached these
        offsets. After `timeout` seconds it fails with REQUEST_TIMED_OUT."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        deadline = timeout
        if timeout is not math.inf:
            deadline += self._clock.monotonic()
            if self._expiry_timer is None:
                self._expiry_timer = self._clock.call_later(_EXPIRY_SECONDS, self._expire_waiting_appends)
        self.queue.append(WaitingAppend(end_offset, future, deadline, committed, synced, replicated))
        return future

    def complete(self, committed: int, synced: int, replicated: int) -> None:
        """Complete the appends for which these offsets are enough.

        An append that waits for one offset may stand behind an append that waits for another. So the walk goes on past
        incomplete appends, up to the first append that lies beyond all three offsets.
        """
        queue = self.queue
        furthest = max(committed, synced, replicated)
        incomplete = []
        while queue and queue[0].end_offset <= furthest:
            append = queue.popleft()
            if append.committed <= committed and append.synced <= synced and append.replicated <= replicated:
                if not append.future.done():
                    append.future.set_result(None)
            else:
                incomplete.append(append)
        queue.extendleft(reversed(incomplete))

    def fail(self, error: KafkaError) -> None:
        """Fail all appends that wait."""
        if self._expiry_timer is not None:
            self._expiry_timer.cancel()
            self._expiry_timer = None
        while self.queue:
            _fail(self.queue.popleft().future, error)

    def _expire_waiting_appends(self) -> None:
        """One timer serves all appends: a timer for each append would cost more than a late answer does."""
        now = self._clock.monotonic()
        waiting: deque[WaitingAppend] = deque()
        again = False
        for append in self.queue:
            if append.future.done():
                continue
            if append.deadline <= now:
                text = f"the in-sync replicas of {self._partition} did not have it in time"
                _fail(append.future, KafkaError(ErrorCode.REQUEST_TIMED_OUT, text))
                continue
            again = again or append.deadline is not math.inf
            waiting.append(append)
        self.queue = waiting
        self._expiry_timer = self._clock.call_later(_EXPIRY_SECONDS, self._expire_waiting_appends) if again else None


def _fail(future: asyncio.Future[None], error: KafkaError) -> None:
    if not future.done():
        future.set_exception(error)
        future.exception()  # Marks it as seen. If the client has gone, nobody else does, which asyncio would log.
