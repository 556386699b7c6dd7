"""One run of `ottla consume`: where it starts, when it stops, and a clean goodbye to the group."""

import io
import select
import signal
import sys
import time
from dataclasses import dataclass
from types import FrameType
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, TopicPartition

from ottla.cli.client import REQUEST_TIMEOUT, Client
from ottla.cli.command_error import CommandError
from ottla.cli.output import note
from ottla.cli.record_printer import RecordPrinter

IDLE_SECONDS = 0.1
"""How long one poll waits: the longest a Ctrl-C or a reader that went away can go unnoticed."""

FETCH_WAIT_MS = 50
"""A broker may hold back an empty answer for so long. The end of a topic is such an answer, and one request for empty
partitions keeps the first request for full ones waiting, so Kafka's half second would be felt."""

MEMBERSHIP = {"session.timeout.ms": 6_000, "heartbeat.interval.ms": 2_000}
"""The shortest session brokers allow: it is how long Ctrl-C waits for a broker that is gone, and how long a group waits
for a command that was killed. Only the classic protocol has these (KIP-848)."""

NAMED_OFFSETS = {"earliest": OFFSET_BEGINNING, "latest": OFFSET_END}

PASSING_ERRORS = frozenset({"_TRANSPORT", "_TIMED_OUT", "_ALL_BROKERS_DOWN", "_MAX_POLL_EXCEEDED", "_RESOLVE"})
"""The client recovers from these by itself, so consuming goes on."""


@dataclass(frozen=True, slots=True)
class Start:
    """Which partitions to read and from where. A group ignores both once it has committed offsets."""

    group: str | None
    partition: int | None
    offset: str
    """`earliest`, `latest` or a number."""


@dataclass(frozen=True, slots=True)
class Limits:
    max_messages: int | None
    idle_seconds: float | None
    exit_at_end: bool


class _StopSignals:
    """Turns the first Ctrl-C or SIGTERM into a request, so that a record is never taken without being printed."""

    def __init__(self) -> None:
        self.requested = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "_StopSignals":
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._request)
        return self

    def __exit__(self, *_error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _request(self, _number: int, _frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True


class ConsumerSession:
    def __init__(self, client: Client, topic: str, start: Start, limits: Limits, printer: RecordPrinter) -> None:
        self._client = client
        self._topic = topic
        self._start = start
        self._limits = limits
        self._printer = printer
        self._at_end: set[int] = set()
        self._end_is_near = False
        """Something happened that may mean that all partitions are read; asking after every record would be slow."""
        settings = _settings(start, limits)
        if start.group is not None and not client.sets("group.protocol"):
            settings |= MEMBERSHIP
        self._consumer = client.consumer(settings)

    def begin(self) -> None:
        partitions = self._partitions()
        if self._start.group is not None:
            self._consumer.subscribe([self._topic], on_assign=self._on_assign)
            return
        wanted = partitions if self._start.partition is None else [self._start.partition]
        if not set(wanted) <= set(partitions):
            raise CommandError(
                f"Topic '{self._topic}' has no partition {self._start.partition}; it has {len(partitions)}, from 0 on."
            )
        named = NAMED_OFFSETS.get(self._start.offset)
        offset = int(self._start.offset) if named is None else named
        self._consumer.assign([TopicPartition(self._topic, number, offset) for number in wanted])

    def run(self) -> None:
        """Print until a limit is reached, a signal asks to stop, or nobody reads any more."""
        last_message = time.monotonic()
        with _StopSignals() as stop:
            while not stop.requested and not self._finished(time.monotonic() - last_message):
                message = self._consumer.poll(0)
                if message is None:
                    sys.stdout.flush()
                    if _reader_is_gone():
                        return
                    message = self._consumer.poll(IDLE_SECONDS)
                self._tell_of_outage()
                if message is None:
                    continue
                if message.error() is not None:
                    self._on_error(message)
                    continue
                self._printer.print(message)
                self._at_end.discard(message.partition())
                last_message = time.monotonic()

    def close(self) -> None:
        """Commit what was read, if there is a group, and leave it, so that its other members take over at once."""
        self._consumer.close()

    def _partitions(self) -> list[int]:
        metadata = self._client.ask(
            lambda: self._consumer.list_topics(self._topic, timeout=REQUEST_TIMEOUT / 2), self._topic
        )
        topic = metadata.topics[self._topic]
        if topic.error is not None:
            raise self._client.failure(topic.error, self._topic)
        return sorted(topic.partitions)

    def _on_assign(self, _consumer: Any, _partitions: Any) -> None:
        self._end_is_near = True

    def _finished(self, idle: float) -> bool:
        limits = self._limits
        if limits.max_messages is not None and self._printer.count >= limits.max_messages:
            return True
        if limits.idle_seconds is not None and idle > limits.idle_seconds:
            return True
        if limits.exit_at_end and self._end_is_near:
            self._end_is_near = False
            return {entry.partition for entry in self._consumer.assignment()} <= self._at_end
        return False

    def _on_error(self, message: Any) -> None:
        error = message.error()
        if error.name() == "_PARTITION_EOF":
            self._at_end.add(message.partition())
            self._end_is_near = True
        elif error.name() == "_AUTO_OFFSET_RESET":
            raise CommandError(
                f"Offset {self._start.offset} is outside of partition {self._start.partition} of '{self._topic}'; "
                f"see `ottla topics describe {self._topic}`."
            )
        elif error.name() not in PASSING_ERRORS:
            raise self._client.failure(error, self._topic)

    def _tell_of_outage(self) -> None:
        if self._client.outage:
            self._client.outage = False
            note(f"No broker answers at {self._client.bootstrap_server} any more; waiting for one, Ctrl-C ends.")


def _settings(start: Start, limits: Limits) -> dict[str, Any]:
    named = start.offset in NAMED_OFFSETS
    return {
        "group.id": start.group or "ottla-consume",
        "enable.auto.commit": start.group is not None,
        "auto.offset.reset": start.offset if named else "error",
        "enable.partition.eof": limits.exit_at_end,
        "fetch.wait.max.ms": FETCH_WAIT_MS,
    }


def _reader_is_gone() -> bool:
    """Whether standard output is a pipe whose reader has ended, as with `| head`; nothing is written to find out."""
    try:
        poll = select.poll()
        poll.register(sys.stdout.fileno(), 0)
    except io.UnsupportedOperation:
        return False
    return any(event & select.POLLERR for _, event in poll.poll(0))
