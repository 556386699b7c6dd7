"""Runs one pure core on one partition of an internal topic.

The core decides. The shard acts: it replays the partition to load the core, appends the records of each decision, keeps
the timers, and answers requests once the records that an answer depends on are committed.

A command is a transaction. The shard first encodes the records, then appends them, then has the core replay them. When
nothing was appended, the core takes its decision back and goes on. When anything else goes wrong, the state in memory
may differ from the log: the core has failed, everyone who waits is told to try again, and the shard is loaded anew.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
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
    """Records and the keys of timers are each core's own."""

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
        """`on_failed` must unload the shard, and load another in its place.

        `committed` is told of each outcome whose records, if any, are committed. That is the last step of a command:
        the core is ready again, so `committed` may have the shard perform further commands.
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
        """Of requests that the core still has to answer."""
        self._portions: set[asyncio.Task[None]] = set()
        self._uncommitted: asyncio.Future[None] | None = None
        self.crashed = False
        """Whether the shard failed by a mistake of this broker, which may repeat itself."""
        self._unloaded = False

    # Loading

    async def load(self, kept_elsewhere: Iterable[Any] = ()) -> None:
        """Replay the partition, then what is kept elsewhere. Lets others run in between, since this can take long.

        A new leader does not know yet how much of its log is committed. All of it may be, and earlier answers may
        depend on it. So the shard replays all of it, and answers nobody before all of it is committed.
        """
        offset = await self._replayer.replay_log(self.partition.log.log_start_offset)
        await self._replayer.replay(partial(self.core.replay, record) for record in kept_elsewhere)
        await self._replayer.replay_log(offset)
        if not self._unloaded:
            outcome = self.core.on_loaded(self.now())
            self.loaded = True
            self.perform(outcome)

    def unload(self) -> None:
        """Another broker, or nobody, coordinates from now on; or a new shard of this broker does."""
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
            logger.exception("%s: the coordinator could not answer everyone who waits", self.partition)
        # After a failure the core may have lost track of requests.
        for token in tuple(self._waiting):
            if not token.done():
                token.set_exception(KafkaError(ErrorCode.NOT_COORDINATOR))

    def _crash(self, error: Exception, replies: Iterable[Reply[Any]] = ()) -> None:
        """The state in memory may differ from the log, by a mistake of this broker: ask for a new shard."""
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
        """Perform a command, which answers the token with a `ResultT`, and wait for the answer. Raises KafkaError."""
        if self._unloaded:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        token: asyncio.Future[ResultT] = asyncio.get_running_loop().create_future()
        try:
            outcome = command(self.core, token, self.now())
        except Exception as error:
            self._crash(error)
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR) from error
        self._waiting.add(token)
        try:
            self.perform(outcome, admission)
            return await token
        finally:
            self._waiting.discard(token)

    def execute(self, decide: Callable[[], OutcomeT]) -> None:
        """Perform a decision for which no request waits."""
        try:
            outcome = decide()
        except Exception as error:
            self._crash(error)
        else:
            self.perform(outcome)

    def start_all(self, decide: Callable[[int], OutcomeT]) -> None:
        """`perform_all` in a task of its own."""
        task = asyncio.ensure_future(self.perform_all(decide))
        self._portions.add(task)
        task.add_done_callback(self._portions.discard)

    async def perform_all(self, decide: Callable[[int], OutcomeT]) -> None:
        """Perform a decision that comes in portions, each of at most the given number of records, and let others run in
        between. When a portion is too large for one batch, the next ones are smaller."""
        size = MAX_PORTION
        while self.loaded and size > 0:
            try:
                outcome = decide(size)
            except Exception as error:
                self._crash(error)
                return
            wanted = bool(outcome.records)
            error_code = self.perform(outcome)
            if error_code in _TOO_LARGE:
                size //= 8
            elif not wanted or error_code is not ErrorCode.NONE:
                return
            await asyncio.sleep(0)

    def perform(self, outcome: OutcomeT, admission: Admission | None = None) -> ErrorCode:
        """Do what the core decided. Returns why its records, if there are any, were not written. Raises nothing."""
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
        # A reply without records of its own may depend on earlier records that are not committed yet: wait for them.
        wait = self._uncommitted
        if wait is not None:
            wait.add_done_callback(partial(self._finish_after, outcome))
            return error_code
        self._finish(outcome)
        return error_code

    def _write(self, outcome: OutcomeT, admission: Admission | None) -> ErrorCode:
        """Encode, append, replay. Returns why nothing was appended. After an exception, something may be appended."""
        try:
            write = self._journal.encode(outcome, admission)
        except KafkaError as error:
            logger.error("%s: the records of a command were refused: %s", self.partition, error)
            return error.code
        except Exception:
            logger.exception("%s: the records of a command cannot be encoded", self.partition)
            return ErrorCode.UNKNOWN_SERVER_ERROR
        try:
            wait = write()
        except KafkaError as error:
            logger.error("%s: the records of a command could not be written: %s", self.partition, error)
            return error.code
        self._follow(wait)
        self.core.written(outcome)
        return ErrorCode.NONE

    def append(
        self, write: Callable[[], asyncio.Future[None] | None], replay: Callable[[], None]
    ) -> asyncio.Future[None] | None:
        """Append what no command of the core decided, such as the end of a transaction, and replay it. `write` appends
        or raises KafkaError. Raises KafkaError."""
        try:
            wait = write()
            self._follow(wait)
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
        """Done when everything that the core knows is committed; None if it already is."""
        return self._uncommitted

    def _follow(self, wait: asyncio.Future[None] | None) -> None:
        """Records were appended that are committed once the future is done. None: they are already."""
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
                "%s: appended records may be lost, the coordinator is loaded again: %s",
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
        """The last step of a command. `committed` may perform further commands, so nothing may follow it."""
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
