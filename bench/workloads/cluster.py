"""Three nodes: the cost of replication, and the time until a dead node is replaced."""

import itertools
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bench.brokers import Broker, settle
from bench.case import Case, Scale
from bench.kafka import parse_producer
from bench.measurement import Metric, Unit, at_least, at_most
from bench.workloads.produce import producer_performance

_NODES = 3
_PARTITIONS = 6
_TIMEOUT = 120.0
_WARMUP_PART = 4
_SIZES = {"100 B": 100, "1 KB": 1000}
_METRICS = (
    Metric("throughput", Unit.RECORDS_PER_SECOND, at_least(1.3, "three brokers, acks=all: records/s"), plotted=True),
    Metric("average latency", Unit.MILLISECONDS, plotted=True),
    Metric("CPU of all brokers", Unit.SECONDS_PER_GIGABYTE, at_most(1 / 2, "three brokers: CPU per GB"), plotted=True),
)
_TRIP = Metric("one record at a time, acks=all, p50", Unit.MILLISECONDS, plotted=True)
_FAIL_OVER = Metric("until all have leaders after the broker that led them was killed", Unit.SECONDS, plotted=True)
_names = itertools.count()


def cases(scale: Scale) -> list[Case]:
    return [
        *(
            Case(
                "cluster",
                f"{label}, acks=all, 3 replicas",
                _METRICS,
                partial(_produce, size=size),
                nodes=_NODES,
                shape="replicate",
                pass_seconds=12.0,
            )
            for label, size in _SIZES.items()
        ),
        Case("cluster", f"{_PARTITIONS} partitions", (_TRIP,), _trip, nodes=_NODES, shape="trips"),
        Case(
            "cluster",
            f"{scale.counts[-1]:,} partitions",
            (_TRIP, _FAIL_OVER),
            _fail_over,
            nodes=_NODES,
            fresh=True,
            pass_seconds=60.0,
        ),
    ]


def _produce(broker: Broker, scale: Scale, *, size: int) -> Mapping[str, float]:
    count = scale.records(size)
    with _replicated_topic(broker, _PARTITIONS) as topic:
        before = broker.cpu_seconds()
        output = producer_performance(broker, topic, count, size, warmup=count // _WARMUP_PART)
        used = broker.cpu_seconds() - before
    result = parse_producer(output)
    return {
        "throughput": result.records_per_second,
        "average latency": result.average_latency_ms,
        "CPU of all brokers": used / (count * size / 1e9),
    }


def _trip(broker: Broker, scale: Scale) -> Mapping[str, float]:
    with _replicated_topic(broker, _PARTITIONS) as topic:
        return {_TRIP.name: _trip_ms(broker, topic, scale)}


def _trip_ms(broker: Broker, topic: str, scale: Scale) -> float:
    """The median time until a record that all three replicas have is acknowledged, one record at a time."""
    count = scale.trips // 20
    producer = Producer({"bootstrap.servers": broker.cluster_bootstrap, "acks": "all", "linger.ms": 0, "log_level": 0})
    seconds = []
    for number in range(2 * count):
        began = time.perf_counter()
        producer.produce(topic, bytes(100), partition=number % _PARTITIONS)
        if producer.flush(_TIMEOUT):
            raise TimeoutError(f"a record was not acknowledged within {_TIMEOUT:.0f} s")
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds[count:]) * 1e3


def _fail_over(broker: Broker, scale: Scale) -> Mapping[str, float]:
    """The time from the kill until a living broker reports living leaders for all partitions. Each cluster detects the
    dead broker in its own way: Kafka by its default heartbeats, Ottla by a released file lock."""
    victim = _NODES
    with _replicated_topic(broker, scale.counts[-1], leader=victim) as topic:
        settle(scale.idle_seconds, broker.nodes)
        trip = _trip_ms(broker, topic, scale)
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        assert _leaders(admin, topic) == {victim}, "the broker to kill does not lead all partitions"
        broker.others[-1].stop()
        killed = time.perf_counter()
        while _leaders(admin, topic) & {victim, -1}:
            if time.perf_counter() - killed > _TIMEOUT:
                raise TimeoutError(f"partitions have no leader {_TIMEOUT:.0f} s after a broker was killed")
        return {_TRIP.name: trip, _FAIL_OVER.name: time.perf_counter() - killed}


@contextmanager
def _replicated_topic(broker: Broker, partitions: int, leader: int | None = None) -> Iterator[str]:
    """A topic with replicas on all nodes, led by one of them or evenly by all."""
    admin: Any = AdminClient({"bootstrap.servers": broker.cluster_bootstrap, "log_level": 0})
    name = f"bench-cluster-{next(_names)}"
    _until(lambda: len(admin.list_topics(timeout=_TIMEOUT).brokers) == _NODES, "all brokers know each other")
    new = NewTopic(name, partitions, _NODES)
    if leader is not None:
        replicas = sorted(range(1, _NODES + 1), key=lambda node: node != leader)
        new = NewTopic(name, partitions, replica_assignment=[replicas] * partitions)
    admin.create_topics([new], operation_timeout=_TIMEOUT, request_timeout=_TIMEOUT)[name].result(_TIMEOUT)
    _until(lambda: _all_in_sync(admin, name, partitions), f"the replicas of {name} are in sync")
    yield name
    admin.delete_topics([name])[name].result(_TIMEOUT)


def _until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _TIMEOUT
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {_TIMEOUT:.0f} s: {what}")
        time.sleep(0.05)


def _all_in_sync(admin: Any, topic: str, partitions: int) -> bool:
    known = admin.list_topics(topic, timeout=_TIMEOUT).topics[topic].partitions
    return len(known) == partitions and all(len(it.isrs) == _NODES for it in known.values())


def _leaders(admin: Any, topic: str) -> set[int]:
    return {it.leader for it in admin.list_topics(topic, timeout=_TIMEOUT).topics[topic].partitions.values()}
