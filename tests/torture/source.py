"""Produces the input while it is copied."""

import random
import threading
import time
from typing import Any

from confluent_kafka import Producer

from tests.torture.verdict import Record

_KEYS = 20
_TICK = 0.02
_FLUSH_TIMEOUT = 60.0


class Source:
    """An idempotent producer in a thread, at a steady rate. It records its values in the order of each partition."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, rate: int, seed: int, padding: int) -> None:
        self._topic = topic
        self._rate = rate
        self._padding = b"." * padding
        self._chance = random.Random(seed)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="source")
        self._failures: list[str] = []
        self.sent: dict[int, list[Record]] = {partition: [] for partition in range(partitions)}
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 5,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 300,
                "log_level": 0,
            }
        )

    def count(self) -> int:
        return sum(len(records) for records in self.sent.values())

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def finish(self) -> list[str]:
        """Returns the errors of records that could not be written. No fault of the broker excuses them."""
        self.stop()
        left = self._producer.flush(_FLUSH_TIMEOUT)
        return [*self._failures, *([f"{left} records of the input were never acknowledged"] if left else [])]

    def _run(self) -> None:
        began = time.monotonic()
        while not self._stop.wait(_TICK):
            while self.count() < (time.monotonic() - began) * self._rate:
                self._send(self._chance.randrange(len(self.sent)))
            self._producer.poll(0)

    def _send(self, partition: int) -> None:
        """Checks that offsets are contiguous: nothing is lost or duplicated."""
        offset = len(self.sent[partition])
        key = b"key-%d-%d" % (partition, self._chance.randrange(_KEYS))
        record = Record(offset, key, b"%d/%d%b" % (partition, offset, self._padding))
        self.sent[partition].append(record)
        self._producer.produce(
            self._topic, value=record.value, key=record.key, partition=partition, on_delivery=self._report
        )

    def _report(self, error: Any, _: Any) -> None:
        if error is not None:
            self._failures.append(f"a record of the input was not written: {error}")
