"""Any order of requests, crashes, failed appends, timeouts and answers of leaders leaves no transaction half done."""

from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ottla.errors import ErrorCode
from ottla.model import FIRST_LEADER_EPOCH, Producer, TopicPartition
from ottla.txn.commands import PROTOCOL_1, PROTOCOL_2
from ottla.txn.core import TxnCore
from ottla.txn.effects import Marker, Outcome, TimerKey, TimerKind
from ottla.txn.parameters import TxnParameters
from ottla.txn.records import TransactionStored
from ottla.txn.results import EndTxnResult, InitProducerIdResult
from ottla.txn.state import COMPLETE_COMMIT, ONGOING
from tests.txn.shard import WALL_START_MS, Shard

DAY_MS = 86_400_000
OLD = "old"
"""An id that has nearly used up the epochs of its producer id."""
IDS = ["new", OLD]
PARTITIONS = [TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)]

ids = st.sampled_from(IDS)
partitions = st.sampled_from(PARTITIONS)
protocols = st.sampled_from([PROTOCOL_1, PROTOCOL_2, PROTOCOL_2])
ages = st.sampled_from([0, 0, 0, 0, 1, 2])
"""How many producers of the id have come since: 0 is the newest, the others are fenced and do not know it."""
picks = st.integers(0, 50)


class Begun(NamedTuple):
    """A transaction, counted by the test: the same producer id and epoch may have many of them."""

    transactional_id: str
    number: int


class Open(NamedTuple):
    transaction: Begun
    producer_epoch: int


class Leader:
    """What a partition's leader makes of records and markers, per producer id."""

    def __init__(self) -> None:
        self.open: dict[int, Open] = {}
        self.epochs: dict[int, int] = {}
        self.coordinator_epochs: dict[int, int] = {}
        self.ends: list[tuple[Begun, bool]] = []

    def append(self, producer: Producer, transaction: Begun) -> None:
        producer_id, epoch = producer
        if epoch < self.epochs.get(producer_id, 0):
            return
        self.epochs[producer_id] = epoch
        earlier = self.open.setdefault(producer_id, Open(transaction, epoch))
        assert earlier.transaction == transaction, "a record joins a transaction that should have ended"

    def mark(self, marker: Marker) -> ErrorCode:
        if marker.coordinator_epoch < self.coordinator_epochs.get(marker.producer_id, 0):
            return ErrorCode.TRANSACTION_COORDINATOR_FENCED
        if marker.producer_epoch < self.epochs.get(marker.producer_id, 0):
            return ErrorCode.INVALID_PRODUCER_EPOCH
        self.coordinator_epochs[marker.producer_id] = marker.coordinator_epoch
        self.epochs[marker.producer_id] = marker.producer_epoch
        ended = self.open.pop(marker.producer_id, None)
        if ended is not None:
            assert marker.protocol < PROTOCOL_2 or marker.producer_epoch > ended.producer_epoch
            self.ends.append((ended.transaction, marker.committed))
        return ErrorCode.NONE


