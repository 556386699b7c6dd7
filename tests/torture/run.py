"""One run: copiers between two topics, scheduled faults, and a check at the end that the copy is exact."""

import os
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from tests.compat import topics
from tests.compat.processes import BrokerProcess
from tests.torture import inspection, readers, verdict
from tests.torture.plan import Names, Plan
from tests.torture.schedule import Kind
from tests.torture.source import Source
from tests.torture.torment import Say, Torment

_SETTLE_SLACK = 20.0


@dataclass(slots=True)
class Outcome:
    findings: list[str] = field(default_factory=list)
    produced: int = 0
    committed: int = 0
    uncommitted: int = 0
    """The records that a `read_uncommitted` consumer gets."""
    faults: Counter[Kind] = field(default_factory=Counter)
    transactions: Counter[str] = field(default_factory=Counter)


class Run:
    """`broker` is None if it runs elsewhere. Then it is not killed, and its files are not checked."""

    def __init__(self, plan: Plan, bootstrap: str, broker: BrokerProcess | None, directory: Path, say: Say) -> None:
        self._plan = plan
        self._names = names = Names(f"torture-{plan.seed}-{os.getpid()}", bootstrap)
        self._broker = broker
        self._source = Source(bootstrap, names.input, plan.partitions, plan.rate, plan.seed, plan.padding)
        self._torment = Torment(plan, names, self._source, broker, directory, say)
        self._outcome = Outcome()

    def run(self) -> Outcome:
        outcome = self._outcome
        self._create_topics()
        with self._torment as torment:
            torment.strike_on_schedule()
            outcome.findings += self._source.finish()
            self._abandon_a_transaction()
            outcome.findings += torment.drain()
        outcome.produced = self._source.count()
        outcome.faults, outcome.transactions = torment.faults, torment.transactions()
        self._await_the_end_of_transactions()
        self._compare("")
        if self._broker is not None:
            self._broker.kill()
            self._broker.start()
            self._compare("after the broker was killed once more: ")
            self._look_at_the_files(self._broker)
            outcome.findings += self._broker.holds()
        return outcome

    def _create_topics(self) -> None:
        admin = AdminClient({"bootstrap.servers": self._names.bootstrap, "log_level": 0})
        config = {"segment.bytes": str(1 << 20)}
        for topic in (self._names.input, self._names.output):
            topics.create(admin, topic, self._plan.partitions, config)
        self._torment.commit_the_beginning()

    def _abandon_a_transaction(self) -> None:
        """A producer that begins, writes and disappears: the broker must end its transaction at the timeout."""
        producer = Producer(
            {
                "bootstrap.servers": self._names.bootstrap,
                "transactional.id": f"{self._names.run}-abandoned",
                "transaction.timeout.ms": self._plan.transaction_timeout_ms,
                "log_level": 0,
            }
        )
        producer.init_transactions(30)
        producer.begin_transaction()
        for partition in range(self._plan.partitions):
            producer.produce(self._names.output, value=b"abandoned", key=b"abandoned", partition=partition)
        assert producer.flush(30) == 0

    def _await_the_end_of_transactions(self) -> None:
        deadline = time.monotonic() + self._plan.transaction_timeout_ms / 1000 + _SETTLE_SLACK
        while True:
            left = inspection.open_transactions(self._names.bootstrap, self._names.run)
            left += inspection.unstable_partitions(self._names.bootstrap, [self._names.output, "__consumer_offsets"])
            if not left:
                return
            if time.monotonic() > deadline:
                self._outcome.findings += [f"after the transaction timeout {each}" for each in left]
                return
            time.sleep(0.2)

    def _compare(self, when: str) -> None:
        partitions = self._plan.partitions
        source = readers.read(self._names.bootstrap, self._names.input, partitions, committed=False)
        committed = readers.read(self._names.bootstrap, self._names.output, partitions, committed=True)
        uncommitted = readers.read(self._names.bootstrap, self._names.output, partitions, committed=False)
        other = readers.read_committed_with_aiokafka(self._names.bootstrap, self._names.output, partitions)
        questions = {
            "input against what was sent": verdict.exactly_once(self._source.sent, source),
            "output": verdict.exactly_once(source, committed),
            "output as aiokafka reads it": verdict.exactly_once(source, other),
            "output, uncommitted": verdict.contained(committed, uncommitted),
        }
        self._outcome.findings += [f"{when}{what}: {each}" for what, found in questions.items() for each in found]
        self._outcome.committed = sum(map(len, committed.values()))
        self._outcome.uncommitted = sum(map(len, uncommitted.values()))

    def _look_at_the_files(self, broker: BrokerProcess) -> None:
        if not os.environ.get("KAFKA_JARS"):
            return
        broker.stop()
        names = [self._names.output, "__transaction_state", "__consumer_offsets"]
        self._outcome.findings += inspection.dump_log(broker.data_dir, names)
