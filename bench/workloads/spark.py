"""Spark reads topics: Ottla's data source compared with Spark's JVM connector, both on Ottla's broker.

Each side has its own SparkSession, with Spark's defaults, on all cores. The connector runs twice: with its defaults,
and with the options that made it fastest.
"""

from collections.abc import Mapping
from functools import partial
from typing import Literal

from bench import librdkafka, wire
from bench.brokers import Broker
from bench.case import Case, Scale, new_topic
from bench.measurement import CONNECTOR, OTTLA, TUNED_CONNECTOR, Metric, Unit, at_least
from bench.spark import Job, Spark, SparkError, connector_jars, missing

PARTITIONS = 4
_RATE = 50
"""Records per second. The load waits for each record."""
_DEFAULTS = "to its defaults"
_TUNED = "to its tuned options"
_TUNING = {"kafka.max.poll.records": "10000", "kafka.fetch.max.wait.ms": "10"}
_BATCH_METRICS = (
    Metric(
        _DEFAULTS,
        Unit.ROWS_PER_SECOND,
        at_least(1.5, "Spark, batch to noop: rows/s to the JVM connector's defaults"),
        CONNECTOR,
        plotted=True,
    ),
    Metric(
        _TUNED,
        Unit.ROWS_PER_SECOND,
        at_least(1.0, "Spark, batch to noop: rows/s to the JVM connector, tuned"),
        TUNED_CONNECTOR,
        plotted=True,
    ),
    Metric("CPU of Spark", Unit.MICROSECONDS_PER_ROW, reference=TUNED_CONNECTOR),
)
_STREAM_METRICS = (
    Metric(
        _DEFAULTS,
        Unit.ROWS_PER_SECOND,
        at_least(1.0, "Spark, availableNow to parquet: rows/s to the JVM connector's defaults"),
        CONNECTOR,
        plotted=True,
    ),
    Metric("CPU of Spark", Unit.MICROSECONDS_PER_ROW, reference=CONNECTOR),
)
_LATENCY_METRICS = (
    Metric("p50", Unit.MILLISECONDS, reference=CONNECTOR, plotted=True),
    Metric("p99", Unit.MILLISECONDS, reference=CONNECTOR, plotted=True),
)

_READINGS: tuple[tuple[Literal["noop", "parquet"], str, tuple[Metric, ...]], ...] = (
    ("noop", "batch to noop", _BATCH_METRICS),
    ("parquet", "availableNow to parquet", _STREAM_METRICS),
)


def cases(scale: Scale) -> list[Case]:
    return [
        *(_reading(kind, what, rows, metrics) for rows in scale.spark_rows for kind, what, metrics in _READINGS),
        Case(
            "spark",
            "topic to topic",
            _LATENCY_METRICS,
            _latency,
            (CONNECTOR, OTTLA),
            pass_seconds=scale.spark_seconds + 5,
        ),
    ]


def _reading(kind: Literal["noop", "parquet"], what: str, rows: int, metrics: tuple[Metric, ...]) -> Case:
    sides = (CONNECTOR, TUNED_CONNECTOR, OTTLA) if kind == "noop" else (CONNECTOR, OTTLA)
    return Case(
        "spark",
        f"{what}, {_short(rows)} rows",
        metrics,
        partial(_read, kind=kind, rows=rows),
        sides,
        pass_seconds=2 + rows / 700_000,
        prepare=partial(_fill, rows=rows),
        clean=_leave if kind == "noop" else partial(_drop, rows=rows),
    )


def _short(rows: int) -> str:
    return f"{rows / 1e6:g}M" if rows >= 1_000_000 else f"{rows:,}"


def _topic(rows: int) -> str:
    return f"spark-{rows}"


def _fill(broker: Broker, scale: Scale, *, rows: int) -> None:
    """Fill the topic once for all cases that read it."""
    topic = _topic(rows)
    if sum(wire.end_offsets(broker.bootstrap, topic, PARTITIONS)) == rows:
        return
    wire.create_topic(broker.bootstrap, topic, PARTITIONS)
    librdkafka.run(librdkafka.Load("events", broker.bootstrap, topic, rows, 100, PARTITIONS))
    written = sum(wire.end_offsets(broker.bootstrap, topic, PARTITIONS))
    if written != rows:
        raise wire.TopicError(f"topic {topic} has {written} records instead of {rows}")


def _leave(broker: Broker, scale: Scale) -> None:
    """Keep the topic: the next case reads the same rows."""


def _drop(broker: Broker, scale: Scale, *, rows: int) -> None:
    wire.delete_topic(broker.bootstrap, _topic(rows))


def _session(broker: Broker) -> tuple[Spark, str]:
    """The session of the measured side, and the name of its data source."""
    source = "ottla" if broker.name == OTTLA else "kafka"
    if source not in broker.clients:
        if source == "kafka" and (problem := missing()):
            raise SparkError(problem)
        broker.clients[source] = Spark(connector_jars() if source == "kafka" else None)
    session = broker.clients[source]
    assert isinstance(session, Spark)
    return session, source


def _read(broker: Broker, scale: Scale, *, kind: Literal["noop", "parquet"], rows: int) -> Mapping[str, float]:
    session, source = _session(broker)
    options = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": _topic(rows), "startingOffsets": "earliest"}
    if broker.name == TUNED_CONNECTOR:
        options |= _TUNING
    before = session.cpu_seconds()
    result = session.run(Job(kind, source, options))
    used = session.cpu_seconds() - before
    if result.rows != rows:
        raise SparkError(f"{result.rows} rows were read instead of {rows}")
    rate = rows / result.seconds
    rates = {CONNECTOR: {_DEFAULTS: rate}, TUNED_CONNECTOR: {_TUNED: rate}, OTTLA: {_DEFAULTS: rate, _TUNED: rate}}
    return {**rates[broker.name], "CPU of Spark": used / rows * 1e6}


def _latency(broker: Broker, scale: Scale) -> Mapping[str, float]:
    """The latency from the producer's call until a consumer has the row from the query's output topic."""
    session, source = _session(broker)
    server = {"kafka.bootstrap.servers": broker.bootstrap}
    with new_topic(broker) as topic, new_topic(broker) as output:
        reading = {**server, "subscribe": topic, "startingOffsets": "earliest"}
        session.run(Job("start", source, reading, {**server, "topic": output}))
        try:
            count = round(scale.spark_seconds * _RATE)
            load = librdkafka.Load("pipeline", broker.bootstrap, topic, count, 100, acks="1", output=output, rate=_RATE)
            result = librdkafka.run(load)
        finally:
            session.run(Job("stop"))
    return {"p50": result.p50_ms, "p99": result.p99_ms}
