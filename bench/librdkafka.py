"""Loads by librdkafka, through confluent-kafka, in a separate process."""

import itertools
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from bench.measurement import percentile

_ROOT = Path(__file__).parent.parent
_TIMEOUT = 600
_SILENCE = 30.0
_WARMUP_TRIPS = 200
_WARMUP_SECONDS = 5.0
_EVENTS = 100_000
"""Number of distinct events: more than a dictionary page of parquet holds."""


@dataclass(frozen=True, slots=True)
class Load:
    kind: Literal["produce", "events", "consume", "round trips", "pipeline"]
    bootstrap: str
    topic: str
    records: int
    record_bytes: int
    partitions: int = 1
    acks: str = "all"
    output: str = ""
    """The topic to which a query copies the records."""
    rate: float = 0.0
    """Records per second."""


@dataclass(frozen=True, slots=True)
class LoadResult:
    seconds: float
    p50_ms: float = 0.0
    p99_ms: float = 0.0


def run(load: Load) -> LoadResult:
    done = subprocess.run(
        [sys.executable, "-m", "bench.librdkafka"],
        input=json.dumps(asdict(load)),
        capture_output=True,
        text=True,
        timeout=_TIMEOUT,
        cwd=_ROOT,
    )
    if done.returncode != 0:
        raise RuntimeError(f"the librdkafka load failed: {done.stderr[-1500:]}")
    return LoadResult(**json.loads(done.stdout))


def produce(load: Load) -> LoadResult:
    """Produce as fast as the queue accepts records. The caller checks the topic's end offsets."""
    return _produce(load, itertools.repeat((None, bytes(load.record_bytes))))


def events(load: Load) -> LoadResult:
    """The same with keys and with values like those of an application."""
    made = [
        (
            b"user-%05d" % (number * 7919 % _EVENTS),
            b'{"page":"/articles/%d","referrer":"/index","at":%d,"agent":"Mozilla/5.0 (X11; Linux x86_64)"}'
            % (number * 104_729 % 65_537, 1_700_000_000_000 + number),
        )
        for number in range(_EVENTS)
    ]
    size = load.record_bytes
    return _produce(load, itertools.cycle([(key, value[:size].ljust(size)) for key, value in made]))


def _produce(load: Load, records: Iterator[tuple[bytes | None, bytes]]) -> LoadResult:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": load.bootstrap, "acks": load.acks})
    began = time.perf_counter()
    for number, (key, value) in zip(range(load.records), records, strict=False):
        while True:
            try:
                producer.produce(load.topic, value, key, number % load.partitions)
                break
            except BufferError:
                producer.poll(0.01)
    unsent = producer.flush(_SILENCE)
    if unsent:
        raise RuntimeError(f"{unsent} records were not acknowledged")
    return LoadResult(time.perf_counter() - began)


def consume(load: Load) -> LoadResult:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": load.bootstrap, "group.id": "bench", "enable.auto.commit": False})
    began = time.perf_counter()
    consumer.assign([TopicPartition(load.topic, partition, 0) for partition in range(load.partitions)])
    received = 0
    while received < load.records:
        messages = consumer.consume(10_000, _SILENCE)
        if not messages:
            raise RuntimeError(f"only {received} of {load.records} records arrived")
        received += sum(message.error() is None for message in messages)
    seconds = time.perf_counter() - began
    consumer.close()
    return LoadResult(seconds)


def round_trips(load: Load) -> LoadResult:
    """Measure one record at a time, from the call to produce until the consumer has it."""
    from confluent_kafka import Consumer, Producer, TopicPartition

    producer = Producer({"bootstrap.servers": load.bootstrap, "acks": load.acks, "linger.ms": 0})
    consumer = Consumer({"bootstrap.servers": load.bootstrap, "group.id": "bench", "enable.auto.commit": False})
    consumer.assign([TopicPartition(load.topic, 0, 0)])
    latencies = []
    began = time.perf_counter()
    for number in range(_WARMUP_TRIPS + load.records):
        payload = number.to_bytes(8, "big").ljust(load.record_bytes, b"\0")
        sent = time.perf_counter_ns()
        producer.produce(load.topic, payload)
        message = consumer.poll(_SILENCE)
        latencies.append(time.perf_counter_ns() - sent)
        if message is None or message.error() is not None or message.value() != payload:
            raise RuntimeError(f"record {number} was not received")
        producer.poll(0)
    seconds = time.perf_counter() - began
    consumer.close()
    producer.flush(_SILENCE)
    ordered = sorted(latencies[_WARMUP_TRIPS:])
    return LoadResult(seconds, percentile(ordered, 0.5) / 1e6, percentile(ordered, 0.99) / 1e6)


def pipeline(load: Load) -> LoadResult:
    """Send records at a steady rate and wait until all of them have reached the output topic."""
    from confluent_kafka import Consumer, Producer, TopicPartition

    producer = Producer({"bootstrap.servers": load.bootstrap, "acks": load.acks, "linger.ms": 0})
    consumer = Consumer({"bootstrap.servers": load.bootstrap, "group.id": "bench", "enable.auto.commit": False})
    consumer.assign([TopicPartition(load.output, 0, 0)])
    warmup = round(_WARMUP_SECONDS * load.rate)
    sent: list[int] = []
    latencies: dict[int, int] = {}
    began = heard = time.perf_counter()
    while len(latencies) < warmup + load.records:
        due = began + len(sent) / load.rate
        if len(sent) < warmup + load.records and time.perf_counter() >= due:
            sent.append(time.perf_counter_ns())
            producer.produce(load.topic, len(sent).to_bytes(8, "big").ljust(load.record_bytes, b"\0"))
            producer.poll(0)
            continue
        message = consumer.poll(max(0.0, min(due - time.perf_counter(), 0.1)) or 0.1)
        if message is not None and message.error() is None:
            heard = time.perf_counter()
            number = int.from_bytes(message.value()[:8], "big") - 1
            latencies.setdefault(number, time.perf_counter_ns() - sent[number])
        elif time.perf_counter() > heard + _SILENCE:
            raise RuntimeError(f"only {len(latencies)} of {len(sent)} records reached the output topic")
    seconds = time.perf_counter() - began
    consumer.close()
    ordered = sorted(latencies[number] for number in range(warmup, warmup + load.records))
    return LoadResult(seconds, percentile(ordered, 0.5) / 1e6, percentile(ordered, 0.99) / 1e6)


_LOADS = {
    "produce": produce,
    "events": events,
    "consume": consume,
    "round trips": round_trips,
    "pipeline": pipeline,
}


def main() -> None:
    load = Load(**json.load(sys.stdin))
    json.dump(asdict(_LOADS[load.kind](load)), sys.stdout)


if __name__ == "__main__":
    main()
