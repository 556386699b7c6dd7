"""Resident memory of a newly started broker, at its peak under load, and with many partitions.

Also the cost of one more idle partition or connection.
"""

import contextlib
import time
from collections.abc import Mapping
from dataclasses import replace

from bench import generator, wire
from bench.brokers import Broker
from bench.case import Case, Scale, new_topic, raw_load
from bench.generator import Load
from bench.kafka import run_tool
from bench.measurement import Metric, Unit, at_most
from bench.workloads.produce import producer_performance

_IDLE = at_most(1 / 8, "memory, idle")
_LOADED = at_most(1 / 8, "memory, peak under load")


def cases(scale: Scale) -> list[Case]:
    partitions = scale.counts[-1]
    bar = at_most(1 / 8, f"memory, {partitions:,} partitions")
    loaded = (
        Metric("idle", Unit.MEGABYTES, _IDLE, plotted=True),
        Metric("peak under load", Unit.MEGABYTES, _LOADED, plotted=True),
        *_cost_metrics("connection"),
    )
    many = (Metric("resident", Unit.MEGABYTES, bar, plotted=True), *_cost_metrics("partition"))
    return [
        Case("memory", "one topic", loaded, _idle_and_loaded, fresh=True, pass_seconds=35.0),
        Case("memory", f"{partitions:,} partitions", many, _many_partitions, fresh=True, pass_seconds=28.0),
    ]


def _idle_and_loaded(broker: Broker, scale: Scale) -> Mapping[str, float]:
    """The loads of the other families: Kafka's tools, then small and large raw requests."""
    time.sleep(scale.idle_seconds)
    idle = broker.usage().rss_bytes
    size = 1000
    count = scale.records(size)
    with new_topic(broker, 16) as topic:
        producer_performance(broker, topic, count, size)
        producer_performance(broker, topic, scale.records(100), 100, ("acks=1",))
        run_tool(
            *("ConsumerPerformance", "--bootstrap-server", broker.bootstrap),
            *("--topic", topic, "--num-records", str(count), "--timeout", "60000"),
        )
        small = _small_requests(broker, scale, topic, 16)
        generator.run(small)
        generator.run(replace(small, connections=4, in_flight=4, batch_bytes=wire.LARGE_BATCH, seconds=1.0))
    peak = broker.usage().peak_rss_bytes
    return {"idle": idle / 1e6, "peak under load": peak / 1e6, **_idle_connections(broker, scale)}


def _idle_connections(broker: Broker, scale: Scale) -> Mapping[str, float]:
    count = scale.counts[-1]
    before = _AtRest(broker, scale)
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            stack.enter_context(wire.Client(broker.bootstrap)).hello()
        return _AtRest(broker, scale).cost_of_each(before, count, "connection")


def _many_partitions(broker: Broker, scale: Scale) -> Mapping[str, float]:
    """Write to all partitions before the memory is read, so that opening files late brings no advantage."""
    partitions = scale.counts[-1]
    before = _AtRest(broker, scale)
    wire.create_topic(broker.bootstrap, "many", partitions)
    costs = _AtRest(broker, scale).cost_of_each(before, partitions, "partition")
    load = _small_requests(broker, scale, "many", partitions)
    while generator.run(load).requests < partitions:
        load = replace(load, seconds=load.seconds * 2)
    time.sleep(scale.idle_seconds)
    return {"resident": broker.usage().rss_bytes / 1e6, **costs}


def _small_requests(broker: Broker, scale: Scale, topic: str, partitions: int) -> Load:
    load = raw_load(broker, scale, "produce", topic, connections=16, in_flight=16, partitions=partitions)
    return replace(load, warmup_seconds=0.0)


def _cost_metrics(what: str) -> tuple[Metric, ...]:
    return (
        Metric(f"memory of an idle {what}", Unit.KILOBYTES_EACH),
        Metric(f"CPU of an idle {what}", Unit.MICROSECONDS_PER_SECOND_EACH),
    )


class _AtRest:
    """CPU and memory of an idle broker."""

    def __init__(self, broker: Broker, scale: Scale) -> None:
        time.sleep(scale.idle_seconds / 2)
        before = broker.cpu_seconds()
        time.sleep(scale.idle_seconds)
        self.cpu_share = (broker.cpu_seconds() - before) / scale.idle_seconds
        self.rss = broker.usage().rss_bytes

    def cost_of_each(self, before: "_AtRest", count: int, what: str) -> Mapping[str, float]:
        """The cost of each added item. If the broker returned memory in between, the cost is 0."""
        return {
            f"memory of an idle {what}": max(0.0, (self.rss - before.rss) / count / 1e3),
            f"CPU of an idle {what}": max(0.0, (self.cpu_share - before.cpu_share) / count * 1e6),
        }
