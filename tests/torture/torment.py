"""Runs the copiers and injects the faults: starts, kills and restarts processes on schedule."""

import functools
import heapq
import itertools
import os
import re
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Self

from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.compat.processes import BrokerProcess
from tests.torture.copier import Settings
from tests.torture.copiers import Slot
from tests.torture.plan import Names, Plan
from tests.torture.schedule import Fault, Kind, draw
from tests.torture.source import Source

DRAIN_TIMEOUT = 90.0
_RESTART_AFTER = 0.3
_PROGRESS_EVERY = 5.0

_END = re.compile(r"[\d.]+ (?P<how>commit|abort|ended)(?: of \d+)?(?P<why>: [^(]*\w)?")
"""The output of a copier about a transaction or itself."""

Say = Callable[[str], None]


class Torment:
    """`broker` is None if it runs elsewhere. Then it is not killed."""

    def __init__(
        self, plan: Plan, names: Names, source: Source, broker: BrokerProcess | None, directory: Path, say: Say
    ) -> None:
        self._plan = plan
        self._names = names
        self._source = source
        self._broker = broker
        self._say = say
        self.faults: Counter[Kind] = Counter()
        commands = [self._copier] * plan.copiers + [self._kafka_copier] * plan.kafka_copiers
        self._slots = [
            Slot(number, f"{names.run}-{number}", command, directory / f"copier-{number}.log")
            for number, command in enumerate(commands)
        ]
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._restarting: set[Slot] = set()
        self._offsets = Consumer(
            {
                "bootstrap.servers": names.bootstrap,
                "group.id": names.run,
                "isolation.level": "read_committed",
                "log_level": 0,
            }
        )

    def __enter__(self) -> Self:
        for slot in self._slots:
            slot.start()
        self._source.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Kill all processes."""
        self._source.stop()
        for slot in self._slots:
            slot.kill()
        self._offsets.close()

    def commit_the_beginning(self) -> None:
        """Commit offsets at the start of the input, so that no copier has to choose a start."""
        beginning = [TopicPartition(self._names.input, partition, 0) for partition in range(self._plan.partitions)]
        self._offsets.commit(offsets=beginning, asynchronous=False)

    def transactions(self) -> Counter[str]:
        """The outcomes of transactions and their reasons, as far as the copiers could print them."""
        lines = [line for slot in self._slots for line in slot.log().splitlines()]
        ends = [end for line in lines if (end := _END.match(line))]
        return Counter(end["how"] + (end["why"] or "") for end in ends)

    def strike_on_schedule(self) -> None:
        began = time.monotonic()
        for fault in draw(self._plan, broker=self._broker is not None):
            self._at(began + fault.at, functools.partial(self._strike, fault))
        self._work_until(lambda: time.monotonic() >= began + self._plan.seconds)

    def drain(self) -> list[str]:
        """Without faults, run to the end of the input, where the copiers stop. Returns what was not finished in
        time."""
        deadline = time.monotonic() + DRAIN_TIMEOUT
        target = {partition: len(records) for partition, records in self._source.sent.items()}
        positions: dict[int, int] = {}

        def done() -> bool:
            nonlocal positions
            positions = self._committed_offsets() or positions
            return positions == target or time.monotonic() > deadline

        self._work_until(done)
        for slot in self._slots:
            slot.terminate()
        for slot in self._slots:
            slot.leave()
        if positions == target:
            return []
        behind = [f"{at} of {target[partition]} in partition {partition}" for partition, at in positions.items()]
        return [f"not copied within {DRAIN_TIMEOUT:.0f} s without faults: {', '.join(behind)}"]

    def _work_until(self, done: Callable[[], bool]) -> None:
        """Start due faults, restart copiers that ended by themselves, and print progress."""
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
        self.faults[fault.kind] += 1
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
        """None while the broker is down, or while a pending transaction holds the offsets of a partition."""
        places = [TopicPartition(self._names.input, partition) for partition in range(self._plan.partitions)]
        try:
            found = self._offsets.committed(places, timeout=1.0)
        except KafkaException:
            return None
        return {place.partition: place.offset for place in found}

    def _tell(self) -> None:
        copied = self._committed_offsets()
        faults = ", ".join(f"{count} {kind}" for kind, count in sorted(self.faults.items())) or "none yet"
        known = "?" if copied is None else str(sum(copied.values()))
        self._say(f"produced {self._source.count()}, copied {known}; faults: {faults}")

    def _copier(self, slot: Slot) -> list[str]:
        plan, names = self._plan, self._names
        return Settings(
            bootstrap=names.bootstrap,
            input=names.input,
            output=names.output,
            group=names.run,
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
        options = {
            "--broker-list": self._names.bootstrap,
            "--input-topic": self._names.input,
            "--input-partition": "0",
            "--output-topic": self._names.output,
            "--consumer-group": self._names.run,
            "--transactional-id": slot.transactional_id,
            "--transaction-size": "40",
            "--transaction-timeout": str(self._plan.transaction_timeout_ms),
        }
        switches = ["--group-mode", "--use-group-metadata", "--enable-random-aborts"]
        return [*java, *tool, *itertools.chain.from_iterable(options.items()), *switches]
