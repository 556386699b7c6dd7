"""The cost of a request with many partitions or connections."""

from collections.abc import Mapping
from dataclasses import replace

from bench import generator, wire
from bench.brokers import Broker
from bench.case import WARMED_UP, Case, Measure, Scale, new_topic, raw_load
from bench.generator import Load
from bench.measurement import Metric, Unit

_KINDS = ("produce", "fetch")
_SECONDS = 1.5
"""Maximum length of a window. CPU time is stable, so a shorter window than elsewhere is enough."""
_IN_FLIGHT = 10
"""At most the smallest number of connections, so that the load is the same for all counts."""

_OFFSETS = 8
"""Number of offsets fetched in turn from each partition, so that a broker cannot reuse its last answer."""


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
    """Connections take turns, so that all of them are used and most are idle at any time."""
    values: dict[str, float] = {}
    with new_topic(broker) as topic:
        for count in scale.counts:
            values |= _costs(count, _load(broker, scale, topic, 1, count))
    return values | _growth(values, scale)


def _partitions(broker: Broker, scale: Scale) -> Mapping[str, float]:
    """Add topics until the broker has the wanted number of partitions. The load uses the newest topic."""
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
    """Name of the ratio of the cost at the largest count to the cost at the smallest."""
    return f"{kind}, {scale.counts[-1]:,} to {scale.counts[0]:,}"