class Interleavings(RuleBasedStateMachine):
    @initialize()
    def start(self) -> None:
        self.shard = Shard(TxnParameters(transactional_id_expiration_ms=DAY_MS))
        self.leaders = {partition: Leader() for partition in PARTITIONS}
        self.producers: dict[str, list[Producer]] = {transactional_id: [] for transactional_id in IDS}
        self.numbers = dict.fromkeys(IDS, 0)
        self.states = dict.fromkeys(IDS, COMPLETE_COMMIT)
        self.decided: dict[Begun, bool] = {}
        self.acknowledged: dict[Begun, bool] = {}
        self.late: list[tuple[Marker, TopicPartition]] = []
        self.shard.trace = self.watch
        used_up = TransactionStored(OLD, 500, 32_764, COMPLETE_COMMIT, 60_000, WALL_START_MS, WALL_START_MS)
        self.shard.store(used_up._replace(previous_producer_id=500))
        self.producers[OLD].append(Producer(500, 32_764))

    def watch(self, outcome: Outcome) -> None:
        """Counts transactions and keeps how they are decided, from what is written."""
        for record in outcome.records:
            if not isinstance(record, TransactionStored):
                continue
            transactional_id, before = record.transactional_id, self.states[record.transactional_id]
            self.states[transactional_id] = record.state
            if before is not ONGOING and (record.state is ONGOING or record.state.is_preparing):
                self.numbers[transactional_id] += 1
            if record.state.is_preparing:
                committed = record.state.value == "PrepareCommit"
                assert self.decided.setdefault(self.current(transactional_id), committed) == committed

    def current(self, transactional_id: str) -> Begun:
        return Begun(transactional_id, self.numbers[transactional_id])

    def producer(self, transactional_id: str, age: int) -> Producer:
        known = self.producers[transactional_id]
        return known[-1 - age] if len(known) > age else Producer(7, 0)

    @rule(transactional_id=ids, age=ages, goes_on=st.booleans(), timeout_ms=st.sampled_from([1_000, 60_000]))
    def init(self, transactional_id: str, age: int, goes_on: bool, timeout_ms: int) -> None:
        expected = self.producer(transactional_id, age) if goes_on else None
        result = self.shard.replies.get(self.shard.init(transactional_id, timeout_ms, expected))
        if isinstance(result, InitProducerIdResult) and result.error is ErrorCode.NONE:
            self.producers[transactional_id].append(Producer(result.producer_id, result.producer_epoch))

    @rule(transactional_id=ids, age=ages, where=st.sets(partitions), protocol=protocols)
    def add(self, transactional_id: str, age: int, where: set[TopicPartition], protocol: int) -> None:
        self.shard.add(transactional_id, self.producer(transactional_id, age), sorted(where), protocol)

    @rule(transactional_id=ids, age=ages, where=partitions)
    def produce(self, transactional_id: str, age: int, where: TopicPartition) -> None:
        producer = self.producer(transactional_id, age)
        if self.shard.verify(transactional_id, producer, [where]) == (ErrorCode.NONE,):
            assert self.shard.core.transactions[transactional_id].state is ONGOING
            self.leaders[where].append(producer, self.current(transactional_id))

    @rule(transactional_id=ids, protocol=protocols, writes=st.sets(partitions, min_size=1))
    def write(self, transactional_id: str, protocol: int, writes: set[TopicPartition]) -> None:
        """What a well-behaved client does between the beginning and the end of a transaction."""
        self.add(transactional_id, 0, writes, protocol)
        for partition in sorted(writes):
            self.produce(transactional_id, 0, partition)

    @rule(transactional_id=ids, age=ages, committed=st.booleans(), protocol=protocols)
    def end(self, transactional_id: str, age: int, committed: bool, protocol: int) -> None:
        token = self.shard.end(transactional_id, self.producer(transactional_id, age), committed, protocol)
        result = self.shard.replies.get(token)
        if isinstance(result, EndTxnResult) and result.error is ErrorCode.NONE:
            transaction = self.current(transactional_id)
            if transaction in self.decided:
                assert self.decided[transaction] == committed
                self.acknowledged[transaction] = committed
            if protocol == PROTOCOL_2:
                self.producers[transactional_id].append(Producer(result.producer_id, result.producer_epoch))

    @rule(transactional_id=ids, protocol=protocols, writes=st.sets(partitions, min_size=1), committed=st.booleans())
    def transact(self, transactional_id: str, protocol: int, writes: set[TopicPartition], committed: bool) -> None:
        """A whole transaction, as far as it goes; its client does not wait for the markers."""
        if not self.producers[transactional_id]:
            self.init(transactional_id, 0, goes_on=False, timeout_ms=60_000)
        self.write(transactional_id, protocol, writes)
        self.end(transactional_id, 0, committed, protocol)

    @precondition(lambda self: self.shard.pending)
    @rule(pick=picks, trouble=st.sampled_from(["", "", "", "before", "after"]))
    def leader_answers(self, pick: int, trouble: str) -> None:
        """The marker is written; or not; or it is, and nobody hears of it."""
        marker, partition = self.shard.pending[pick % len(self.shard.pending)]
        if trouble == "before":
            self.shard.report(marker, {partition: ErrorCode.NOT_LEADER_OR_FOLLOWER})
            return
        assert self.leaders[partition].mark(marker) is ErrorCode.NONE, "the coordinator in office is fenced"
        self.shard.report(marker, {partition: ErrorCode.REQUEST_TIMED_OUT if trouble == "after" else ErrorCode.NONE})

    @precondition(lambda self: self.shard.pending)
    @rule()
    def leaders_answer(self) -> None:
        while self.shard.pending:
            self.leader_answers(0, "")

    @precondition(lambda self: self.late)
    @rule(pick=picks)
    def marker_of_a_dead_coordinator_arrives(self, pick: int) -> None:
        marker, partition = self.late.pop(pick % len(self.late))
        error = self.leaders[partition].mark(marker)
        self.shard.perform(self.shard.core.markers_written(marker, {partition: error}, self.shard.now))

    @rule(duration_ms=st.sampled_from([0, 100, 1_001, 60_001, 2 * DAY_MS, None]))
    def wait(self, duration_ms: int | None) -> None:
        """For some time, or for the next timer."""
        if duration_ms is not None:
            self.shard.wait(duration_ms)
        elif self.shard.timers:
            self.shard.fire_next()

    @rule(kind=st.sampled_from(["append", "append", "crash", "crash", "crash after append", "producer ids", "expiry"]))
    def trouble(self, kind: str) -> None:
        match kind:
            case "append":
                self.shard.next_append_error = ErrorCode.NOT_ENOUGH_REPLICAS
            case "crash":
                self.late += self.shard.pending
                self.shard.crash()
            case "crash after append":
                self.shard.dies_after_next_append = True
            case "producer ids":
                self.shard.has_producer_ids = not self.shard.has_producer_ids
            case "expiry":
                self.shard.perform(self.shard.core.expire(self.shard.now, list(self.shard.core.transactions)))

    @invariant()
    def the_log_says_what_the_core_knows(self) -> None:
        known = {it.stored._replace(last_producer_epoch=-1) for it in self.shard.core.transactions.values()}
        assert {it.stored for it in reloaded(self.shard).transactions.values()} == known

    @invariant()
    def a_transaction_ends_in_one_way_everywhere(self) -> None:
        for leader in self.leaders.values():
            for transaction, committed in leader.ends:
                assert self.decided[transaction] == committed
                assert self.acknowledged.get(transaction, committed) == committed

    @invariant()
    def something_always_moves_a_transaction_on(self) -> None:
        timers = self.shard.timers
        for transactional_id, transaction in self.shard.core.transactions.items():
            if transaction.state is ONGOING:
                at_ms = timers[TimerKey(TimerKind.TIMEOUT, transactional_id)]
                deadline_ms = transaction.times_out_at_ms - WALL_START_MS + 1
                assert at_ms <= max(deadline_ms, self.shard.steady_ms + 100)
            if transaction.state.is_preparing:
                asked = {it[1] for it in self.shard.pending if it[0].transactional_id == transactional_id}
                assert transaction.unmarked <= asked | transaction.to_retry
                waits = bool(transaction.to_retry) or not transaction.unmarked
                assert not waits or TimerKey(TimerKind.MARKERS, transactional_id) in timers

    def teardown(self) -> None:
        """Left alone, every transaction ends, and no partition keeps one open."""
        if not hasattr(self, "shell"):
            return
        self.shard.next_append_error = None
        self.shard.dies_after_next_append = False
        self.shard.has_producer_ids = True
        for _ in range(200):
            self.leaders_answer()
            if not self.shard.timers:
                break
            self.shard.fire_next()
        assert all(it.state.is_at_rest for it in self.shard.core.transactions.values())
        assert not any(leader.open for leader in self.leaders.values())
        self.a_transaction_ends_in_one_way_everywhere()
        for transaction, committed in self.acknowledged.items():
            ends = {end for leader in self.leaders.values() for it, end in leader.ends if it == transaction}
            assert ends <= {committed}


def reloaded(shard: Shard) -> TxnCore:
    core = TxnCore(shard.parameters, FIRST_LEADER_EPOCH, lambda: None)
    for record in shard.stored():
        core.replay(record)
    return core


TestInterleavings = Interleavings.TestCase
TestInterleavings.settings = settings(max_examples=80, stateful_step_count=50, deadline=None, derandomize=True)
