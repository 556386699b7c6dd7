"""Kafka's ProducerPerformance at full speed."""

from collections.abc import Mapping
from functools import partial

from bench.brokers import Broker
from bench.case import Case, Scale, new_topic
from bench.kafka import ToolError, parse_producer, run_tool
from bench.measurement import KAFKA, NULL, OTTLA, Metric, Unit, at_least, at_most

_ACKS = {
    "acks=1": ("acks=1", "enable.idempotence=false"),
    "acks=all": ("acks=all", "enable.idempotence=false"),
    "idempotent": (),
}
"""The last entry is the producer's default, with acks=all."""
_SIZES = {"100 B": 100, "1 KB": 1000}
_PARTITIONS = (1, 16)
_TIMES = 4
"""Times the records of other loads, so that the tool's JVM has compiled its code within the first third."""
_WARMUP_PART = 3

_CPU = Metric("broker CPU", Unit.SECONDS_PER_GIGABYTE, plotted=True)
_FLOOR = (
    Metric("throughput", Unit.RECORDS_PER_SECOND, None, NULL),
    Metric("average latency", Unit.MILLISECONDS, None, NULL),
)
"""The limit of the tool itself, measured with a broker that only receives, writes and answers."""
_METRICS = (
    Metric("throughput", Unit.RECORDS_PER_SECOND, at_least(1.5, "ProducerPerformance: records/s"), plotted=True),
    Metric("average latency", Unit.MILLISECONDS, at_most(1 / 3, "ProducerPerformance: average latency"), plotted=True),
    _CPU,
)
_COMPRESSED = (
    Metric(
        "throughput",
        Unit.RECORDS_PER_SECOND,
        at_least(1.2, "ProducerPerformance, lz4 and zstd: records/s"),
        plotted=True,
    ),
    _CPU,
)


def cases(scale: Scale) -> list[Case]:
    plain = [
        Case(
            "produce",
            f"{label}, {acks}, {partitions} partition{'s' if partitions > 1 else ''}",
            _METRICS if properties else _METRICS + _FLOOR,
            partial(_measure, size=size, properties=properties, partitions=partitions),
            (KAFKA, OTTLA) if properties else (KAFKA, OTTLA, NULL),
            shape=f"produce to {partitions}",
            pass_seconds=10.0,
        )
        for label, size in _SIZES.items()
        for acks, properties in _ACKS.items()
        for partitions in _PARTITIONS
    ]
    compressed = [
        Case(
            "produce",
            f"{label}, {codec}",
            _COMPRESSED,
            partial(_measure, size=size, properties=(f"compression.type={codec}",), partitions=1),
            shape=f"produce {codec}",
            pass_seconds=10.0,
        )
        for label, size in _SIZES.items()
        for codec in ("lz4", "zstd")
    ]
    return plain + compressed


def _measure(
    broker: Broker, scale: Scale, *, size: int, properties: tuple[str, ...], partitions: int
) -> Mapping[str, float]:
    """The rate of the steady state: the first third of the records is warm-up."""
    count = _TIMES * scale.records(size)
    with new_topic(broker, partitions) as topic:
        before = broker.cpu_seconds()
        output = producer_performance(broker, topic, count, size, properties, warmup=count // _WARMUP_PART)
        used = broker.cpu_seconds() - before
    result = parse_producer(output)
    return {
        "throughput": result.records_per_second,
        "average latency": result.average_latency_ms,
        "broker CPU": used / (count * size / 1e9),
    }


def producer_performance(
    broker: Broker, topic: str, count: int, size: int, properties: tuple[str, ...] = (), warmup: int = 0
) -> str:
    load = ("--topic", topic, "--num-records", str(count), "--record-size", str(size), "--throughput", "-1")
    options = ("--command-property", *properties) if properties else ()
    steady = ("--warmup-records", str(warmup)) if warmup else ()
    output = run_tool("ProducerPerformance", "--bootstrap-server", broker.cluster_bootstrap, *load, *steady, *options)
    if f"{count} records sent" not in output:
        raise ToolError(f"ProducerPerformance did not send {count} records: {output[-1500:]}")
    return output
