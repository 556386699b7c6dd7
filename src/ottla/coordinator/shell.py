"""Runs one pure core on one partition of an internal topic.

The core decides; the shell does: it replays the partition to load, appends the records of each decision, keeps the
timers, and answers once what the answer rests on is committed.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from ottla.errors import ErrorCode, KafkaError
from ottla.groups.effects import CancelTimer, Now, Outcome, Reply, SetTimer, TimerKey
from ottla.records.builder import NewRecord, build_batch
from ottla.records.format import Codec
from ottla.records.header import iter_headers
from ottla.records.reader import read_records

if TYPE_CHECKING:
    from ottla.env.clock import Clock, Timer
    from ottla.groups.records import Record
    from ottla.replication.partition import Partition

log = logging.getLogger("ottla.coordinator")

_READ_SIZE = 1 << 20


class Core(Protocol):
    def replay(self, record: Record) -> None: ...

    def on_loaded(self, now: Now) -> Outcome: ...

    def written(self, outcome: Outcome) -> None: ...

    def append_failed(self, outcome: Outcome, error: ErrorCode, now: Now) -> Outcome: ...

    def timer_fired(self, key: TimerKey, now: Now) -> Outcome: ...

    def unload(self, now: Now) -> Outcome: ...


class Journal(Protocol):
    """Where the records of decisions go."""

    def write(self, records: Sequence[Record]) -> asyncio.Future[None] | None:
        """Write all records or raise KafkaError. Whoever answers waits for the future first, if there is one."""


CoreT = TypeVar("CoreT", bound=Core)


class PartitionJournal:
    """The partition itself, one batch per decision, so that a decision is never half written."""

    def __init__(
        self,
        partition: Partition,
        clock: Clock,
        encode: Callable[[Record], tuple[bytes, bytes | None]],
        codec: Codec,
    ) -> None:
        self._partition = partition
        self._clock = clock
        self._encode = encode
        self._codec = codec

    def write(self, records: Sequence[Record]) -> asyncio.Future[None] | None:
        now_ms = self._clock.time_ms()
        rows = [NewRecord(key=key, value=value, timestamp=now_ms) for key, value in map(self._encode, records)]
        return self._partition.append(memoryview(build_batch(rows, codec=self._codec))).wait


class Shell(Generic[CoreT]):
    def __init__(
        self,
        partition: Partition,
        core: CoreT,
        journal: Journal,
        clock: Clock,
        decode: Callable[[bytes, bytes | None], Record | None],
    ) -> None:
        self.partition = partition
        self.core = core
        self.loaded = False
        self._journal = journal
        self._clock = clock
        self._decode = decode
        self._timers: dict[TimerKey, Timer] = {}
        self._unloaded = False

    async def load(self, kept_elsewhere: Iterable[Record] = ()) -> None:
        """Replay the partition, then what is kept elsewhere. Lets others run in between, since this can be long.

        After a failure this can be called again: who replays all records in their order arrives at the same state.
        """
        offset = self.partition.log.log_start_offset
        while offset < self.partition.high_watermark and not self._unloaded:
            found = self.partition.read(offset, _READ_SIZE)
            if found.file is None:
                break
            self._replay(memoryview(found.file.read(found.size, found.position)))
            offset = found.next_offset
            await asyncio.sleep(0)
        if not self._unloaded:
            for record in kept_elsewhere:
                self.core.replay(record)
            self.loaded = True
            self.perform(self.core.on_loaded(self.now()))

    def _replay(self, data: memoryview) -> None:
        for position, header in iter_headers(data):
            if header.is_control:
                continue
            for record in read_records(data[position : position + header.size]):
                self._replay_record(record.offset, record.key, record.value)

    def _replay_record(self, offset: int, key: bytes | None, value: bytes | None) -> None:
        """Somebody may have written a record that is none of ours; it must not cost all the others."""
        try:
            decoded = None if key is None else self._decode(key, value)
        except (ValueError, struct.error) as error:
            log.error(
                "%s: the record at offset %d cannot be read and is passed over: %s", self.partition, offset, error
            )
        else:
            if decoded is not None:
                self.core.replay(decoded)

    def unload(self) -> None:
        """Another broker, or nobody, coordinates from now on."""
        self._unloaded = True
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        for reply in self.core.unload(self.now()).replies:
            _answer(reply)

    def now(self) -> Now:
        return Now(int(self._clock.monotonic() * 1000), self._clock.time_ms())

    def perform_all(self, decide: Callable[[], Outcome]) -> None:
        """Perform a decision that comes in portions, as long as each of them can be written."""
        while (outcome := decide()).records and self.perform(outcome):
            pass

    def perform(self, outcome: Outcome) -> bool:
        """Do what the core decided. Returns whether its records, if there are any, were written."""
        wait, written = None, True
        if outcome.records:
            try:
                wait = self._journal.write(outcome.records)
            except KafkaError as error:
                log.error("%s: a decision could not be written: %s", self.partition, error)
                outcome, written = self.core.append_failed(outcome, error.code, self.now()), False
            else:
                self.core.written(outcome)
        for message in outcome.messages:
            log.info(message)
        for timer in outcome.timers:
            self._set_timer(timer)
        if wait is None:
            for reply in outcome.replies:
                _answer(reply)
        else:
            replies = outcome.replies
            wait.add_done_callback(lambda done: self._answer_after(replies, done))
        return written

    def _answer_after(self, replies: Sequence[Reply], done: asyncio.Future[None]) -> None:
        error = done.exception()
        if error is not None:
            log.error("%s: a decision could not be written: %s", self.partition, error)
        for reply in replies:
            if error is not None:
                code = error.code if isinstance(error, KafkaError) else ErrorCode.UNKNOWN_SERVER_ERROR
                reply = reply.failed(code)
            _answer(reply)

    def _set_timer(self, timer: SetTimer | CancelTimer) -> None:
        key = timer.key
        running = self._timers.pop(key, None)
        if running is not None:
            running.cancel()
        if isinstance(timer, SetTimer):
            delay = max(0.0, timer.at_ms / 1000 - self._clock.monotonic())
            self._timers[key] = self._clock.call_later(delay, self._fire, key)

    def _fire(self, key: TimerKey) -> None:
        self._timers.pop(key, None)
        self.perform(self.core.timer_fired(key, self.now()))


def _answer(reply: Reply) -> None:
    future = reply.token
    assert isinstance(future, asyncio.Future)
    if not future.done():
        future.set_result(reply.result)
