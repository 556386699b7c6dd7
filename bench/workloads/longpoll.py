"""64 consumers with an open fetch at the end of one partition, while one producer writes to it."""

from collections.abc import Mapping
from functools import partial

from bench import generator
from bench.brokers import Broker
from bench.case import Case, Scale, new_topic, raw_load
from bench.generator import Kind
from bench.measurement import Metric, Unit, at_least

_CONSUMERS = 64
_METRICS = (
    Metric(
        "delivered",
        Unit.DELIVERIES_PER_SECOND,
        at_least(1.5, "64 consumers long-polling, one producer: batches delivered/s"),
        plotted=True,
    ),
    Metric("broker CPU", Unit.MICROSECONDS_PER_REQUEST, plotted=True),
    Metric("p50", Unit.MILLISECONDS),
    Metric("p99", Unit.MILLISECONDS),
)


def cases(scale: Scale) -> list[Case]:
    return [
        Case("longpoll", "a batch when all have the last one", _METRICS, partial(_measure, kind="fan-out")),
        Case("longpoll", "a batch when the last one is acknowledged", _METRICS, partial(_measure, kind="free fan-out")),
    ]


def _measure(broker: Broker, scale: Scale, *, kind: Kind) -> Mapping[str, float]:
    with new_topic(broker) as topic:
        load = raw_load(broker, scale, kind, topic, connections=_CONSUMERS, in_flight=_CONSUMERS + 1)
        result = generator.run(load)
    return {
        "delivered": result.requests_per_second,
        "broker CPU": result.cpu_us_per_request,
        "p50": result.p50_ms,
        "p99": result.p99_ms,
    }
