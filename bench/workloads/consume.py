"""Kafka's ConsumerPerformance on data in the page cache."""

from collections.abc import Mapping
from functools import partial

from bench import wire
from bench.brokers import Broker
from bench.case import Case, Scale
from bench.kafka import ToolError, parse_consumer, run_tool
from bench.measurement import Metric, Unit, at_least, at_most
from bench.workloads.produce import producer_performance

_METRICS = (
    Metric(
        "throughput", Unit.RECORDS_PER_SECOND, at_least(1.0, "ConsumerPerformance, page cache: records/s"), plotted=True
    ),
    Metric("data rate", Unit.MEGABYTES_PER_SECOND),
    Metric(
        "broker CPU",
        Unit.SECONDS_PER_GIGABYTE,
        at_most(1 / 2, "ConsumerPerformance, page cache: broker CPU per GB"),
        plotted=True,
    ),
)


def cases(scale: Scale) -> list[Case]:
    return [_case("100 B", 100, 1), _case("1 KB", 1000, 1), _case("1 KB", 1000, 16)]


def _case(label: str, size: int, partitions: int) -> Case:
    topic = f"consume-{size}-{partitions}"
    return Case(
        "consume",
        f"{label}, {partitions} partition{'s' if partitions > 1 else ''}",
        _METRICS,
        partial(_measure, topic=topic, size=size),
        shape="consume",
        pass_seconds=7.5,
        prepare=partial(_fill, topic=topic, size=size, partitions=partitions),
        clean=partial(_drop, topic=topic),
    )


def _fill(broker: Broker, scale: Scale, *, topic: str, size: int, partitions: int) -> None:
    """Write the records. They stay in the page cache."""
    wire.create_topic(broker.bootstrap, topic, partitions)
    producer_performance(broker, topic, _count(scale, size), size)


def _drop(broker: Broker, scale: Scale, *, topic: str) -> None:
    wire.delete_topic(broker.bootstrap, topic)


def _count(scale: Scale, size: int) -> int:
    """More records than for writing, because reading is faster, so that the start of the tool matters less."""
    return 4 * scale.records(size)


def _measure(broker: Broker, scale: Scale, *, topic: str, size: int) -> Mapping[str, float]:
    count = _count(scale, size)
    before = broker.cpu_seconds()
    output = run_tool(
        *("ConsumerPerformance", "--bootstrap-server", broker.bootstrap),
        *("--topic", topic, "--num-records", str(count), "--timeout", "60000"),
    )
    used = broker.cpu_seconds() - before
    result = parse_consumer(output)
    if result.records < count:
        raise ToolError(f"ConsumerPerformance got {result.records} of {count} records")
    return {
        "throughput": result.records_per_second,
        "data rate": result.megabytes_per_second,
        "broker CPU": used / (result.records * size / 1e9),
    }
