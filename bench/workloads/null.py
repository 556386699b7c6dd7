"""1 MB requests in both directions, compared with the null broker."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from bench import generator, wire
from bench.brokers import Broker, touch_pages
from bench.case import Case, Scale, new_topic, raw_load
from bench.generator import Kind, LoadResult
from bench.measurement import KAFKA, NULL, OTTLA, Metric, Unit, at_most

_CONNECTIONS = 4
_BATCHES = 200
"""Enough to fetch different data each time, but few enough to stay in the page cache."""
_MORE_PAGES = 4
"""One pass writes two gigabytes and more."""
_MOST_SECONDS = 1.0
"""Short, because at a gigabyte per second the kernel soon throttles writers, and the disk would be measured."""
_BROKERS = (KAFKA, OTTLA, NULL)
_BAR = at_most(1.5, "1 MB requests, both ways: broker CPU per GB to the null broker")
_METRICS = (
    Metric("broker CPU", Unit.SECONDS_PER_GIGABYTE, _BAR, NULL, plotted=True),
    Metric("broker CPU", Unit.SECONDS_PER_GIGABYTE),
    Metric("data rate", Unit.MEGABYTES_PER_SECOND),
)


def cases(scale: Scale) -> list[Case]:
    return [
        Case("null", f"{kind} 1 MB requests", _METRICS, partial(_measure, kind=kind), _BROKERS)
        for kind in ("produce", "fetch")
    ]


def _measure(broker: Broker, scale: Scale, *, kind: Kind) -> Mapping[str, float]:
    with new_topic(broker) as topic:
        load = raw_load(
            broker,
            scale,
            "produce",
            topic,
            connections=_CONNECTIONS,
            in_flight=_CONNECTIONS,
            batch_bytes=wire.LARGE_BATCH,
        )
        load = replace(load, seconds=min(load.seconds, _MOST_SECONDS))
        if kind == "produce":
            touch_pages(_MORE_PAGES * scale.page_bytes)
        if kind == "fetch":
            written = generator.run(replace(load, seconds=0.5, warmup_seconds=0.0)).requests
            load = replace(load, kind="fetch", offsets=min(written, _BATCHES))
        return _values(generator.run(load))


def _values(result: LoadResult) -> Mapping[str, float]:
    return {
        "broker CPU": result.cpu_seconds / result.payload_gigabytes,
        "data rate": result.payload_gigabytes * 1000 / result.seconds,
    }
