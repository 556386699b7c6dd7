"""One run: copiers between two topics, faults on schedule, and in the end the question whether the copy is exact."""

import contextlib
import functools
import heapq
import itertools
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.compat import topics
from tests.compat.processes import BrokerProcess
from tests.torture import inspection, readers, verdict
from tests.torture.copier import Settings
from tests.torture.copiers import Slot
from tests.torture.plan import Plan
from tests.torture.schedule import Fault, Kind, draw
from tests.torture.source import Source

DRAIN_TIMEOUT = 90.0
_RESTART_AFTER = 0.3
_PROGRESS_EVERY = 5.0
_SETTLE_SLACK = 20.0

_END = re.compile(r"[\d.]+ (?P<how>commit|abort|ended)(?: of \d+)?(?P<why>: [^(]*\w)?")
"""What a copier prints of a transaction, or of itself."""

Say = Callable[[str], None]


@dataclass(slots=True)
class Outcome:
    findings: list[str] = field(default_factory=list)
    produced: int = 0
    committed: int = 0
    uncommitted: int = 0
    """Records a reader sees who does not wait for the end of a transaction."""
    faults: Counter[Kind] = field(default_factory=Counter)
    transactions: Counter[str] = field(default_factory=Counter)
    """How they ended and why, as far as the copiers lived to say so."""


