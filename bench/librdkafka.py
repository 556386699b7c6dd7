"""Loads by librdkafka, through confluent-kafka, in a process of their own."""

import json
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from bench.measurement import percentile

_ROOT = Path(__file__).parent.parent
_TIMEOUT = 600
_SILENCE = 30.0
_WARMUP_TRIPS = 200


@dataclass(frozen=True, slots=True)
class Load:
    kind: Literal["produce", "consume", "round trips"]
    bootstrap: str
    topic: str
    records: int
    record_bytes: int
    partitions: int = 1
    acks: str = "all"


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
    """As fast as the queue takes records. Whether all arrived is for the caller to see in the topic's end offsets."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": load.bootstrap, "acks": load.acks})
    payload = bytes(load.record_bytes)
    began = time.perf_counter()
    for number in range(load.records):
        while True:
            try:
                producer.produce(load.topic, payload, partition=number % load.partitions)
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
    """One record at a time, from the call to produce until the consumer has it."""
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
            raise RuntimeError(f"record {number} did not come back")
        producer.poll(0)
    seconds = time.perf_counter() - began
    consumer.close()
    producer.flush(_SILENCE)
    ordered = sorted(latencies[_WARMUP_TRIPS:])
    return LoadResult(seconds, percentile(ordered, 0.5) / 1e6, percentile(ordered, 0.99) / 1e6)


_LOADS = {"produce": produce, "consume": consume, "round trips": round_trips}


def main() -> None:
    load = Load(**json.load(sys.stdin))
    json.dump(asdict(_LOADS[load.kind](load)), sys.stdout)


if __name__ == "__main__":
    main()
