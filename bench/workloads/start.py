"""The time from the start of the process to the first acknowledged message, with an empty data directory."""

import itertools
import time
from collections.abc import Mapping

from bench import wire
from bench.brokers import START_TIMEOUT, Broker, BrokerError
from bench.case import Case, Scale
from bench.measurement import Metric, Unit, at_most
from ottla.errors import ErrorCode

_PAUSE = 0.002
_attempts = itertools.count()
"""Numbers the attempts: a failed attempt may have created its topic, so each uses its own."""


def cases(scale: Scale) -> list[Case]:
    metrics = (
        Metric(
            "first acknowledged message",
            Unit.SECONDS,
            at_most(1 / 8, "start to first acknowledged message"),
            plotted=True,
        ),
        Metric("CPU used until then", Unit.SECONDS),
    )
    return [Case("start", "empty data directory", metrics, _measure, fresh=True, wait=False, pass_seconds=3.0)]


def _measure(broker: Broker, scale: Scale) -> Mapping[str, float]:
    """Kafka's storage is formatted before its process starts, which is not counted."""
    deadline = time.perf_counter() + START_TIMEOUT
    while not _first_message(broker):
        broker.check()
        if time.perf_counter() > deadline:
            raise BrokerError(f"{broker.name} acknowledged nothing in {START_TIMEOUT:.0f} s")
        time.sleep(_PAUSE)
    seconds = time.perf_counter() - broker.started
    return {"first acknowledged message": seconds, "CPU used until then": broker.cpu_seconds()}


def _first_message(broker: Broker) -> bool:
    try:
        with wire.Client(broker.bootstrap) as client:
            topic = f"first-{next(_attempts)}"
            wire.create_topic(broker.bootstrap, topic)
            return wire.produce(client, topic, 0, wire.batch_of(wire.SMALL_BATCH)) == ErrorCode.NONE
    except (OSError, wire.TopicError):
        return False
