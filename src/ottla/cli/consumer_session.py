"""One run of `ottla consume`: where it starts, when it stops, and how it leaves the group."""

import io
import math
import select
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, TopicPartition

from ottla.cli.admin import Admin
from ottla.cli.client import REQUEST_TIMEOUT, Client
from ottla.cli.command_error import CommandError
from ottla.cli.offset_range import ranges
from ottla.cli.output import note
from ottla.cli.position import Kind, Position
from ottla.cli.progress import Progress
from ottla.cli.record_printer import RecordPrinter
from ottla.model import TopicPartition as PartitionName

IDLE_SECONDS = 0.1
"""How long one poll waits. Ctrl-C, or the end of the process that reads our output, is noticed within this time."""

FETCH_WAIT_MS = 50
"""How long a broker may delay an empty response. At the end of a topic all responses are empty, and a request for empty
partitions delays the next request on the same connection, so Kafka's default of half a second would be noticeable."""

MEMBERSHIP = {"session.timeout.ms": 6_000, "heartbeat.interval.ms": 2_000}
"""The shortest session timeout that brokers allow. Ctrl-C waits this long for a broker that is gone, and a group waits
this long for a command that was killed. Only the classic protocol has these settings (KIP-848)."""

HINT_SECONDS = 3.0
"""After this time without a record, a person at a terminal reads a hint."""

END_OFFSETS = {Kind.EARLIEST: OFFSET_BEGINNING, Kind.LATEST: OFFSET_END}

PASSING_ERRORS = frozenset({"_TRANSPORT", "_TIMED_OUT", "_ALL_BROKERS_DOWN", "_MAX_POLL_EXCEEDED", "_RESOLVE"})
"""The client recovers from these errors by itself, so the session continues."""


@dataclass(frozen=True, slots=True)
class Start:
    """Which partitions to read, from where and up to where. A group starts at its committed offsets if it has any."""

    group: str | None
    partition: int | None
    first: Position
    last: Position | None = None

    @property
    def is_at_end(self) -> bool:
        return self.group is None and self.first.kind is Kind.LATEST

    @property
    def is_known_to_client(self) -> bool:
        """Whether librdkafka finds the first offset by itself. It then reports an offset that is out of range."""
        if self.last is not None:
            return False
        return self.first.kind in END_OFFSETS or (self.first.kind is Kind.OFFSET and self.partition is not None)


@dataclass(frozen=True, slots=True)
class Limits:
    max_messages: int | None
    idle_seconds: float | None
    exit_at_end: bool


