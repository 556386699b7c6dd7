"""The transactional ids of one partition of `__transaction_state`, as one object without I/O.

The caller must follow this order:

1. To load: `replay` every record of the partition, then call `on_loaded`.
2. A command returns an `Outcome`. If it has records, append them to the partition and call `written`. If the append
   fails, call `append_failed` and use the outcome that it returns instead. Call no other command in between.
3. Set the timers and log the messages. When the records are committed, send the replies and write the markers. A reply
   must also wait for earlier records that are not committed yet. If appended records may be lost, drop the object and
   load a new one from the log.
4. Report the result of each marker with `markers_written`. The core retries the markers that failed.
5. When another broker leads the partition: call `unload` and drop the object.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

from ottla.coordinator_core.command_gate import CommandGate
from ottla.coordinator_core.effects import MAX_PORTION, Now, SetTimer, Token
from ottla.errors import ErrorCode, KafkaError
from ottla.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, LeaderEpoch, Producer, TopicPartition
from ottla.txn import listing, markers, rules
from ottla.txn.commands import PROTOCOL_2, AddPartitions, EndTxn, InitProducerId
from ottla.txn.effects import Marker, Outcome, TimerKey, TimerKind, WriteMarkers
from ottla.txn.parameters import MARKER_RETRY_MS, TxnParameters
from ottla.txn.records import Record, TransactionRemoved, TransactionStored
from ottla.txn.results import (
    AddPartitionsResult,
    DescribedTransaction,
    EndTxnResult,
    InitProducerIdResult,
    ListedTransaction,
)
from ottla.txn.state import ONGOING, PREPARE_COMMIT
from ottla.txn.transaction import Transaction, created

_IDS_IN_PORTION = 10_000
"""To look at this many transactional ids takes some milliseconds."""


class TxnCore:
    def __init__(
        self, parameters: TxnParameters, coordinator_epoch: LeaderEpoch, next_producer_id: Callable[[], int | None]
    ) -> None:
        """The coordinator epoch is the leader epoch of its partition. Leaders reject markers of an older epoch.

        `next_producer_id` returns an unused producer id, or None if no id is available now.
        """
        self._parameters = parameters
        self._coordinator_epoch = coordinator_epoch
        self._next_producer_id = next_producer_id
        self.transactions: dict[str, Transaction] = {}
        """Read-only for callers."""
        self._gate: CommandGate[Outcome] = CommandGate()

    def replay(self, record: Record) -> None:
        """Apply a written record. Durable state changes only here."""
        match record:
            case TransactionStored():
                transaction = self.transactions.get(record.transactional_id)
                if transaction is None:
                    self.transactions[record.transactional_id] = Transaction(record)
                else:
                    transaction.restore(record)
            case TransactionRemoved():
                self.transactions.pop(record.transactional_id, None)

    def on_loaded(self, now: Now) -> Outcome:
        """End the load. Write the markers of prepared transactions, and set the timeouts of open ones."""
        out = self._begin()
        for transaction in self.transactions.values():
            if transaction.state is ONGOING:
                self._await_timeout(transaction.stored, now, out)
            elif transaction.state.is_preparing and transaction.unmarked:
                out.markers.append(self._write_markers(transaction.stored))
            elif transaction.state.is_preparing:
                out.set_timer(_key(TimerKind.MARKERS, transaction), now.steady_ms)
        return self._gate.end(out)

    def written(self, outcome: Outcome) -> None:
        self._gate.settle(outcome)
        for record in outcome.records:
            self.replay(record)

    def append_failed(self, outcome: Outcome, error: ErrorCode, now: Now) -> Outcome:
        """Undo a command whose records could not be appended. Returns the effects that replace those of `outcome`."""
        self._gate.settle(outcome)
        answer = Outcome()
        answer.replies = [reply.failed(error) for reply in outcome.replies]
        answer.timers = list(outcome.timers_on_failure)
        return answer

    def fail(self) -> None:
        """Reject every further command: the state in memory may differ from the log."""
        self._gate.fail()

    def unload(self, now: Now) -> Outcome:
        """Drop all state. No request ever waits in this core, so there are no replies."""
        self.transactions.clear()
        return Outcome()

    # Commands

    def init_producer_id(self, token: Token, command: InitProducerId, now: Now) -> Outcome:
        out = self._begin()
        try:
            result = self._init_producer_id(command, now, out)
        except KafkaError as error:
            result = InitProducerIdResult(error.code)
        out.reply(token, result)
        return self._gate.end(out)

    def _init_producer_id(self, command: InitProducerId, now: Now, out: Outcome) -> InitProducerIdResult:
        if not command.transactional_id:
            return InitProducerIdResult(ErrorCode.INVALID_REQUEST)
        if not 0 < command.transaction_timeout_ms <= self._parameters.transaction_max_timeout_ms:
            return InitProducerIdResult(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        transaction = self.transactions.get(command.transactional_id)
        if transaction is None:
            record = created(command, self._take_producer_id(), now.wall_ms)
        elif transaction.state.is_preparing:
            return InitProducerIdResult(ErrorCode.CONCURRENT_TRANSACTIONS)
        else:
            error = rules.check_expected(transaction, command.expected)
            if error is not ErrorCode.NONE:
                return InitProducerIdResult(error)
            if transaction.state is ONGOING:
                # The abort fences the old producer with a new epoch. The client retries, and gets the epoch after that.
                self._prepare(transaction, committed=False, protocol=PROTOCOL_2, now=now, out=out)
                return InitProducerIdResult(ErrorCode.CONCURRENT_TRANSACTIONS)
            renewed = self._renewed(transaction, command, now)
            if renewed is None:
                return InitProducerIdResult(ErrorCode.PRODUCER_FENCED)
            record = renewed
        out.records.append(record)
        return InitProducerIdResult(ErrorCode.NONE, record.producer_id, record.producer_epoch)

    def _renewed(self, transaction: Transaction, command: InitProducerId, now: Now) -> TransactionStored | None:
        """The record with the producer's new epoch, or None if the client has an old epoch.

        A client that sends its producer id and epoch may retry a request whose reply was lost. It then sends the
        previous epoch. A client that sends none takes over the transactional id, and requests of the previous producer
        cannot be retried any more.
        """
        producer = transaction.producer
        expected = None if command.expected is None else command.expected.producer_epoch
        if expected is None or expected == producer.producer_epoch:
            last_epoch = NO_PRODUCER_EPOCH if expected is None else producer.producer_epoch
            if transaction.is_epoch_exhausted:
                renewed = Producer(self._take_producer_id(), 0)
            else:
                renewed = Producer(producer.producer_id, producer.producer_epoch + 1)
            return transaction.initialised(command, renewed, last_epoch, now.wall_ms)
        if expected == transaction.stored.last_producer_epoch:
            return transaction.initialised(command, producer, expected, now.wall_ms)
        return None

    def add_partitions(self, token: Token, command: AddPartitions, now: Now) -> Outcome:
        out = self._begin()
        error = self._add_partitions(command, now, out)
        out.reply(token, AddPartitionsResult((error,) * len(command.partitions)))
        return self._gate.end(out)

    def _add_partitions(self, command: AddPartitions, now: Now, out: Outcome) -> ErrorCode:
        if not command.transactional_id:
            return ErrorCode.INVALID_REQUEST
        transaction = self.transactions.get(command.transactional_id)
        error = rules.check_adding(transaction, command.producer)
        if transaction is None or error is not ErrorCode.NONE:
            return error
        partitions = frozenset(command.partitions)
        if transaction.state is not ONGOING or not partitions <= transaction.stored.partitions:
            record = transaction.extended(partitions, command.protocol, now.wall_ms)
            out.records.append(record)
            if transaction.state is not ONGOING:
                self._await_timeout(record, now, out)
        return ErrorCode.NONE

    def verify_partitions(self, command: AddPartitions) -> tuple[ErrorCode, ...]:
        """Check whether each partition is in the transaction (KIP-890). Changes nothing."""
        if not command.transactional_id:
            return (ErrorCode.INVALID_REQUEST,) * len(command.partitions)
        transaction = self.transactions.get(command.transactional_id)
        error = rules.check_verifying(transaction, command.producer)
        if transaction is None or error is not ErrorCode.NONE:
            return (error,) * len(command.partitions)
        added = transaction.stored.partitions
        return tuple(
            ErrorCode.NONE if partition in added else ErrorCode.TRANSACTION_ABORTABLE
            for partition in command.partitions
        )

    def end_txn(self, token: Token, command: EndTxn, now: Now) -> Outcome:
        out = self._begin()
        try:
            result = self._end_txn(command, now, out)
        except KafkaError as error:
            result = EndTxnResult(error.code)
        out.reply(token, result)
        return self._gate.end(out)

    def _end_txn(self, command: EndTxn, now: Now, out: Outcome) -> EndTxnResult:
        if not command.transactional_id:
            return EndTxnResult(ErrorCode.INVALID_REQUEST)
        transaction = self.transactions.get(command.transactional_id)
        verdict = rules.judge_end(transaction, command)
        if transaction is None or isinstance(verdict, ErrorCode):
            assert isinstance(verdict, ErrorCode)
            return EndTxnResult(verdict)
        producer = transaction.producer
        if verdict is rules.EndVerdict.PREPARE:
            producer = self._prepare(transaction, command.committed, command.protocol, now, out)
        return EndTxnResult(ErrorCode.NONE, *producer)

    # Ending a transaction

    def _prepare(self, transaction: Transaction, committed: bool, protocol: int, now: Now, out: Outcome) -> Producer:
        """Move to a prepare state and write the markers. Returns the id and epoch for the client's next transaction."""
        rotates = protocol >= PROTOCOL_2 and transaction.is_epoch_exhausted
        next_producer_id = self._take_producer_id() if rotates else NO_PRODUCER_ID
        record = transaction.prepared(committed, protocol, next_producer_id, now.wall_ms)
        completed = Transaction(record).completed(now.wall_ms)
        out.records.append(record)
        if record.partitions:
            out.markers.append(self._write_markers(record))
        else:
            out.records.append(completed)
        if transaction.state is ONGOING:
            out.cancel_timer(_key(TimerKind.TIMEOUT, transaction))
        return Producer(completed.producer_id, completed.producer_epoch)

    def _take_producer_id(self) -> int:
        """Raises KafkaError if no id is available now. The client retries, as in Kafka."""
        producer_id = self._next_producer_id()
        if producer_id is None:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return producer_id

    def _marker(self, record: TransactionStored) -> Marker:
        return Marker(
            transactional_id=record.transactional_id,
            producer_id=record.producer_id,
            producer_epoch=record.producer_epoch,
            coordinator_epoch=self._coordinator_epoch,
            committed=record.state is PREPARE_COMMIT,
            protocol=record.protocol,
        )

    def _write_markers(self, record: TransactionStored) -> WriteMarkers:
        return WriteMarkers(self._marker(record), tuple(sorted(record.partitions)))

    def markers_written(self, marker: Marker, errors: Mapping[TopicPartition, ErrorCode], now: Now) -> Outcome:
        """Process the results of writing a marker to some of its partitions. Late and repeated results change nothing.

        The caller reports a deleted partition as written.
        """
        out = self._begin()
        transaction = self.transactions.get(marker.transactional_id)
        if transaction is None or not transaction.state.is_preparing or self._marker(transaction.stored) != marker:
            return self._gate.end(out)
        retry_scheduled = bool(transaction.to_retry)
        for partition, error in errors.items():
            verdict = markers.judge(error)
            if verdict is markers.Verdict.WRITTEN:
                transaction.unmarked.discard(partition)
                transaction.to_retry.discard(partition)
            elif verdict is markers.Verdict.RETRY and partition in transaction.unmarked:
                transaction.to_retry.add(partition)
            elif verdict is markers.Verdict.FENCED:
                out.messages.append(_rejection(marker, partition, error))
        if not transaction.unmarked:
            self._complete(transaction, now, out)
        elif transaction.to_retry and not retry_scheduled:
            out.set_timer(_key(TimerKind.MARKERS, transaction), now.steady_ms + MARKER_RETRY_MS)
        return self._gate.end(out)

    def _complete(self, transaction: Transaction, now: Now, out: Outcome) -> None:
        key = _key(TimerKind.MARKERS, transaction)
        out.records.append(transaction.completed(now.wall_ms))
        out.cancel_timer(key)
        out.timers_on_failure.append(SetTimer(key, now.steady_ms + MARKER_RETRY_MS))

    # Timers

    def timer_fired(self, key: TimerKey, now: Now) -> Outcome:
        out = self._begin()
        transaction = self.transactions.get(key.transactional_id)
        if transaction is None:
            return self._gate.end(out)
        if key.kind is TimerKind.TIMEOUT and transaction.state is ONGOING:
            self._time_out(transaction, now, out)
        elif key.kind is TimerKind.MARKERS and transaction.state.is_preparing:
            if not transaction.unmarked:
                self._complete(transaction, now, out)
            elif transaction.to_retry:
                retry = WriteMarkers(self._marker(transaction.stored), tuple(sorted(transaction.to_retry)))
                transaction.to_retry.clear()
                out.markers.append(retry)
        return self._gate.end(out)

    def _await_timeout(self, record: TransactionStored, now: Now, out: Outcome) -> None:
        """Set the timeout timer. It waits at most the whole timeout: the clocks of coordinators may differ."""
        left_ms = min(Transaction(record).times_out_at_ms - now.wall_ms, record.transaction_timeout_ms) + 1
        out.set_timer(TimerKey(TimerKind.TIMEOUT, record.transactional_id), now.steady_ms + max(0, left_ms))

    def _time_out(self, transaction: Transaction, now: Now, out: Outcome) -> None:
        retry = SetTimer(_key(TimerKind.TIMEOUT, transaction), now.steady_ms + MARKER_RETRY_MS)
        out.timers_on_failure.append(retry)
        try:
            self._prepare(transaction, committed=False, protocol=PROTOCOL_2, now=now, out=out)
        except KafkaError:
            out.timers.append(retry)
            return
        stored = transaction.stored
        timeout_ms = stored.transaction_timeout_ms
        out.messages.append(f"{stored.transactional_id!r}: aborting its transaction after a timeout of {timeout_ms} ms")

    def portions(self) -> Iterator[list[str]]:
        """All transactional ids, some at a time. The caller may run commands while it iterates."""
        ids = list(self.transactions)
        return (ids[start : start + _IDS_IN_PORTION] for start in range(0, len(ids), _IDS_IN_PORTION))

    def expire(self, now: Now, transactional_ids: Iterable[str], max_records: int = MAX_PORTION) -> Outcome:
        """Called periodically. Removes ids that were not used for transactional.id.expiration.ms.

        Each call returns at most `max_records` records. Call again until the outcome has no records.
        """
        out = self._begin()
        oldest_ms = now.wall_ms - self._parameters.transactional_id_expiration_ms
        for transactional_id in transactional_ids:
            if len(out.records) >= max_records:
                break
            transaction = self.transactions.get(transactional_id)
            if transaction is None:
                continue
            if transaction.state.is_at_rest and transaction.stored.last_update_timestamp_ms <= oldest_ms:
                out.records.append(TransactionRemoved(transactional_id))
        return self._gate.end(out)

    # Queries

    def describe(self, transactional_id: str) -> DescribedTransaction:
        return listing.describe(transactional_id, self.transactions.get(transactional_id))

    def list_transactions(self, wanted: listing.TransactionFilter, now: Now) -> Iterator[ListedTransaction | None]:
        """One item for each transaction, None if the filter does not accept it. So the caller can yield to the event
        loop between any two transactions, and may run commands while it iterates."""
        for transaction in tuple(self.transactions.values()):
            yield listing.listed(transaction) if wanted.accepts(transaction, now.wall_ms) else None

    def _begin(self) -> Outcome:
        self._gate.begin()
        return Outcome()


def _key(kind: TimerKind, transaction: Transaction) -> TimerKey:
    return TimerKey(kind, transaction.stored.transactional_id)


def _rejection(marker: Marker, partition: TopicPartition, error: ErrorCode) -> str:
    word = "commit" if marker.committed else "abort"
    return f"{marker.transactional_id!r}: the {word} marker for {partition} was rejected: {error.name}"
