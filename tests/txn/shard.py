"""The smallest caller a `TxnCore` can have: lists for logs, a dictionary for timers, a number for a clock."""

from collections.abc import Callable, Iterable
from itertools import count

from ottla.coordinator_core.effects import Now, Reply, SetTimer
from ottla.errors import ErrorCode
from ottla.model import LeaderEpoch, Producer, TopicPartition
from ottla.txn import records
from ottla.txn.commands import PROTOCOL_1, AddPartitions, EndTxn, InitProducerId
from ottla.txn.core import TxnCore
from ottla.txn.effects import Marker, Outcome, TimerKey
from ottla.txn.parameters import TxnParameters
from ottla.txn.records import Record, TransactionStored
from ottla.txn.results import Result

WALL_START_MS = 1_700_000_000_000
_MOST_ATTEMPTS = 1000


class Shard:
    """Appends by encoding, so that every record that is loaded has been through the format and back.

    Markers wait in `pending` until somebody says what has become of them.
    """

    def __init__(self, parameters: TxnParameters | None = None) -> None:
        self.parameters = parameters or TxnParameters()
        self.log: list[tuple[bytes, bytes | None]] = []
        self.steady_ms = 0
        self.wall_start_ms = WALL_START_MS
        self.timers: dict[TimerKey, int] = {}
        self.replies: dict[object, Result] = {}
        self.pending: list[tuple[Marker, TopicPartition]] = []
        self.messages: list[str] = []
        self.next_append_error: ErrorCode | None = None
        self.dies_after_next_append = False
        self.has_producer_ids = True
        self.coordinator_epoch = 0
        self.trace: Callable[[Outcome], None] = lambda _: None
        self._tokens = count(1)
        self._producer_ids = count(1000)
        self.core = self._new_core()

    def _new_core(self) -> TxnCore:
        return TxnCore(self.parameters, LeaderEpoch(self.coordinator_epoch), self._next_producer_id)

    def _next_producer_id(self) -> int | None:
        return next(self._producer_ids) if self.has_producer_ids else None

    @property
    def now(self) -> Now:
        return Now(self.steady_ms, self.wall_start_ms + self.steady_ms)

    def perform(self, outcome: Outcome) -> Outcome:
        if outcome.records:
            if self.next_append_error is not None:
                error, self.next_append_error = self.next_append_error, None
                outcome = self.core.append_failed(outcome, error, self.now)
                assert not outcome.records
                assert not outcome.markers
            else:
                self.log += [records.encode(record) for record in outcome.records]
                if self.dies_after_next_append:
                    self.dies_after_next_append = False
                    self.trace(outcome)
                    self.crash()
                    return outcome
                self.core.written(outcome)
        for change in outcome.timers:
            if isinstance(change, SetTimer):
                self.timers[change.key] = change.at_ms
            else:
                self.timers.pop(change.key, None)
        for reply in outcome.replies:
            self._answer(reply)
        for write in outcome.markers:
            self.pending += [(write.marker, partition) for partition in write.partitions]
        self.messages += outcome.messages
        self.trace(outcome)
        return outcome

    def _answer(self, reply: Reply[Result]) -> None:
        assert reply.token not in self.replies, f"request {reply.token} is answered twice"
        self.replies[reply.token] = reply.result

    def report(self, marker: Marker, errors: dict[TopicPartition, ErrorCode]) -> None:
        self.pending = [it for it in self.pending if it[0] != marker or it[1] not in errors]
        self.perform(self.core.markers_written(marker, errors, self.now))

    def write_markers(self) -> None:
        """Every leader does what it is asked."""
        while self.pending:
            marker, partition = self.pending[0]
            self.report(marker, {partition: ErrorCode.NONE})

    def fire_next(self) -> TimerKey:
        """Goes to the time of the next timer and fires it."""
        key = min(self.timers, key=lambda key: self.timers[key])
        self.steady_ms = max(self.steady_ms, self.timers.pop(key))
        self.perform(self.core.timer_fired(key, self.now))
        return key

    def wait(self, duration_ms: int) -> None:
        """What fails is tried again and again, perhaps for days; some of these attempts stand for all."""
        until = self.steady_ms + duration_ms
        for _ in range(_MOST_ATTEMPTS):
            if not self.timers or min(self.timers.values()) > until:
                break
            self.fire_next()
        self.steady_ms = until

    def crash(self) -> None:
        """The broker is gone with all that was not written; another one, with the next epoch, reads the log."""
        self.timers.clear()
        self.pending.clear()
        self.coordinator_epoch += 1
        self.core = self._new_core()
        for record in self.stored():
            self.core.replay(record)
        self.perform(self.core.on_loaded(self.now))

    def stored(self) -> list[Record]:
        decoded = [records.decode(key, value) for key, value in self.log]
        assert None not in decoded
        return [record for record in decoded if record is not None]

    def store(self, record: TransactionStored) -> None:
        """As if an earlier coordinator had left it."""
        self.log.append(records.encode(record))
        self.crash()

    def init(self, transactional_id: str, timeout_ms: int = 60_000, expected: Producer | None = None) -> int:
        token = next(self._tokens)
        command = InitProducerId(transactional_id, timeout_ms, expected)
        self.perform(self.core.init_producer_id(token, command, self.now))
        return token

    def add(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: Iterable[TopicPartition],
        protocol: int = PROTOCOL_1,
    ) -> int:
        token = next(self._tokens)
        command = AddPartitions(transactional_id, producer, tuple(partitions), protocol)
        self.perform(self.core.add_partitions(token, command, self.now))
        return token

    def verify(
        self, transactional_id: str, producer: Producer, partitions: Iterable[TopicPartition]
    ) -> tuple[ErrorCode, ...]:
        return self.core.verify_partitions(AddPartitions(transactional_id, producer, tuple(partitions)))

    def end(self, transactional_id: str, producer: Producer, committed: bool, protocol: int = PROTOCOL_1) -> int:
        token = next(self._tokens)
        self.perform(self.core.end_txn(token, EndTxn(transactional_id, producer, committed, protocol), self.now))
        return token
