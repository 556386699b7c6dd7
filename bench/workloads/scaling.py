"""Whether a request costs more when there are many partitions or connections, and what an idle one costs."""

import contextlib
import time
from collections.abc import Mapping
from dataclasses import replace

from bench import generator, wire
from bench.brokers import Broker
from bench.case import Case, Measure, Scale, new_topic, raw_load, warm_up
from bench.generator import Load
from bench.measurement import Metric, Unit

_IN_FLIGHT = 10
"""No more than the smallest number of connections, so that all numbers of them are asked the same."""


def cases(scale: Scale) -> list[Case]:
    return [_case(scale, "partitions", _partitions), _case(scale, "connections", _connections)]


def _case(scale: Scale, what: str, measure: Measure) -> Case:
    costs = [
        Metric(f"{kind} at {count:,}", Unit.MICROSECONDS_PER_REQUEST, plotted=True)
        for kind in ("produce", "fetch")
        for count in scale.counts
    ]
    idle = [
        Metric("memory of an idle one", Unit.KILOBYTES_EACH),
        Metric("CPU of an idle one", Unit.MICROSECONDS_PER_SECOND_EACH),
    ]
    return Case("scaling", what, (*costs, *idle), measure, fresh=True)


def _partitions(broker: Broker, scale: Scale) -> Mapping[str, float]:
    """Topics are added until the broker has as many partitions as wanted; the load goes round the newest topic."""
    warm_up(broker, scale)
    idle = _Idle(broker, scale)
    values: dict[str, float] = {}
    existing = 0
    for count in scale.counts:
        topic = f"scaling-{count}"
        wire.create_topic(broker.bootstrap, topic, count - existing)
        if count == scale.counts[-1]:
            values |= idle.cost_of(count)
        values |= _costs(count, _load(broker, scale, topic, count - existing, _IN_FLIGHT))
        existing = count
    return values


def _connections(broker: Broker, scale: Scale) -> Mapping[str, float]:
    """Connections take turns, so that each of them is used and most are idle at any time."""
    warm_up(broker, scale)
    idle = _Idle(broker, scale)
    most = scale.counts[-1]
    with contextlib.ExitStack() as stack:
        for _ in range(most):
            stack.enter_context(wire.Client(broker.bootstrap)).hello()
        values = dict(idle.cost_of(most))
    with new_topic(broker) as topic:
        for count in scale.counts:
            values |= _costs(count, _load(broker, scale, topic, 1, count))
    return values


def _load(broker: Broker, scale: Scale, topic: str, partitions: int, connections: int) -> Load:
    return raw_load(
        broker, scale, "produce", topic, connections=connections, in_flight=_IN_FLIGHT, partitions=partitions
    )


def _costs(count: int, load: Load) -> dict[str, float]:
    produced = generator.run(load)
    fetch = replace(load, kind="fetch", partitions=min(load.partitions, produced.requests))
    fetched = generator.run(fetch)
    return {
        f"produce at {count:,}": produced.cpu_us_per_request,
        f"fetch at {count:,}": fetched.cpu_us_per_request,
    }


class _Idle:
    """What an idle broker used before something was added, once it has come to rest after its warm-up."""

    def __init__(self, broker: Broker, scale: Scale) -> None:
        self._broker = broker
        self._seconds = scale.idle_seconds
        time.sleep(self._seconds)
        self._rss, self._cpu = self._look()

    def cost_of(self, count: int) -> Mapping[str, float]:
        """What one of them adds. A broker that gave memory back meanwhile shows as nothing."""
        rss, cpu = self._look()
        return {
            "memory of an idle one": max(0.0, (rss - self._rss) / count / 1e3),
            "CPU of an idle one": max(0.0, (cpu - self._cpu) / count * 1e6),
        }

    def _look(self) -> tuple[int, float]:
        """Resident bytes, and CPU seconds per second."""
        before = self._broker.cpu_seconds()
        time.sleep(self._seconds)
        return self._broker.usage().rss_bytes, (self._broker.cpu_seconds() - before) / self._seconds
