"""librdkafka with its defaults, as used from Python."""

from collections.abc import Mapping
from functools import partial

from bench import librdkafka, wire
from bench.brokers import Broker
from bench.case import Case, Scale, new_topic
from bench.librdkafka import Load
from bench.measurement import Metric, Unit

_METRICS = (
    Metric("throughput", Unit.RECORDS_PER_SECOND, plotted=True),
    Metric("broker CPU", Unit.SECONDS_PER_GIGABYTE, plotted=True),
)
_SIZES = {"100 B": 100, "1 KB": 1000}


def cases(scale: Scale) -> list[Case]:
    producing = [
        Case(
            "librdkafka",
            f"produce {label}, acks=all",
            _METRICS,
            partial(_produce, size=size),
            shape="librdkafka produce",
        )
        for label, size in _SIZES.items()
    ]
    return producing + [_consume_case(label, size) for label, size in _SIZES.items()]


def _consume_case(label: str, size: int) -> Case:
    topic = f"librdkafka-{size}"
    return Case(
        "librdkafka",
        f"consume {label}",
        _METRICS,
        partial(_consume, topic=topic, size=size),
        shape="librdkafka consume",
        prepare=partial(_fill, topic=topic, size=size),
        clean=partial(_drop, topic=topic),
    )


def _send(broker: Broker, topic: str, records: int, size: int) -> float:
    """Returns the duration in seconds."""
    seconds = librdkafka.run(Load("produce", broker.bootstrap, topic, records, size)).seconds
    [arrived] = wire.end_offsets(broker.bootstrap, topic)
    if arrived < records:
        raise RuntimeError(f"{arrived} of {records} records arrived")
    return seconds


def _produce(broker: Broker, scale: Scale, *, size: int) -> Mapping[str, float]:
    records = scale.records(size)
    with new_topic(broker) as topic:
        before = broker.cpu_seconds()
        seconds = _send(broker, topic, records, size)
        used = broker.cpu_seconds() - before
    return {"throughput": records / seconds, "broker CPU": used / (records * size / 1e9)}


def _fill(broker: Broker, scale: Scale, *, topic: str, size: int) -> None:
    wire.create_topic(broker.bootstrap, topic)
    _send(broker, topic, scale.records(size), size)


def _drop(broker: Broker, scale: Scale, *, topic: str) -> None:
    wire.delete_topic(broker.bootstrap, topic)


def _consume(broker: Broker, scale: Scale, *, topic: str, size: int) -> Mapping[str, float]:
    records = scale.records(size)
    before = broker.cpu_seconds()
    seconds = librdkafka.run(Load("consume", broker.bootstrap, topic, records, size)).seconds
    used = broker.cpu_seconds() - before
    return {"throughput": records / seconds, "broker CPU": used / (records * size / 1e9)}
