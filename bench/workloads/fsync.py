"""Fsync before the acknowledgement: 64 producers with flush.messages=1, compared with one fsync per request."""

from collections.abc import Mapping

from bench import generator
from bench.brokers import Broker
from bench.case import Case, Scale, new_topic, raw_load
from bench.measurement import KAFKA, NULL_FSYNC, OTTLA, Metric, Unit, at_least

_PRODUCERS = 64
_METRICS = (
    Metric(
        "rate",
        Unit.REQUESTS_PER_SECOND,
        at_least(5.0, "fsync before acknowledging, 64 producers: requests/s to one fsync per request"),
        NULL_FSYNC,
        plotted=True,
    ),
    Metric("rate", Unit.REQUESTS_PER_SECOND),
    Metric("p99", Unit.MILLISECONDS),
)


def cases(scale: Scale) -> list[Case]:
    brokers = (KAFKA, OTTLA, NULL_FSYNC)
    return [Case("fsync", "flush.messages=1, 64 producers, one partition", _METRICS, _measure, brokers)]


def _measure(broker: Broker, scale: Scale) -> Mapping[str, float]:
    with new_topic(broker, configs={"flush.messages": "1"}) as topic:
        load = raw_load(broker, scale, "produce", topic, connections=_PRODUCERS, in_flight=_PRODUCERS, acks=-1)
        result = generator.run(load)
    return {"rate": result.requests_per_second, "p99": result.p99_ms}
