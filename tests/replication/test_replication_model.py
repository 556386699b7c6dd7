"""Any order of appends, fetches, elections, crashes and restarts keeps acknowledged records, in the same order, on all
replicas.

Three replicas of a partition have real logs. The store is one versioned state, and the network is a function call at a
time that the test chooses.
"""

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ottla.errors import ErrorCode, KafkaError
from ottla.log.epochs import EpochStart
from ottla.log.log import LogRead
from ottla.model import LeaderEpoch
from ottla.replication.followers import Followers
from ottla.replication.following import position, take_over
from ottla.replication.log_settings import log_config
from ottla.replication.partition import Partition
from ottla.wire.api.fetch import EpochEndOffset, PartitionData
from tests.manual_clock import ManualClock
from tests.replication.world import (
    CLICKS,
    TOPIC_ID,
    ManualBackground,
    WatchedDisk,
    batch,
    kill,
    open_directory,
    records_in,
    settings,
    settle,
    visible,
)

BROKERS = (1, 2, 3)
MAX_LAG = 10.0

brokers = st.sampled_from(BROKERS)


class State(NamedTuple):
    """The state of the partition in the store."""

    leader: int | None
    leader_epoch: int
    isr: frozenset[int]
    version: int


class Replica:
    """One broker with its replica. Its copy of the state may be old."""

    def __init__(self, broker_id: int, path: Path, disk: WatchedDisk, clock: ManualClock, min_isr: int) -> None:
        self.broker_id = broker_id
        self.directory = open_directory(path, disk, clock)
        config = settings({"segment.bytes": "1048576", "min.insync.replicas": str(min_isr)})
        log = self.directory.logs.get(CLICKS) or self.directory.create_log(CLICKS, TOPIC_ID, log_config(config))
        marks = self.directory.read_high_watermarks()
        self.partition = Partition(TOPIC_ID, log, config, clock, ManualBackground(), marks.get(CLICKS, 0))
        self.known: State | None = None

    def learn(self, state: State, now: float) -> None:
        """The broker reads the state of the store, perhaps later than others."""
        if self.known is not None and state.version <= self.known.version:
            return
        self.known = state
        partition = self.partition
        others = [it for it in BROKERS if it != self.broker_id]
        in_sync = [it for it in state.isr if it != self.broker_id]
        partition.state_version = state.version
        if state.leader != self.broker_id:
            if partition.leads or partition.leader_epoch != state.leader_epoch:
                partition.follow(LeaderEpoch(state.leader_epoch))
        elif partition.leads and partition.leader_epoch == state.leader_epoch:
            partition.update_replicas(others, in_sync)
        else:
            partition.lead(LeaderEpoch(state.leader_epoch), Followers(others, in_sync, now))


