"""Any order of sends, ends, timeouts, full disks and kills leaves transactions whole: all of one counts, or nothing.

Unlike the interleavings of the pure core, this runs the real logs, groups and coordinator on real files.
"""

import asyncio
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from ottla.errors import ErrorCode, KafkaError
from ottla.model import TopicPartition
from ottla.txn.commands import PROTOCOL_1, PROTOCOL_2
from tests.coordinator.transactional import TransactionalProducer, committed_values
from tests.coordinator.world import Broker, Machine
from tests.replication.world import settle

CLICKS = [TopicPartition("clicks", index) for index in range(3)]
IDS = ["a", "b", "c"]
PROTOCOLS = {"a": PROTOCOL_2, "b": PROTOCOL_2, "c": PROTOCOL_1}

ids = st.sampled_from(IDS)
partitions = st.sampled_from(CLICKS)


class Transaction:
    """What a producer believes of a transaction: its records, its offset, and how it was told that it ended."""

    def __init__(self) -> None:
        self.sent: set[tuple[TopicPartition, bytes]] = set()
        self.offset: int | None = None
        self.committed: bool | None = None


class Transactions(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self._loop = asyncio.new_event_loop()
        self._directory = tempfile.TemporaryDirectory()
        self.machine = Machine(Path(self._directory.name))
        self.broker: Broker = self.run(self.machine.start())
        self.producers: dict[str, TransactionalProducer] = {}
        self.transactions: list[Transaction] = []
        self.open: dict[str, Transaction] = {}
        self.count = 0
        for name in IDS:
            self.restart_producer(name)

    def run(self, work: Any) -> Any:
        return self._loop.run_until_complete(work)

    def restart_producer(self, name: str) -> None:
        """A new process with an old transactional id: it asks until it is let in."""
        self.machine.disk.repair()
        producer = TransactionalProducer(self.broker, name, protocol=PROTOCOLS[name])
        self.open.pop(name, None)
        for _ in range(100):
            if self.run(self._try(producer.init())) is ErrorCode.NONE:
                self.producers[name] = producer
                return
            self.run(self.broker.pass_time(0.1))
        raise AssertionError(f"{name} is never let in")

    async def _try(self, work: Coroutine[None, None, ErrorCode]) -> ErrorCode:
        """The broker may pause for markers to be written: let the time pass that it waits for."""
        task = asyncio.ensure_future(work)
        while not task.done():
            await self.broker.pass_time(0.02)
        try:
            return task.result()
        except KafkaError as error:
            return error.code

    def _transaction(self, name: str) -> Transaction:
        if name not in self.open:
            self.open[name] = Transaction()
            self.transactions.append(self.open[name])
        return self.open[name]

    def _after(self, name: str, error: ErrorCode) -> None:
        """A client that gets an error it cannot do anything about gives up and begins anew."""
        if error is not ErrorCode.NONE:
            self.restart_producer(name)

    @rule(name=ids, partition=partitions)
    def send(self, name: str, partition: TopicPartition) -> None:
        self.count += 1
        value = b"%d" % self.count
        transaction = self._transaction(name)
        error = self.run(self._try(self.producers[name].send(value, partition)))
        if error is ErrorCode.NONE:
            transaction.sent.add((partition, value))
        self._after(name, error)

    @rule(name=ids)
    def commit_offset(self, name: str) -> None:
        self.count += 1
        transaction = self._transaction(name)
        error = self.run(self._try(self.producers[name].commit_offset(name, CLICKS[0], self.count)))
        if error is ErrorCode.NONE:
            transaction.offset = self.count
        self._after(name, error)

    @rule(name=ids, committed=st.booleans())
    def end(self, name: str, committed: bool) -> None:
        if name not in self.open:
            return
        transaction = self.open[name]
        if not transaction.sent and transaction.offset is None:
            return
        error = self.run(self._try(self.producers[name].end(committed=committed)))
        if error is ErrorCode.NONE:
            transaction.committed = committed
            del self.open[name]
        self._after(name, error)

    @rule(name=ids)
    def kill_producer(self, name: str) -> None:
        self.restart_producer(name)

    @rule(clean=st.booleans())
    def restart_broker(self, clean: bool) -> None:
        if clean:
            self.machine.disk.repair()
        self.run(self.broker.stop(clean=clean))
        self.machine.disk.repair()
        self.broker = self.run(self.machine.start())
        for producer in self.producers.values():
            producer.broker = self.broker

    @rule(partition=st.sampled_from([*(str(it) for it in CLICKS), "__consumer_offsets-0"]))
    def disk_breaks(self, partition: str) -> None:
        self.machine.disk.break_("write", f"{partition}/")

    @rule()
    def disk_is_repaired(self) -> None:
        self.machine.disk.repair()

    @rule(seconds=st.sampled_from([0.1, 5.0, 61.0]))
    def time_passes(self, seconds: float) -> None:
        self.run(self.broker.pass_time(seconds))

    def teardown(self) -> None:
        try:
            self.machine.disk.repair()
            for _ in range(3):
                self.run(self.broker.pass_time(61.0))
            self._check()
            self.run(self.broker.stop())
            self.broker = self.run(self.machine.start())
            self._check()
            self.run(self.broker.stop())
            self.run(settle())
        finally:
            self._loop.close()
            self._directory.cleanup()

    def _check(self) -> None:
        leaders = {partition: self.broker.replicas.leader_of(*partition) for partition in CLICKS}
        assert all(leader.last_stable_offset == leader.high_watermark for leader in leaders.values()), "hanging"
        read = [(partition, value) for partition, leader in leaders.items() for value in committed_values(leader)]
        seen = set(read)
        assert len(seen) == len(read), "twice"
        for transaction in self.transactions:
            assert transaction.sent & seen == (transaction.sent if transaction.committed else set())
        offsets = {name: self.broker.committed(name) for name in IDS}
        promised = [it.offset for it in self.transactions if it.committed and it.offset is not None]
        for name, committed in offsets.items():
            assert committed.get("clicks-0") in (None, *promised), name
        assert all(any(it == committed.get("clicks-0") for committed in offsets.values()) for it in promised[-1:])


TestTransactions = Transactions.TestCase
TestTransactions.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
