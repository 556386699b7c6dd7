"""`python -m tests.hostile.bystander BOOTSTRAP BROKER_PID`: an ordinary client beside the hostile ones.

It produces a record, waits for its acknowledgement, consumes the record, commits its offset, and so on until its input
ends. Then it prints what it saw as JSON. It is a process of its own, so that only the broker can delay it.
"""

import json
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.hostile.scheduling import waited

TOPIC = "bystander-topic"
GROUP = "bystander-group"
_PAUSE = 0.005
_OPERATION_TIMEOUT = 120.0


@dataclass
class Report:
    rounds: int = 0
    disconnects: int = 0
    longest: float = 0.0
    """Seconds from a request to its answer, by the clock on the wall."""
    longest_of_broker: float = 0.0
    """The same without the time in which the broker or this client waited for a processor."""
    longest_operation: str = ""
    total: float = 0.0
    errors: list[str] = field(default_factory=list)


class Bystander:
    def __init__(self, bootstrap: str, broker_pid: int) -> None:
        self.report = Report()
        self._broker_pid = broker_pid
        self._disconnects: dict[str, int] = {}
        common = {
            "bootstrap.servers": bootstrap,
            "statistics.interval.ms": 500,
            "stats_cb": self._count_disconnects,
            "error_cb": self._failed,
            "log_level": 0,
        }
        admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(30)
        self._producer = Producer({**common, "acks": "all", "linger.ms": 0, "client.id": "producer"})
        self._consumer = Consumer(
            {
                **common,
                "client.id": "consumer",
                "group.id": GROUP,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 100,
            }
        )
        self._consumer.subscribe([TOPIC])

    def run(self, stopped: threading.Event, started: Callable[[], None]) -> None:
        number = 0
        while not stopped.is_set():
            # Joining the group takes more than one request, so the first round is not measured.
            self._round(b"%d" % number, number, self._unmeasured if number == 0 else self._measure)
            number += 1
            if number == 1:
                started()
            stopped.wait(_PAUSE)
        self.report.rounds = number
        self._producer.poll(1)
        self._consumer.poll(0)
        self.report.disconnects = sum(self._disconnects.values())
        self._consumer.close()

    def _round(self, value: bytes, number: int, measure: Callable[[str, Callable[[], None]], None]) -> None:
        def produce() -> None:
            delivered: list[KafkaError | None] = []
            self._producer.produce(TOPIC, value, on_delivery=lambda error, _: delivered.append(error))
            _until(lambda: bool(delivered), lambda: self._producer.poll(0.1))
            if delivered[0] is not None:
                raise KafkaException(delivered[0])

        def consume() -> None:
            found: list[Message] = []
            _until(lambda: bool(found), lambda: found.extend(self._consumer.consume(1, 0.1)))
            if found[0].value() != value or found[0].offset() != number:
                self.report.errors.append(f"expected {value!r} at {number}: {found[0].value()!r} {found[0].error()}")

        def commit() -> None:
            self._consumer.commit(offsets=[TopicPartition(TOPIC, 0, number + 1)], asynchronous=False)

        for name, operation in (("produce", produce), ("consume", consume), ("commit", commit)):
            measure(name, operation)

    def _unmeasured(self, _: str, operation: Callable[[], None]) -> None:
        operation()

    def _measure(self, name: str, operation: Callable[[], None]) -> None:
        began, waited_before = time.monotonic(), self._waited()
        try:
            operation()
        except KafkaException as error:
            self.report.errors.append(f"{name}: {error}")
        wall = time.monotonic() - began
        net = wall - (self._waited() - waited_before)
        self.report.total += wall
        self.report.longest = max(self.report.longest, wall)
        if net > self.report.longest_of_broker:
            self.report.longest_of_broker, self.report.longest_operation = net, name

    def _waited(self) -> float:
        return waited(self._broker_pid, main_thread_only=True) + waited("self")

    def _count_disconnects(self, statistics: str) -> None:
        client = json.loads(statistics)
        for broker in client["brokers"].values():
            self._disconnects[f"{client['name']} {broker['name']}"] = broker["disconnects"]

    def _failed(self, error: KafkaError) -> None:
        self.report.errors.append(str(error))


def _until(done: Callable[[], bool], act: Callable[[], Any]) -> None:
    deadline = time.monotonic() + _OPERATION_TIMEOUT
    while not done():
        if time.monotonic() > deadline:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "the broker is silent"))
        act()


def main() -> None:
    stopped = threading.Event()

    def wait_for_the_end() -> None:
        sys.stdin.read()
        stopped.set()

    bystander = Bystander(sys.argv[1], int(sys.argv[2]))
    threading.Thread(target=wait_for_the_end, daemon=True).start()
    bystander.run(stopped, lambda: print("started", flush=True))
    print(json.dumps(asdict(bystander.report)), flush=True)


if __name__ == "__main__":
    main()
