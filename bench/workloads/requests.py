"""Request rates, measured by the raw generator."""

from collections.abc import Mapping
from functools import partial

from bench import generator, wire
from bench.brokers import Broker
from bench.case import WARMED_UP, Case, Scale, new_topic, raw_load
from bench.measurement import KAFKA, NULL, OTTLA, Metric, Unit, at_least, at_most

_SMALL = (
    Metric(
        "rate",
        Unit.REQUESTS_PER_SECOND,
        at_least(2.0, "16 connections, one small batch per request: requests/s"),
        plotted=True,
    ),
    Metric(
        "broker CPU",
        Unit.MICROSECONDS_PER_REQUEST,
        at_most(1 / 3, "16 connections, one small batch per request: broker CPU per request"),
        plotted=True,
    ),
    Metric("p50", Unit.MILLISECONDS),
    Metric("p99", Unit.MILLISECONDS, plotted=True),
)
_FLOOR = (
    Metric("rate", Unit.REQUESTS_PER_SECOND, None, NULL),
    Metric("broker CPU", Unit.MICROSECONDS_PER_REQUEST, None, NULL),
)
"""The limit for a broker in Python, measured with one that only receives, writes and answers."""
_MEDIUM = tuple(Metric(metric.name, metric.unit, plotted=metric.plotted) for metric in _SMALL)


def cases(scale: Scale) -> list[Case]:
    return [
        Case(
            "requests",
            f"16 connections, one {wire.SMALL_BATCH} B batch each",
            _SMALL + _FLOOR,
            partial(_measure, connections=16, in_flight=16, batch_bytes=wire.SMALL_BATCH),
            (KAFKA, OTTLA, NULL),
            shape=WARMED_UP,
        ),
        Case(
            "requests",
            "4 connections, 5 in flight on each, 16 KB batches",
            _MEDIUM,
            partial(_measure, connections=4, in_flight=20, batch_bytes=16_384),
            shape=WARMED_UP,
        ),
    ]


def _measure(
    broker: Broker, scale: Scale, *, connections: int, in_flight: int, batch_bytes: int
) -> Mapping[str, float]:
    with new_topic(broker) as topic:
        load = raw_load(
            broker, scale, "produce", topic, connections=connections, in_flight=in_flight, batch_bytes=batch_bytes
        )
        result = generator.run(load)
    return {
        "rate": result.requests_per_second,
        "broker CPU": result.cpu_us_per_request,
        "p50": result.p50_ms,
        "p99": result.p99_ms,
    }
