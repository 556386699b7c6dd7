"""Golden traces: a script of commands, each followed by the effects it must have.

A line that begins with `>` is a command: a verb, names, and `key=value` options; what stands between it and the next
one is what the core did. `python -m tests.txn.script` writes the present effects into every trace, to be read before
they are believed.
"""

from collections.abc import Callable
from pathlib import Path

from ottla.coordinator_core.effects import CancelTimer, SetTimer
from ottla.errors import ErrorCode, KafkaError
from ottla.model import Producer, TopicPartition
from ottla.txn.commands import PROTOCOL_1, PROTOCOL_2
from ottla.txn.effects import Marker, Outcome, TimerKey, WriteMarkers
from ottla.txn.listing import TransactionFilter
from ottla.txn.parameters import TxnParameters
from ottla.txn.records import Record, TransactionRemoved, TransactionStored
from ottla.txn.results import AddPartitionsResult, Result
from ottla.txn.state import TransactionState
from tests.txn.shard import WALL_START_MS, Shard
from tests.txn.situations import parse_partitions

TRACES = Path(__file__).with_name("traces")

ID = "a"


def run(script: str) -> str:
    """The script with the effects that its commands have today."""
    player = Player()
    lines: list[str] = []
    for line in script.splitlines():
        if line.startswith(">"):
            lines += [line, *player.play(line[1:])]
        elif not line.startswith("  "):
            lines.append(line)
    return "\n".join(lines) + "\n"


class Player:
    def __init__(self) -> None:
        self.shard = Shard()
        self.shard.trace = self._trace
        self.lines: list[str] = []

    def play(self, command: str) -> list[str]:
        self.lines = []
        words = command.split()
        names = [word for word in words[1:] if "=" not in word]
        options = dict(word.split("=", 1) for word in words[1:] if "=" in word)
        verbs: dict[str, Callable[[list[str], dict[str, str]], None]] = {
            "set": self._set,
            "stored": self._stored,
            "init": self._init,
            "add": self._add,
            "verify": self._verify,
            "commit": lambda names, options: self._end(names, options, committed=True),
            "abort": lambda names, options: self._end(names, options, committed=False),
            "marker": self._marker,
            "wait": lambda names, _: self.shard.wait(milliseconds(names[0])),
            "expire": lambda _, __: self._perform(
                self.shard.core.expire(self.shard.now, list(self.shard.core.transactions))
            ),
            "crash": lambda _, __: self.shard.crash(),
            "unload": lambda _, __: self._perform(self.shard.core.unload(self.shard.now)),
            "fail-next-append": self._fail_next_append,
            "producer-ids": self._have_producer_ids,
            "describe": self._describe,
            "list": self._list,
        }
        verbs[words[0]](names, options)
        return ["  " + line for line in self.lines]

    def _perform(self, outcome: Outcome) -> None:
        self.shard.perform(outcome)

    def _set(self, _: list[str], options: dict[str, str]) -> None:
        self.shard.parameters = TxnParameters(**{key: milliseconds(value) for key, value in options.items()})
        self.shard.crash()

    def _stored(self, names: list[str], options: dict[str, str]) -> None:
        """A record that is already in the log, which is then loaded."""
        producer = parse_producer(options["as"])
        record = TransactionStored(
            transactional_id=options.get("id", ID),
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            state=TransactionState(options["state"]),
            transaction_timeout_ms=60_000,
            last_update_timestamp_ms=self.shard.now.wall_ms,
            start_timestamp_ms=self.shard.now.wall_ms,
            partitions=frozenset(parse_partitions(names)),
            previous_producer_id=producer.producer_id,
            protocol=parse_protocol(options),
        )
        self.shard.store(record)

    def _init(self, _: list[str], options: dict[str, str]) -> None:
        expected = parse_producer(options["as"]) if "as" in options else None
        self.shard.init(options.get("id", ID), milliseconds(options.get("timeout", "60s")), expected)

    def _add(self, names: list[str], options: dict[str, str]) -> None:
        partitions = parse_partitions(names[1:])
        self.shard.add(options.get("id", ID), parse_producer(names[0]), partitions, parse_protocol(options))

    def _verify(self, names: list[str], options: dict[str, str]) -> None:
        errors = self.shard.verify(options.get("id", ID), parse_producer(names[0]), parse_partitions(names[1:]))
        self.lines.append(" ".join(error.name for error in errors))

    def _end(self, names: list[str], options: dict[str, str], *, committed: bool) -> None:
        self.shard.end(options.get("id", ID), parse_producer(names[0]), committed, parse_protocol(options))

    def _marker(self, names: list[str], _: dict[str, str]) -> None:
        """What the leaders say to the marker that was asked for last: `t-0:NONE`, or just `t-0` when it is written."""
        answers = [name.rsplit(":", 1) if ":" in name else [name, "NONE"] for name in names]
        errors = {parse_partitions([name])[0]: ErrorCode[error] for name, error in answers}
        self.shard.report(self._last_marker, errors)

    def _fail_next_append(self, names: list[str], _: dict[str, str]) -> None:
        self.shard.next_append_error = ErrorCode[names[0]]

    def _have_producer_ids(self, names: list[str], _: dict[str, str]) -> None:
        self.shard.has_producer_ids = names == ["on"]

    def _describe(self, _: list[str], options: dict[str, str]) -> None:
        found = self.shard.core.describe(options.get("id", ID))
        if found.error is not ErrorCode.NONE:
            self.lines.append(found.error.name)
            return
        began = (
            "-" if found.transaction_start_time_ms == -1 else seconds(found.transaction_start_time_ms - WALL_START_MS)
        )
        timeout = seconds(found.transaction_timeout_ms)
        producer = f"{found.producer_id}:{found.producer_epoch}"
        self.lines.append(
            f"{found.state} {producer} timeout {timeout} began {began} {show_partitions(found.partitions)}"
        )

    def _list(self, _: list[str], options: dict[str, str]) -> None:
        try:
            wanted = TransactionFilter(
                states=[state for state in options.get("states", "").split(",") if state],
                producer_ids=[int(number) for number in options.get("producers", "").split(",") if number],
                duration_ms=milliseconds(options["longer"]) if "longer" in options else -1,
                pattern=options.get("pattern"),
            )
        except KafkaError as error:
            self.lines.append(error.code.name)
            return
        self.lines += [f"unknown state {state}" for state in wanted.unknown_states]
        for it in self.shard.core.list_transactions(wanted, self.shard.now):
            if it is not None:
                self.lines.append(f"{it.transactional_id} {it.producer_id} {it.state}")

    def _trace(self, outcome: Outcome) -> None:
        self.lines += [f"write {show_record(record)}" for record in outcome.records]
        self.lines += [f"reply {reply.token}: {show_result(reply.result)}" for reply in outcome.replies]
        self.lines += [self._show_timer(timer) for timer in outcome.timers]
        for write in outcome.markers:
            self._last_marker: Marker = write.marker
            self.lines.append(show_markers(write))
        self.lines += [f"say {message}" for message in outcome.messages]

    def _show_timer(self, timer: SetTimer[TimerKey] | CancelTimer[TimerKey]) -> str:
        name = f"timer {timer.key.kind.value} {timer.key.transactional_id}"
        return (
            f"{name} in {seconds(timer.at_ms - self.shard.steady_ms)}" if isinstance(timer, SetTimer) else f"{name} off"
        )


