"""Runs one pure core on one partition of an internal topic.

The core decides, and the shard performs the effects. The shard replays the partition to load the core, appends the
records of each command, runs the timers, and sends a reply when the records that it depends on are committed.

A command is a transaction. The shard first encodes the records, then appends them, then the core replays them. If
nothing was appended, the core undoes its decision. After any other failure the state in memory may differ from the log.
Then the core has failed, all waiting requests get a retriable error, and a new shard is loaded.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from ottla.coordinator_core.command_gate import OutcomeT
from ottla.coordinator_core.effects import MAX_PORTION, CancelTimer, Now, Reply, SetTimer
from ottla.errors import ErrorCode, KafkaError
from ottla.model import printable

if TYPE_CHECKING:
    from ottla.coordinator.journal import Journal
    from ottla.coordinator.replayer import Replayer
    from ottla.env.clock import Clock, Timer
    from ottla.replication.partition import Admission, Partition

logger = logging.getLogger("ottla.coordinator")

_TOO_LARGE = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)


class Core(Protocol[OutcomeT]):
    """Each core has its own types of records and timer keys."""

    def replay(self, record: Any) -> None: ...

    def on_loaded(self, now: Now) -> OutcomeT: ...

    def written(self, outcome: OutcomeT) -> None: ...

    def append_failed(self, outcome: OutcomeT, error: ErrorCode, now: Now) -> OutcomeT: ...

    def timer_fired(self, key: Any, now: Now) -> OutcomeT: ...

    def fail(self) -> None: ...

    def unload(self, now: Now) -> OutcomeT: ...


CoreT = TypeVar("CoreT", bound=Core[Any])
ResultT = TypeVar("ResultT")


class Shard(Generic[CoreT, OutcomeT]):
    def __init__(
        self,
        partition: Partition,
        core: CoreT,
        journal: Journal[OutcomeT],
        clock: Clock,
        replayer: Replayer,
        *,
        on_failed: Callable[[Shard[CoreT, OutcomeT]], None],
        committed: Callable[[OutcomeT], None] | None = None,
    ) -> None:
        """`on_failed` must unload the shard, and load a new one in its place.

        `committed` is called with each outcome after its records, if any, are committed. That is the last step of a
        command: the core is ready again, so `committed` may make the shard perform further commands.
        """
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self.core = core
        self.loaded = False
        self._journal = journal
        self._clock = clock
        self._replayer = replayer
        self._on_failed = on_failed
        self._committed = committed
        self._timers: dict[Any, Timer] = {}
        self._waiting: set[asyncio.Future[Any]] = set()
        """The futures of requests that the core has not answered yet."""
        self._portions: set[asyncio.Task[None]] = set()
        self._uncommitted: asyncio.Future[None] | None = None
        self.crashed = False
        """Whether a bug of this broker made the shard fail. The failure may repeat."""
        self._unloaded = False

    # Loading

    async def load(self, stored_records: Iterable[Any] = ()) -> None:
        """Replay the partition, then the records that are stored outside of it. Yields to the event loop meanwhile.

        A new leader does not know yet how much of its log is committed. All of it may be, and earlier replies may
        depend on it. So the shard replays the whole log, and serves requests only when all of it is committed.
        """
        offset = await self._replayer.replay_log(self.partition.log.log_start_offset)
        await self._replayer.replay(partial(self.core.replay, record) for record in stored_records)
        await self._replayer.replay_log(offset)
        if not self._unloaded:
            outcome = self.core.on_loaded(self.now())
            self.loaded = True
            self.perform(outcome)

    def unload(self) -> None:
        """Stop coordinating: this broker does not lead the partition any more, or a new shard replaces this one."""
        self._unloaded = True
        self.loaded = False
        self._replayer.stop()
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        try:
            for reply in self.core.unload(self.now()).replies:
                _answer(reply)
        except Exception:
            logger.exception("%s: the coordinator could not answer all waiting requests", self.partition)
        # After a failure the core may have lost track of requests.
        for token in tuple(self._waiting):
            if not token.done():
                token.set_exception(KafkaError(ErrorCode.NOT_COORDINATOR))

    def _crash(self, error: Exception, replies: Iterable[Reply[Any]] = ()) -> None:
        """Fail after a bug. The state in memory may differ from the log, so a new shard must be loaded."""
        logger.error("%s: the coordinator failed", self.partition, exc_info=error)
        for reply in replies:
            _answer(reply.failed(ErrorCode.UNKNOWN_SERVER_ERROR))
        self.crashed = True
        self._fail()

    def _fail(self) -> None:
        if not self._unloaded:
            self.loaded = False
            self.core.fail()
            self._on_failed(self)

    # Commands

    def now(self) -> Now:
        return Now(int(self._clock.monotonic() * 1000), self._clock.time_ms())

    async def run(
        self, command: Callable[[CoreT, asyncio.Future[ResultT], Now], OutcomeT], admission: Admission | None = None
    ) -> ResultT:
        """Perform a command and wait for its result. Raises KafkaError."""
        return await self.submit(command, admission)

    def submit(
        self, command: Callable[[CoreT, asyncio.Future[ResultT], Now], OutcomeT], admission: Admission | None = None
    ) -> asyncio.Future[ResultT]:
        """Perform a command. The core replies to the token, which is the returned future. Raises KafkaError, and the
        future may also fail with KafkaError. The command is not kept while the future waits."""
        if self._unloaded:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        token: asyncio.Future[ResultT] = asyncio.get_running_loop().create_future()
        try:
            outcome = command(self.core, token, self.now())
        except Exception as error:
            self._crash(error)
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR) from error
        self._waiting.add(token)
        token.add_done_callback(self._waiting.discard)
        self.perform(outcome, admission)
        return token

    def execute(self, decide: Callable[[], OutcomeT]) -> None:
        """Perform a decision that no request waits for."""
        try:
            outcome = decide()
        except Exception as error:
            self._crash(error)
        else:
            self.perform(outcome)

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Run calls of `perform_all` in a separate task."""
        task = asyncio.ensure_future(work)
        self._portions.add(task)
        task.add_done_callback(self._portions.discard)

    async def perform_all(self, decide: Callable[[int], OutcomeT]) -> None:
        """Perform a decision in portions. `decide` gets the maximum number of records of a portion. Yields to the event
        loop between portions. If a portion is too large for one batch, the next portions are smaller."""
        size = MAX_PORTION
        while self.loaded and size > 0:
            try:
                outcome = decide(size)
            except Exception as error:
                self._crash(error)
                return
            had_records = bool(outcome.records)
            error_code = self.perform(outcome)
            if error_code in _TOO_LARGE:
                size //= 8
            elif not had_records or error_code is not ErrorCode.NONE:
                return
            await asyncio.sleep(0)

    def perform(self, outcome: OutcomeT, admission: Admission | None = None) -> ErrorCode:
        """Perform the effects of a command. Returns the error if its records could not be appended. Never raises."""
        error_code = ErrorCode.NONE
        try:
            if outcome.records:
                error_code = self._write(outcome, admission)
                if error_code is not ErrorCode.NONE:
                    outcome = self.core.append_failed(outcome, error_code, self.now())
            for message in outcome.messages:
                logger.info("%s", printable(message))
            for timer in outcome.timers:
                self._set_timer(timer)
        except Exception as error:
            self._crash(error, outcome.replies)
            return ErrorCode.UNKNOWN_SERVER_ERROR
        self._waiting.difference_update(reply.token for reply in outcome.replies)
        # A reply without records may depend on earlier records that are not committed yet, so it waits for them.
        wait = self._uncommitted
        if wait is not None:
            wait.add_done_callback(partial(self._finish_after, outcome))
            return error_code
        self._finish(outcome)
        return error_code

    def _write(self, outcome: OutcomeT, admission: Admission | None) -> ErrorCode:
        """Encode, append, replay. Returns an error if nothing was appended. If this raises, records may be appended."""
        try:
            write = self._journal.encode(outcome, admission)
        except KafkaError as error:
            logger.error("%s: rejected the records of a command: %s", self.partition, error)
            return error.code
        except Exception:
            logger.exception("%s: cannot encode the records of a command", self.partition)
            return ErrorCode.UNKNOWN_SERVER_ERROR
        try:
            wait = write()
        except KafkaError as error:
            logger.error("%s: cannot append the records of a command: %s", self.partition, error)
            return error.code
        self._track(wait)
        self.core.written(outcome)
        return ErrorCode.NONE

    def append(
        self, write: Callable[[], asyncio.Future[None] | None], replay: Callable[[], None]
    ) -> asyncio.Future[None] | None:
        """Append and replay something that is no command of the core, such as a transaction marker. `write` appends or
        raises KafkaError. Raises KafkaError."""
        try:
            wait = write()
            self._track(wait)
            replay()
        except KafkaError:
            raise
        except Exception as error:
            self._crash(error)
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR) from error
        return wait

    # Waiting for commits

    @property
    def uncommitted(self) -> asyncio.Future[None] | None:
        """A future that is done when all appended records are committed. None if they already are."""
        return self._uncommitted

    def _track(self, wait: asyncio.Future[None] | None) -> None:
        """Track appended records. They are committed when the future is done, or already if it is None."""
        if wait is not None:
            self._uncommitted = wait
            wait.add_done_callback(self._settled)

    def _settled(self, done: asyncio.Future[None]) -> None:
        if self._uncommitted is done:
            self._uncommitted = None
        error = None if done.cancelled() else done.exception()
        if error is not None and not self._unloaded:
            traceback = None if isinstance(error, KafkaError) else error
            logger.error(
                "%s: appended records may be lost; reloading the coordinator: %s",
                self.partition,
                error,
                exc_info=traceback,
            )
            self._fail()

    def _finish_after(self, outcome: OutcomeT, done: asyncio.Future[None]) -> None:
        error = asyncio.CancelledError() if done.cancelled() else done.exception()
        if error is None:
            self._finish(outcome)
            return
        code = error.code if isinstance(error, KafkaError) else ErrorCode.UNKNOWN_SERVER_ERROR
        for reply in outcome.replies:
            _answer(reply.failed(code))

    def _finish(self, outcome: OutcomeT) -> None:
        """The last step of a command. The call of `committed` must come last, since it may perform further commands."""
        for reply in outcome.replies:
            _answer(reply)
        if self._committed is not None and not self._unloaded:
            try:
                self._committed(outcome)
            except Exception as error:
                self._crash(error)

    # Timers

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
        self.execute(lambda: self.core.timer_fired(key, self.now()))


def _answer(reply: Reply[Any]) -> None:
    future = reply.token
    assert isinstance(future, asyncio.Future)
    if not future.done():
        future.set_result(reply.result)
