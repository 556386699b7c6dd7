"""Traffic for the built-in pipelines: events ordered by event time, sent at a given rate."""

import json
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any, NamedTuple

from ottla.pipeline.brokers import Cluster
from ottla.pipeline.failures import PipelineError

_GARBAGE = (b"not json at all", b'{"at": "yesterday"', b"[1, 2, 3]", b'{"at": "noon"}', b"\xff\xfe\x00")


class Event(NamedTuple):
    """The data of a record to send."""

    topic: str
    key: str
    value: dict[str, Any] | None
    at: datetime


@dataclass(frozen=True, slots=True)
class Pace:
    records: int | None = None
    rate: float | None = None
    """Records per second. None: as fast as possible."""
    seconds: float | None = None
    garbage: float = 0.0
    """The share of values that are invalid, to demonstrate dead letters."""


def encode(event: Event) -> bytes | None:
    return None if event.value is None else json.dumps(event.value, separators=(",", ":"), default=timestamp).encode()


def timestamp(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def send(events: Iterator[Event], topics: dict[str, int], bootstrap_server: str, pace: Pace) -> int:
    """Create the topics with the given partition counts and send events. Returns the count. Raises PipelineError."""
    from confluent_kafka import KafkaException, Producer

    Cluster(bootstrap_server).create_topics(topics, partitions=topics)
    failures: list[str] = []
    producer = Producer(
        {"bootstrap.servers": bootstrap_server, "client.id": "ottla-traffic", "linger.ms": 20, "log_level": 0}
    )

    def delivered(error: Any, _: Any) -> None:
        if error is not None:
            failures.append(error.str())

    chance = random.Random(7)
    count = 0
    for event in paced(events, pace):
        count += 1
        value = chance.choice(_GARBAGE) if chance.random() < pace.garbage else encode(event)
        while True:
            try:
                producer.produce(event.topic, value, event.key, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.1)
            except KafkaException as error:
                raise PipelineError(f"Topic {event.topic} rejects records: {error.args[0].str()}.") from error
        producer.poll(0)
    if producer.flush(30) or failures:
        raise PipelineError(
            f"Not all records were delivered: {failures[0] if failures else 'the broker does not answer'}."
        )
    return count


def paced(events: Iterator[Event], pace: Pace) -> Iterator[Event]:
    """Yield each event when it is due, with at most 0.1 s delay, until the limits of `pace` are reached."""
    step = 100 if pace.rate is None else max(1, min(100, int(pace.rate / 10)))
    started = time.monotonic()
    for count, event in enumerate(islice(events, pace.records)):
        if count % step == 0:
            if pace.rate is not None:
                time.sleep(max(0.0, started + count / pace.rate - time.monotonic()))
            if pace.seconds is not None and time.monotonic() - started > pace.seconds:
                return
        yield event