def show_record(record: Record) -> str:
    if isinstance(record, TransactionRemoved):
        return f"{record.transactional_id} removed"
    words = [record.transactional_id, f"{record.producer_id}:{record.producer_epoch}", record.state.value]
    if record.partitions:
        words.append(show_partitions(tuple(record.partitions)))
    if record.previous_producer_id != record.producer_id:
        words.append(f"was {record.previous_producer_id}")
    if record.next_producer_id != -1:
        words.append(f"next {record.next_producer_id}")
    return " ".join([*words, f"last-epoch {record.last_producer_epoch}", f"protocol {max(1, record.protocol)}"])


def show_partitions(partitions: tuple[TopicPartition, ...]) -> str:
    return f"[{', '.join(sorted(map(str, partitions)))}]"


def show_result(result: Result) -> str:
    if isinstance(result, AddPartitionsResult):
        return " ".join(error.name for error in result.errors)
    return f"{result.error.name} {result.producer_id}:{result.producer_epoch}".removesuffix(" -1:-1")


def show_markers(write: WriteMarkers) -> str:
    marker = write.marker
    word = "commit" if marker.committed else "abort"
    who = f"{marker.producer_id}:{marker.producer_epoch}"
    where = show_partitions(write.partitions)
    return f"mark {word} {who} {where} coordinator {marker.coordinator_epoch} protocol {max(1, marker.protocol)}"


def parse_producer(text: str) -> Producer:
    producer_id, epoch = text.split(":")
    return Producer(int(producer_id), int(epoch))


def parse_protocol(options: dict[str, str]) -> int:
    return {"1": PROTOCOL_1, "2": PROTOCOL_2}[options.get("protocol", "2")]


def milliseconds(text: str) -> int:
    for unit, factor in (("ms", 1), ("s", 1_000), ("d", 86_400_000)):
        if text.endswith(unit):
            return round(float(text.removesuffix(unit)) * factor)
    raise ValueError(text)


def seconds(duration_ms: int) -> str:
    return f"{duration_ms / 1000:g}s"


if __name__ == "__main__":
    for trace in sorted(TRACES.glob("*.txt")):
        trace.write_text(run(trace.read_text()))
