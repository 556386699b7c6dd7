"""Resident memory: of a broker that has just started, at its peak under load, and with many partitions."""

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

_BAR = at_most(1 / 8)


def cases(scale: Scale) -> list[Case]:
    partitions = scale.counts[-1]
    loaded = (
        Metric("idle", Unit.MEGABYTES, _BAR, plotted=True),
        Metric("peak under load", Unit.MEGABYTES, _BAR, plotted=True),
    )
    many = (Metric("resident", Unit.MEGABYTES, _BAR, plotted=True),)
    return [
        Case("memory", "one topic", loaded, _idle_and_loaded, fresh=True),
        Case("memory", f"{partitions:,} partitions", many, _many_partitions, fresh=True),
    ]


def _idle_and_loaded(broker: Broker, scale: Scale) -> Mapping[str, float]:
    """The loads are those of the other families: ProducerPerformance, ConsumerPerformance, small raw requests."""
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
        generator.run(_small_requests(broker, scale, topic, 16))
    return {"idle": idle / 1e6, "peak under load": broker.usage().peak_rss_bytes / 1e6}


def _many_partitions(broker: Broker, scale: Scale) -> Mapping[str, float]:
    """All written to, so that nobody wins by opening files late."""
    partitions = scale.counts[-1]
    wire.create_topic(broker.bootstrap, "many", partitions)
    load = _small_requests(broker, scale, "many", partitions)
    while generator.run(load).requests < partitions:
        load = replace(load, seconds=load.seconds * 2)
    time.sleep(scale.idle_seconds)
    return {"resident": broker.usage().rss_bytes / 1e6}


def _small_requests(broker: Broker, scale: Scale, topic: str, partitions: int) -> Load:
    load = raw_load(broker, scale, "produce", topic, connections=16, in_flight=16, partitions=partitions)
    return replace(load, warmup_seconds=0.0)
