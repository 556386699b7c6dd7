"""Appends that were written to the log and wait for the in-sync replicas, for a sync, or for both."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from ottla.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.env.clock import Clock, Timer

_EXPIRY_SECONDS = 0.25
"""The interval between two searches for expired appends."""


class WaitingAppend(NamedTuple):
    """The append is complete when the high watermark has reached `committed`, the synced end `synced`, and the
    replicated offset `replicated`. 0 means no wait."""

    end_offset: int
    future: asyncio.Future[None]
    deadline: float
    committed: int
    synced: int
    replicated: int


class WaitingAppends:
    """The queue of one partition, in the order of the appends.

    It has only appends for which a producer waits, so the number of waiting producers limits its length.
    """

    __slots__ = ("_clock", "_expiry_timer", "_partition", "queue")

    def __init__(self, partition: object, clock: Clock) -> None:
        self._partition = partition
        """For error messages."""
        self._clock = clock
        self._expiry_timer: Timer | None = None
        self.queue: deque[WaitingAppend] = deque()
        """The partition reads it, and skips `complete` while it is empty."""

    def add(
        self, end_offset: int, *, committed: int = 0, synced: int = 0, replicated: int = 0, timeout: float = math.inf
    ) -> asyncio.Future[None]:
        """A future that is done when the high watermark, the synced end and the replicated offset have reached these
        offsets. After `timeout` seconds it fails with REQUEST_TIMED_OUT."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        deadline = timeout
        if timeout != math.inf:
            deadline += self._clock.monotonic()
            if self._expiry_timer is None:
                self._expiry_timer = self._clock.call_later(_EXPIRY_SECONDS, self._expire_waiting_appends)
        self.queue.append(WaitingAppend(end_offset, future, deadline, committed, synced, replicated))
        return future

    def complete(self, committed: int, synced: int, replicated: int) -> None:
        """Complete the appends for which these offsets are enough.

        An append that waits for one of the offsets may be behind an append that waits for another. So the loop
        continues after incomplete appends, up to the first append that is beyond all three offsets.
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
        """Fail all waiting appends."""
        if self._expiry_timer is not None:
            self._expiry_timer.cancel()
            self._expiry_timer = None
        while self.queue:
            _fail(self.queue.popleft().future, error)

    def _expire_waiting_appends(self) -> None:
        """Fail the appends whose timeout is over. One timer serves all appends, because a timer for each append would
        cost more CPU time than a late error is worth."""
        now = self._clock.monotonic()
        waiting: deque[WaitingAppend] = deque()
        again = False
        for append in self.queue:
            if append.future.done():
                continue
            if append.deadline <= now:
                text = f"the in-sync replicas of {self._partition} did not store the batch in time"
                _fail(append.future, KafkaError(ErrorCode.REQUEST_TIMED_OUT, text))
                continue
            again = again or append.deadline != math.inf
            waiting.append(append)
        self.queue = waiting
        self._expiry_timer = self._clock.call_later(_EXPIRY_SECONDS, self._expire_waiting_appends) if again else None


def _fail(future: asyncio.Future[None], error: KafkaError) -> None:
    if not future.done():
        future.set_exception(error)
        future.exception()  # Marks the error as retrieved. Otherwise asyncio logs it if the client has disconnected.
