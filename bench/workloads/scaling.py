"""Whether a request costs more when there are many partitions or connections."""

from collections.abc import Mapping
from dataclasses import replace

from bench import generator, wire
from bench.brokers import Broker
from bench.case import WARMED_UP, Case, Measure, Scale, new_topic, raw_load
from bench.generator import Load
from bench.measurement import Metric, Unit

_KINDS = ("produce", "fetch")
_SECONDS = 1.5
"""A window, at most: CPU time is stable, so less than elsewhere is enough for all the counts."""
_IN_FLIGHT = 10
"""No more than the smallest number of connections, so that all numbers of them are asked the same."""

_OFFSETS = 8
"""Fetched in turn from each partition: a broker that remembers the last answer has to look for the next one."""


def cases(scale: Scale) -> list[Case]:
    return [
        _case(scale, "connections", _connections, pass_seconds=21.0),
        _case(scale, "partitions", _partitions, pass_seconds=34.0),
    ]


def _case(scale: Scale, what: str, measure: Measure, pass_seconds: float) -> Case:
    costs = [
        Metric(f"{kind} at {count:,}", Unit.MICROSECONDS_PER_REQUEST, plotted=True)
        for kind in _KINDS
        for count in scale.counts
    ]
    growth = [Metric(_growth_name(kind, scale), Unit.TIMES) for kind in _KINDS]
    return Case("scaling", what, (*costs, *growth), measure, shape=WARMED_UP, pass_seconds=pass_seconds)


def _connections(broker: Broker, scale: Scale) -> Mapping[str, float]:
    """Connections take turns, so that each of them is used and most are idle at any time."""
    values: dict[str, float] = {}
    with new_topic(broker) as topic:
        for count in scale.counts:
            values |= _costs(count, _load(broker, scale, topic, 1, count))
    return values | _growth(values, scale)


def _partitions(broker: Broker, scale: Scale) -> Mapping[str, float]:
    """Topics are added until the broker has as many partitions as wanted; the load goes round the newest topic."""
    values: dict[str, float] = {}
    existing = 0
    for count in scale.counts:
        wire.create_topic(broker.bootstrap, _topic(count), count - existing)
        values |= _costs(count, _load(broker, scale, _topic(count), count - existing, _IN_FLIGHT))
        existing = count
    for count in scale.counts:
        wire.delete_topic(broker.bootstrap, _topic(count))
    return values | _growth(values, scale)


def _topic(count: int) -> str:
    return f"scaling-{count}"


def _load(broker: Broker, scale: Scale, topic: str, partitions: int, connections: int) -> Load:
    scale = replace(scale, seconds=min(scale.seconds, _SECONDS))
    return raw_load(
        broker, scale, "produce", topic, connections=connections, in_flight=_IN_FLIGHT, partitions=partitions
    )


def _costs(count: int, load: Load) -> dict[str, float]:
    produced = generator.run(load)
    partitions = min(load.partitions, produced.requests)
    offsets = min(_OFFSETS, produced.requests // partitions)
    fetch = replace(load, kind="fetch", partitions=partitions, offsets=offsets)
    fetched = generator.run(fetch)
    return {
        f"produce at {count:,}": produced.cpu_us_per_request,
        f"fetch at {count:,}": fetched.cpu_us_per_request,
    }


def _growth(values: Mapping[str, float], scale: Scale) -> dict[str, float]:
    first, last = scale.counts[0], scale.counts[-1]
    return {
        _growth_name(kind, scale): values[f"{kind} at {last:,}"] / values[f"{kind} at {first:,}"] for kind in _KINDS
    }


def _growth_name(kind: str, scale: Scale) -> str:
    """What a request costs with the most of them, as a multiple of what it costs with the fewest."""
    return f"{kind}, {scale.counts[-1]:,} to {scale.counts[0]:,}"
