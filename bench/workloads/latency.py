"""The latency from the producer's call until the consumer has the record, one record at a time.

Kafka's EndToEndLatency rounds percentiles down to whole milliseconds, so the middle of the millisecond is used.
librdkafka makes the same trips with a finer clock.
"""

from collections.abc import Mapping

from bench import librdkafka
from bench.brokers import Broker
from bench.case import Case, Scale, new_topic
from bench.kafka import parse_end_to_end, run_tool
from bench.measurement import Metric, Unit, at_most

_SIZE = 100
_TOOL_BAR = at_most(1 / 2, "EndToEndLatency: p50 and p99")
_TRIP_BAR = at_most(1 / 2, "the same trips by librdkafka: p50 and p99")

_TOOL_METRICS = (
    Metric("p50 (whole ms)", Unit.MILLISECONDS, _TOOL_BAR),
    Metric("p99 (whole ms)", Unit.MILLISECONDS, _TOOL_BAR),
    Metric("average", Unit.MILLISECONDS, plotted=True),
)
_TRIP_METRICS = (
    Metric("p50", Unit.MILLISECONDS, _TRIP_BAR, plotted=True),
    Metric("p99", Unit.MILLISECONDS, _TRIP_BAR, plotted=True),
)


def cases(scale: Scale) -> list[Case]:
    return [
        Case("latency", "EndToEndLatency, 100 B, acks=1", _TOOL_METRICS, _end_to_end, shape="trips", pass_seconds=10.0),
        Case("latency", "librdkafka round trips, 100 B, acks=1", _TRIP_METRICS, _round_trips, shape="trips"),
    ]


def _end_to_end(broker: Broker, scale: Scale) -> Mapping[str, float]:
    with new_topic(broker) as topic:
        output = run_tool(
            *("EndToEndLatency", "--bootstrap-server", broker.bootstrap, "--topic", topic),
            *("--num-records", str(scale.trips), "--producer-acks", "1", "--record-size", str(_SIZE)),
        )
    result = parse_end_to_end(output)
    return {"average": result.average_ms, "p50 (whole ms)": result.p50_ms + 0.5, "p99 (whole ms)": result.p99_ms + 0.5}


def _round_trips(broker: Broker, scale: Scale) -> Mapping[str, float]:
    with new_topic(broker) as topic:
        load = librdkafka.Load("round trips", broker.bootstrap, topic, scale.trips, _SIZE, acks="1")
        result = librdkafka.run(load)
    return {"p50": result.p50_ms, "p99": result.p99_ms}