class _StopSignals:
    """Turns the first Ctrl-C or SIGTERM into a flag, so that every record that was consumed is also printed."""

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
    def __init__(
        self,
        client: Client,
        topic: str,
        start: Start,
        limits: Limits,
        printer: RecordPrinter,
        progress: Progress,
        settings: Mapping[str, Any],
    ) -> None:
        self._client = client
        self._topic = topic
        self._start = start
        self._limits = limits
        self._printer = printer
        self._progress = progress
        self._at_end: set[int] = set()
        """Partitions that are read up to their end, or up to the offset before which to stop."""
        self._end_is_near = False
        """Set when the last partition may have reached its end. A check after every record would be slow."""
        self._stops: dict[int, int] = {}
        """By partition: the offset before which to stop."""
        self._ends = limits.exit_at_end or start.last is not None
        membership = MEMBERSHIP if start.group is not None and not client.sets("group.protocol") else {}
        self._consumer = client.consumer({**_settings(start, self._ends), **membership, **settings})

    def begin(self) -> None:
        partitions = self._partitions()
        if self._start.group is not None:
            self._consumer.subscribe([self._topic], on_assign=self._on_assign)
            return
        wanted = partitions if self._start.partition is None else [self._start.partition]
        if not set(wanted) <= set(partitions):
            raise CommandError(
                f"Topic '{self._topic}' has no partition {self._start.partition}; "
                f"it has {len(partitions)}, numbered from 0."
            )
        if self._start.is_known_to_client:
            first = self._start.first
            offset = END_OFFSETS.get(first.kind, first.value)
            self._consumer.assign([TopicPartition(self._topic, number, offset) for number in wanted])
        else:
            self._assign_ranges(wanted)

    def _assign_ranges(self, numbers: Sequence[int]) -> None:
        partitions = [PartitionName(self._topic, number) for number in numbers]
        found = ranges(Admin(self._client), partitions, self._start.first, self._start.last)
        assigned: list[TopicPartition] = []
        for partition, wanted in found.items():
            if wanted.is_empty:
                continue
            assigned.append(TopicPartition(self._topic, partition.partition, wanted.start))
            if wanted.stop is not None:
                self._stops[partition.partition] = wanted.stop
        self._end_is_near = True
        self._consumer.assign(assigned)

    def run(self) -> None:
        """Print until a limit is reached, a signal asks to stop, or the process that reads our output has ended."""
        last_message = time.monotonic()
        hint_at = last_message + HINT_SECONDS if sys.stderr.isatty() and not self._ends else math.inf
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
                    self._progress.refresh()
                    if time.monotonic() > hint_at:
                        hint_at = math.inf
                        self._progress.clear()
                        note(self._hint())
                    continue
                if message.error() is not None:
                    self._on_error(message)
                    continue
                last_message = time.monotonic()
                hint_at = math.inf
                if self._is_wanted(message):
                    self._printer.print(message)
                    self._progress.add(len(message))

    def close(self) -> None:
        """Commit the offsets of the group, if there is one, and leave it, so that other members take over at once."""
        self._consumer.close()

    def _is_wanted(self, message: Any) -> bool:
        """Whether the record lies before the offset at which its partition stops."""
        number, offset = message.partition(), message.offset()
        stop = self._stops.get(number)
        if stop is None:
            self._at_end.discard(number)
        elif offset >= stop - 1 and number not in self._at_end:
            self._at_end.add(number)
            self._end_is_near = True
            self._consumer.pause([TopicPartition(self._topic, number)])
        return stop is None or bool(offset < stop)

    def _hint(self) -> str:
        if self._start.group is not None:
            return (
                f"No record yet: group '{self._start.group}' reads on from its committed offsets; "
                f"see `ottla groups describe {self._start.group}`. Ctrl-C ends."
            )
        if self._start.is_at_end:
            return "Waiting for new records; --from-beginning reads those that are already there. Ctrl-C ends."
        return "No record yet; waiting for new ones. --exit-at-end would stop here, Ctrl-C ends."

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
        if self._ends and self._end_is_near:
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
                f"Offset {self._start.first.value} is outside of partition {self._start.partition} of '{self._topic}'; "
                f"see `ottla topics describe {self._topic}`."
            )
        elif error.name() not in PASSING_ERRORS:
            raise self._client.failure(error, self._topic)

    def _tell_of_outage(self) -> None:
        if self._client.outage:
            self._client.outage = False
            self._progress.clear()
            note(f"No broker answers at {self._client.bootstrap_server}; waiting for one to come back, Ctrl-C ends.")


def _settings(start: Start, ends: bool) -> dict[str, Any]:
    if start.is_known_to_client:
        reset = start.first.kind.value if start.first.kind in END_OFFSETS else "error"
    else:
        reset = "earliest"  # Retention may delete the first records between our look at the offsets and the fetch.
    return {
        "group.id": start.group or "ottla-consume",
        "enable.auto.commit": start.group is not None,
        "auto.offset.reset": reset,
        "enable.partition.eof": ends,
        "fetch.wait.max.ms": FETCH_WAIT_MS,
    }


def _reader_is_gone() -> bool:
    """Whether standard output is a pipe whose reader has ended, as with `| head`. The check writes nothing."""
    try:
        poll = select.poll()
        poll.register(sys.stdout.fileno(), 0)
    except io.UnsupportedOperation:
        return False
    return any(event & select.POLLERR for _, event in poll.poll(0))