class Run:
    """`broker` is None where somebody else runs it; then it is not killed and its files are not looked at."""

    def __init__(self, plan: Plan, bootstrap: str, broker: BrokerProcess | None, directory: Path, say: Say) -> None:
        self._plan = plan
        self._bootstrap = bootstrap
        self._broker = broker
        self._say = say
        self._outcome = Outcome()
        self._name = f"torture-{plan.seed}-{os.getpid()}"
        self._input, self._output = f"{self._name}-input", f"{self._name}-output"
        commands = [self._copier] * plan.copiers + [self._kafka_copier] * plan.kafka_copiers
        self._slots = [
            Slot(number, f"{self._name}-{number}", command, directory / f"copier-{number}.log")
            for number, command in enumerate(commands)
        ]
        self._source = Source(bootstrap, self._input, plan.partitions, plan.rate, plan.seed, plan.padding)
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._restarting: set[Slot] = set()
        self._offsets = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": self._name,
                "isolation.level": "read_committed",
                "log_level": 0,
            }
        )

    def run(self) -> Outcome:
        self._create_topics()
        with self._copying():
            self._torment()
            self._outcome.findings += self._source.finish()
            self._abandon_a_transaction()
            self._drain()
        self._offsets.close()
        self._await_the_end_of_transactions()
        self._compare("")
        if self._broker is not None:
            self._broker.kill()
            self._broker.start()
            self._compare("after the broker was killed once more: ")
            self._look_at_the_files(self._broker)
        self._count_transactions()
        return self._outcome

    def _create_topics(self) -> None:
        admin = AdminClient({"bootstrap.servers": self._bootstrap, "log_level": 0})
        config = {"segment.bytes": str(1 << 20)}
        for topic in (self._input, self._output):
            topics.create(admin, topic, self._plan.partitions, config)
        beginning = [TopicPartition(self._input, partition, 0) for partition in range(self._plan.partitions)]
        self._offsets.commit(offsets=beginning, asynchronous=False)

    @contextlib.contextmanager
    def _copying(self) -> Iterator[None]:
        """Those who still run at the end leave in order; whatever happens, none stays."""
        try:
            for slot in self._slots:
                slot.start()
            self._source.start()
            yield
            for slot in self._slots:
                slot.leave()
        finally:
            self._source.stop()
            for slot in self._slots:
                slot.kill()

    def _torment(self) -> None:
        plan = self._plan
        began = time.monotonic()
        for fault in draw(plan, broker=self._broker is not None):
            self._at(began + fault.at, functools.partial(self._strike, fault))
        self._work_until(lambda: time.monotonic() >= began + plan.seconds)

    def _drain(self) -> None:
        """No more faults: the copiers have to come to the end of the input."""
        deadline = time.monotonic() + DRAIN_TIMEOUT
        target = {partition: len(records) for partition, records in self._source.sent.items()}
        positions: dict[int, int] = {}

        def done() -> bool:
            nonlocal positions
            positions = self._committed_offsets() or positions
            return positions == target or time.monotonic() > deadline

        self._work_until(done)
        behind = [
            f"{at} of {target[partition]} in partition {partition}"
            for partition, at in positions.items()
            if at != target[partition]
        ]
        if behind or not positions:
            self._outcome.findings.append(f"not copied within {DRAIN_TIMEOUT:.0f} s without faults: {behind}")

    def _work_until(self, done: Callable[[], bool]) -> None:
        """Do what is due, start again who ended by himself, say how far things are."""
        told = time.monotonic()
        while not done():
            while self._agenda and self._agenda[0][0] <= time.monotonic():
                heapq.heappop(self._agenda)[2]()
            for slot in self._slots:
                if slot.ended():
                    self._restart_later(slot, _RESTART_AFTER)
            if time.monotonic() - told > _PROGRESS_EVERY:
                told = time.monotonic()
                self._tell()
            time.sleep(0.05)

    def _at(self, moment: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._agenda, (moment, next(self._order), action))

    def _strike(self, fault: Fault) -> None:
        slot = self._slots[fault.slot]
        self._outcome.faults[fault.kind] += 1
        match fault.kind:
            case Kind.BROKER:
                self._restart_broker(fault.seconds)
            case Kind.PAUSE:
                slot.pause()
                self._at(time.monotonic() + fault.seconds, slot.resume)
            case Kind.TWIN:
                slot.start_twin()
            case Kind.LEAVE:
                slot.leave()
                self._restart_later(slot, fault.seconds)
            case Kind.KILL | Kind.REPLACE:
                slot.kill()
                if fault.kind is Kind.REPLACE:
                    slot.take_new_identity()
                self._restart_later(slot, fault.seconds)

    def _restart_broker(self, seconds: float) -> None:
        assert self._broker is not None
        self._broker.kill()
        time.sleep(seconds)
        self._broker.start()

    def _restart_later(self, slot: Slot, seconds: float) -> None:
        if slot in self._restarting:
            return

        def restart() -> None:
            self._restarting.discard(slot)
            if not slot.runs():
                slot.start()

        self._restarting.add(slot)
        self._at(time.monotonic() + seconds, restart)

    def _committed_offsets(self) -> dict[int, int] | None:
        """None while the broker is away, or while the offsets of a partition hang on a transaction."""
        places = [TopicPartition(self._input, partition) for partition in range(self._plan.partitions)]
        try:
            found = self._offsets.committed(places, timeout=1.0)
        except KafkaException:
            return None
        return {place.partition: max(place.offset, 0) for place in found}

    def _tell(self) -> None:
        copied = self._committed_offsets()
        faults = ", ".join(f"{count} {kind}" for kind, count in sorted(self._outcome.faults.items())) or "none yet"
        known = "?" if copied is None else str(sum(copied.values()))
        self._say(f"produced {self._source.count()}, copied {known}; faults: {faults}")

    def _abandon_a_transaction(self) -> None:
        """A producer that begins, writes and is never heard of again: the broker has to end it by its timeout."""
        producer = Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "transactional.id": f"{self._name}-abandoned",
                "transaction.timeout.ms": self._plan.transaction_timeout_ms,
                "log_level": 0,
            }
        )
        producer.init_transactions(30)
        producer.begin_transaction()
        for partition in range(self._plan.partitions):
            producer.produce(self._output, value=b"abandoned", key=b"abandoned", partition=partition)
        assert producer.flush(30) == 0

    def _await_the_end_of_transactions(self) -> None:
        deadline = time.monotonic() + self._plan.transaction_timeout_ms / 1000 + _SETTLE_SLACK
        while True:
            left = inspection.open_transactions(self._bootstrap, self._name)
            left += inspection.unstable_partitions(self._bootstrap, [self._output, "__consumer_offsets"])
            if not left:
                return
            if time.monotonic() > deadline:
                self._outcome.findings += [f"after the transaction timeout {each}" for each in left]
                return
            time.sleep(0.2)

    def _compare(self, when: str) -> None:
        partitions = self._plan.partitions
        source = readers.read(self._bootstrap, self._input, partitions, committed=False)
        committed = readers.read(self._bootstrap, self._output, partitions, committed=True)
        uncommitted = readers.read(self._bootstrap, self._output, partitions, committed=False)
        other = readers.read_committed_with_aiokafka(self._bootstrap, self._output, partitions)
        questions = {
            "input against what was sent": verdict.exactly_once(self._source.sent, source),
            "output": verdict.exactly_once(source, committed),
            "output as aiokafka reads it": verdict.exactly_once(source, other),
            "output, uncommitted": verdict.contained(committed, uncommitted),
        }
        self._outcome.findings += [f"{when}{what}: {each}" for what, found in questions.items() for each in found]
        self._outcome.produced = self._source.count()
        self._outcome.committed = sum(map(len, committed.values()))
        self._outcome.uncommitted = sum(map(len, uncommitted.values()))

    def _look_at_the_files(self, broker: BrokerProcess) -> None:
        if not os.environ.get("KAFKA_JARS"):
            return
        broker.stop()
        names = [self._output, "__transaction_state", "__consumer_offsets"]
        self._outcome.findings += inspection.dump_log(broker.data_dir, names)
        broker.start()

    def _count_transactions(self) -> None:
        for slot in self._slots:
            for line in slot.log().splitlines():
                if end := _END.match(line):
                    self._outcome.transactions[end["how"] + (end["why"] or "")] += 1

    def _copier(self, slot: Slot) -> list[str]:
        plan = self._plan
        return Settings(
            bootstrap=self._bootstrap,
            input=self._input,
            output=self._output,
            group=self._name,
            transactional_id=slot.transactional_id,
            instance_id=slot.name if slot.number % 2 else None,
            seed=f"{plan.seed}/{slot.number}/{slot.lives}",
            strategy=plan.strategy,
            session_timeout_ms=plan.session_timeout_ms,
            transaction_timeout_ms=plan.transaction_timeout_ms,
            abort_share=plan.abort_share,
            offsets_outside=plan.offsets_outside,
        ).command()

    def _kafka_copier(self, slot: Slot) -> list[str]:
        java = ["java", "-Xmx128M", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        tool = ["-cp", f"{os.environ['KAFKA_JARS']}/*", "org.apache.kafka.tools.TransactionalMessageCopier"]
        places = ["--input-topic", self._input, "--input-partition", "0", "--output-topic", self._output]
        group = ["--consumer-group", self._name, "--group-mode", "--use-group-metadata"]
        transaction = [
            "--transactional-id",
            slot.transactional_id,
            "--transaction-size",
            "40",
            "--enable-random-aborts",
        ]
        timeout = ["--transaction-timeout", str(self._plan.transaction_timeout_ms)]
        return [*java, *tool, *places, "--broker-list", self._bootstrap, *group, *transaction, *timeout]
