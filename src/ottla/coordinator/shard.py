"""Runs one pure core on one partition of an internal topic.

The core decides; the shell does: it replays the partition to load, appends the records of each decision, keeps the
timers, and answers once what the answer rests on is committed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar

from ottla.coordinator_core.effects import CancelTimer, Now, Reply, SetTimer
from ottla.errors import ErrorCode, KafkaError
from ottla.records.header import iter_headers

if TYPE_CHECKING:
    from ottla.coordinator.journal import Journal
    from ottla.env.clock import Clock, Timer
    from ottla.records.header import BatchHeader
    from ottla.replication.partition import Admission, Partition

logger = logging.getLogger("ottla.coordinator")

_READ_SIZE = 1 << 20


class Core(Protocol):
    """Records, outcomes and the keys of timers are each core's own."""

    def replay(self, record: Any) -> None: ...

    def on_loaded(self, now: Now) -> Any: ...

    def written(self, outcome: Any) -> None: ...

    def append_failed(self, outcome: Any, error: ErrorCode, now: Now) -> Any: ...

    def timer_fired(self, key: Any, now: Now) -> Any: ...

    def unload(self, now: Now) -> Any: ...


CoreT = TypeVar("CoreT", bound=Core)

Replay: TypeAlias = "Callable[[BatchHeader, memoryview], None]"
"""Gives a core what a stored batch says."""


class Shard(Generic[CoreT]):
    def __init__(
        self,
        partition: Partition,
        core: CoreT,
        journal: Journal[Any],
        clock: Clock,
        replay: Replay,
        *,
        committed: Callable[[Any], None] | None = None,
    ) -> None:
        """`committed` is told of each outcome whose records, if it has any, are there to stay."""
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self.core = core
        self.loaded = False
        self.on_outcome_unknown: Callable[[], None] = lambda: None
        """Called when records were appended, and nobody knows whether they count: the core must be loaded again."""
        self._journal = journal
        self._clock = clock
        self._replay = replay
        self._committed = committed
        self._timers: dict[Any, Timer] = {}
        self._uncommitted: asyncio.Future[None] | None = None
        self._unloaded = False

    async def load(self, kept_elsewhere: Iterable[Any] = ()) -> None:
        """Replay the partition, then what is kept elsewhere. Lets others run in between, since this can be long.

        A new leader does not know yet how much of its log is committed: all of it may be, and answers may have been
        given that rest on it. So all of it is replayed, and nobody is answered before all of it is committed.

        After a failure this can be called again: who replays all records in their order arrives at the same state.
        """
        partition = self.partition
        offset = partition.log.log_start_offset
        while not self._unloaded and (offset < partition.log.end_offset or offset > partition.in_sync_end):
            if offset < partition.log.end_offset:
                offset = self._replay_from(offset)
                await asyncio.sleep(0)
            else:
                await partition.committed(offset)
        if not self._unloaded:
            for record in kept_elsewhere:
                self.core.replay(record)
            self.loaded = True
            self.perform(self.core.on_loaded(self.now()))

    def _replay_from(self, offset: int) -> int:
        """Replay some batches. Returns where the next ones are."""
        found = self.partition.read_everything(offset, _READ_SIZE)
        if found.file is None:
            return self.partition.log.end_offset
        data = memoryview(found.file.read(found.size, found.position))
        for position, header in iter_headers(data):
            self._replay(header, data[position : position + header.size])
        return found.next_offset

    def unload(self) -> None:
        """Another broker, or nobody, coordinates from now on; or this one after it has loaded again."""
        self._unloaded = True
        self.loaded = False
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        for reply in self.core.unload(self.now()).replies:
            _answer(reply)

    def now(self) -> Now:
        return Now(int(self._clock.monotonic() * 1000), self._clock.time_ms())

    async def run(
        self, command: Callable[[CoreT, asyncio.Future[Any], Now], Any], admission: Admission | None = None
    ) -> Any:
        """Perform a command and wait for its answer."""
        token: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.perform(command(self.core, token, self.now()), admission)
        return await token

    def perform_all(self, decide: Callable[[], Any]) -> None:
        """Perform a decision that comes in portions, as long as each of them can be written."""
        while (outcome := decide()).records and self.perform(outcome):
            pass

    def perform(self, outcome: Any, admission: Admission | None = None) -> bool:
        """Do what the core decided. Returns whether its records, if there are any, were written."""
        written = True
        if outcome.records:
            try:
                wait = self._journal.write(outcome, admission)
            except KafkaError as error:
                logger.error("%s: a decision could not be written: %s", self.partition, error)
                outcome, written = self.core.append_failed(outcome, error.code, self.now()), False
            else:
                self.core.written(outcome)
                self.follow(wait)
        for message in outcome.messages:
            logger.info(message)
        for timer in outcome.timers:
            self._set_timer(timer)
        # What rests on nothing new may rest on something that is on its way.
        wait = self._uncommitted
        if wait is None:
            self._finish(outcome)
        else:
            wait.add_done_callback(partial(self._finish_after, outcome))
        return written

    @property
    def uncommitted(self) -> asyncio.Future[None] | None:
        """Done when everything that the core knows is there to stay; None if it already is."""
        return self._uncommitted

    def follow(self, wait: asyncio.Future[None] | None) -> None:
        """Something was written that counts once this is done."""
        self._uncommitted = wait
        if wait is not None:
            wait.add_done_callback(self._settled)

    def _settled(self, done: asyncio.Future[None]) -> None:
        if self._uncommitted is done:
            self._uncommitted = None
        error = None if done.cancelled() else done.exception()
        if error is not None and not self._unloaded:
            logger.error("%s: a decision could not be written: %s", self.partition, error)
            self.on_outcome_unknown()

    def _finish(self, outcome: Any) -> None:
        for reply in outcome.replies:
            _answer(reply)
        if self._committed is not None and not self._unloaded:
            self._committed(outcome)

    def _finish_after(self, outcome: Any, done: asyncio.Future[None]) -> None:
        error = done.exception()
        if error is None:
            self._finish(outcome)
            return
        code = error.code if isinstance(error, KafkaError) else ErrorCode.UNKNOWN_SERVER_ERROR
        for reply in outcome.replies:
            _answer(reply.failed(code))

    def _set_timer(self, timer: SetTimer[Any] | CancelTimer[Any]) -> None:
        key = timer.key
        running = self._timers.pop(key, None)
        if running is not None:
            running.cancel()
        if isinstance(timer, SetTimer):
            delay = max(0.0, timer.at_ms / 1000 - self._clock.monotonic())
            self._timers[key] = self._clock.call_later(delay, self._fire, key)

    def _fire(self, key: object) -> None:
        self._timers.pop(key, None)
        self.perform(self.core.timer_fired(key, self.now()))


def _answer(reply: Reply[Any]) -> None:
    future = reply.token
    assert isinstance(future, asyncio.Future)
    if not future.done():
        future.set_result(reply.result)