class Replication(RuleBasedStateMachine):
    min_isr = 1

    def __init__(self) -> None:
        super().__init__()
        self._loop = asyncio.new_event_loop()
        self._directory = tempfile.TemporaryDirectory()
        self.clock = ManualClock()
        self.disk = WatchedDisk()
        self.replicas: dict[int, Replica] = {}
        self.state = State(1, 0, frozenset(BROKERS), 0)
        self.count = 0
        self.waiting: list[tuple[bytes, asyncio.Future[None]]] = []
        self.acknowledged: list[bytes] = []
        self.marks_below_min_isr: dict[Partition, set[int]] = {}

    def run(self, work: object = None) -> None:
        self._loop.run_until_complete(settle())

    @initialize()
    def begin(self) -> None:
        for broker_id in BROKERS:
            self._start(broker_id)

    def _start(self, broker_id: int) -> None:
        async def start() -> Replica:
            path = Path(self._directory.name) / str(broker_id)
            return Replica(broker_id, path, self.disk, self.clock, self.min_isr)

        self.replicas[broker_id] = self._loop.run_until_complete(start())
        self.replicas[broker_id].learn(self.state, self.clock.monotonic())

    def _change(self, state: State) -> None:
        self.state = state._replace(version=self.state.version + 1)

    def _in_loop(self, function: object, *args: object) -> object:
        async def call() -> object:
            return function(*args)  # type: ignore[operator]

        result = self._loop.run_until_complete(call())
        self._collect()
        return result

    def _collect(self) -> None:
        for value, future in list(self.waiting):
            if future.done():
                self.waiting.remove((value, future))
                if not future.cancelled() and future.exception() is None:
                    self.acknowledged.append(value)

    @rule(broker_id=brokers)
    def produce(self, broker_id: int) -> None:
        """Append with acks=all on a broker that believes it leads."""
        replica = self.replicas.get(broker_id)
        if replica is None or not replica.partition.leads:
            return
        self.count += 1
        value = b"%d" % self.count

        def append() -> None:
            try:
                appended = replica.partition.append(batch(value), None, 1000.0)
            except KafkaError as error:
                if error.code is not ErrorCode.NOT_ENOUGH_REPLICAS:
                    raise
                return
            if appended.wait is None:
                self.acknowledged.append(value)
            else:
                self.waiting.append((value, appended.wait))

        self._in_loop(append)

    @rule(broker_id=brokers)
    def fetch(self, broker_id: int) -> None:
        """A follower fetches from the broker that it considers the leader."""
        follower = self.replicas.get(broker_id)
        if follower is None or follower.known is None or follower.partition.leads:
            return
        leader = self.replicas.get(follower.known.leader or 0)
        if leader is not None:
            self._in_loop(self._fetch, follower, leader)

    def _fetch(self, follower: Replica, leader: Replica) -> None:
        at = position(follower.partition)
        try:
            if not leader.partition.leads:
                return
            leader.partition.check_leader_epoch(follower.partition.leader_epoch)
            found = leader.partition.read_as_follower(follower.broker_id, at.offset, 300, at.last_epoch)
        except KafkaError as error:
            if error.code in (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH):
                return
            raise
        answer = PartitionData(
            high_watermark=leader.partition.high_watermark, log_start_offset=0, aborted_transactions=None, records=b""
        )
        if isinstance(found, EpochStart):
            answer.diverging_epoch = EpochEndOffset(epoch=found.epoch, end_offset=found.start_offset)
        else:
            assert isinstance(found, LogRead)
            answer.records = b"" if found.file is None else found.file.read(found.size, found.position)
        take_over(follower.partition, answer)

    @rule()
    def review(self) -> None:
        """The leader sends an ISR change to the store. The reply may get lost."""
        for replica in self.replicas.values():
            partition, known = replica.partition, replica.known
            followers = partition.followers
            if not partition.leads or followers is None or known is None:
                continue
            wanted = followers.wanted(partition.log.end_offset, partition.needed_end, self.clock.monotonic(), MAX_LAG)
            if wanted == followers.in_sync:
                continue
            followers.propose(wanted)
            if known.version == self.state.version:
                self._change(self.state._replace(isr=wanted | {replica.broker_id}))

    @rule(broker_id=brokers)
    def look(self, broker_id: int) -> None:
        replica = self.replicas.get(broker_id)
        if replica is not None:
            self._in_loop(replica.learn, self.state, self.clock.monotonic())

    @rule(seconds=st.sampled_from([1.0, MAX_LAG + 1]))
    def time_passes(self, seconds: float) -> None:
        self.clock.now += seconds

    @precondition(lambda self: len(self.replicas) > 1)
    @rule(broker_id=brokers, clean=st.booleans())
    def kill(self, broker_id: int, clean: bool) -> None:
        replica = self.replicas.pop(broker_id, None)
        if replica is None:
            return
        self._in_loop(replica.partition.close)
        if clean:
            self.directory_checkpoint(replica)
            replica.directory.close()
        else:
            kill(replica.directory)

    @staticmethod
    def directory_checkpoint(replica: Replica) -> None:
        replica.directory.checkpoint_high_watermarks({CLICKS: replica.partition.high_watermark})

    @rule()
    def elect(self) -> None:
        """The controller reacts to the live brokers, as `cluster.failover` decides."""
        alive = [it for it in BROKERS if it in self.replicas]
        candidates = [it for it in alive if it in self.state.isr]
        if self.state.leader in alive:
            isr = self.state.isr & set(alive)
            if isr != self.state.isr:
                self._change(self.state._replace(isr=isr, leader_epoch=self.state.leader_epoch + 1))
        elif candidates:
            epoch = self.state.leader_epoch + 1
            self._change(State(candidates[0], epoch, frozenset(candidates), 0))
        elif self.state.leader is not None:
            self._change(self.state._replace(leader=None, leader_epoch=self.state.leader_epoch + 1))

    @rule(broker_id=brokers)
    def move_leadership(self, broker_id: int) -> None:
        """Like preferred elections and controlled shutdowns."""
        if broker_id in self.state.isr and broker_id in self.replicas and self.state.leader != broker_id:
            self._change(self.state._replace(leader=broker_id, leader_epoch=self.state.leader_epoch + 1))

    @rule(broker_id=brokers)
    def restart(self, broker_id: int) -> None:
        if broker_id not in self.replicas:
            self._start(broker_id)

    @invariant()
    def only_enough_replicas_commit(self) -> None:
        """Below min ISR the high watermark does not advance, but it never goes back."""
        for replica in self.replicas.values():
            partition = replica.partition
            if partition.leads and partition.is_under_min_isr(self.min_isr):
                marks = self.marks_below_min_isr.setdefault(partition, set())
                marks.add(partition.high_watermark)
                assert len(marks) == 1
            else:
                self.marks_below_min_isr.pop(partition, None)

    @invariant()
    def nobody_shows_what_another_does_not(self) -> None:
        """The committed records of two replicas are the same where both have them."""
        seen: Sequence[bytes | None] = []
        for replica in self.replicas.values():
            shown = [record.value for record in visible(replica.partition)]
            common = min(len(seen), len(shown))
            assert list(seen[:common]) == shown[:common]
            seen = max(seen, shown, key=len)

    def teardown(self) -> None:
        try:
            self._heal()
            contents = []
            for replica in self.replicas.values():
                log = replica.partition.log
                read = log.read(0, 1 << 20, log.end_offset)
                contents.append(b"" if read.file is None else read.file.read(read.size, read.position))
            assert contents[0] == contents[1] == contents[2], "all have the same bytes"
            [leader] = [it.partition for it in self.replicas.values() if it.partition.leads]
            assert leader.high_watermark == leader.log.end_offset
            stored = [record.value for record in records_in(contents[0])]
            assert set(self.acknowledged) <= set(stored), "what was acknowledged is there"
            assert len(stored) == len(set(stored))
            order = [value for value in stored if value in set(self.acknowledged)]
            assert order == sorted(self.acknowledged, key=lambda value: stored.index(value))
            for replica in self.replicas.values():
                self._in_loop(replica.partition.close)
                replica.directory.close()
        finally:
            self._loop.close()
            self._directory.cleanup()

    def _heal(self) -> None:
        """All brokers are up, and the network works."""
        for broker_id in BROKERS:
            self.restart(broker_id)
        for _ in range(60):
            self.elect()
            for broker_id in BROKERS:
                self.look(broker_id)
            for broker_id in BROKERS:
                self.fetch(broker_id)
            self.review()


class ReplicationWithMinIsr(Replication):
    min_isr = 2


TestReplication = Replication.TestCase
TestReplicationWithMinIsr = ReplicationWithMinIsr.TestCase
for case in (TestReplication, TestReplicationWithMinIsr):
    case.settings = hypothesis_settings(max_examples=60, stateful_step_count=60, deadline=None)


def test_a_leader_that_was_heard_and_does_not_know_it_waits() -> None:
    """The leader sends the change again, and the store rejects it because the first one was applied. A replica of that
    change may be the leader by now."""
    world = Replication()
    world.begin()
    for broker_id in (2, 3):
        world.kill(broker_id, clean=True)
    world.elect()
    world.look(1)
    world.restart(3)
    world.fetch(3)
    world.review()
    world.move_leadership(3)
    world.review()
    world.produce(1)
    assert world.acknowledged == []
    world.teardown()
