"""A case: one load for each broker, and its metrics."""

import contextlib
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from bench import generator, wire
from bench.brokers import Broker
from bench.generator import Kind, Load
from bench.measurement import KAFKA, NULL, NULL_FSYNC, OTTLA, Metric


@dataclass(frozen=True, slots=True)
class Scale:
    """The amount of load in a measurement."""

    payload_bytes: int
    """Total payload of loads that send a fixed amount."""
    most_records: int
    """Upper limit for the number of records in such loads."""
    trips: int
    """Number of records in loads that send one record at a time."""
    seconds: float
    """Duration of loads that send for a fixed time."""
    warmup_seconds: float
    """Warm-up of such loads, before the measured window."""
    jit_seconds: float
    """How long a shared broker serves raw requests before its first case."""
    page_bytes: int
    """Amount of page cache to fill before each measurement: more than most measurements write."""
    settle_seconds: float
    """Minimum pause between measurements."""
    idle_seconds: float
    """How long a broker stays idle before or during an idle measurement."""
    counts: tuple[int, int, int]
    """Numbers of partitions and connections, to measure whether costs grow with them."""
    spark_rows: tuple[int, ...]
    """Numbers of rows in the topics that Spark reads."""
    spark_seconds: float
    """How long rows are sent through a running query."""

    def records(self, size: int) -> int:
        return min(self.payload_bytes // size, self.most_records)


FULL = Scale(
    payload_bytes=150_000_000,
    most_records=800_000,
    trips=5_000,
    seconds=2.5,
    warmup_seconds=0.5,
    jit_seconds=30.0,
    page_bytes=600_000_000,
    settle_seconds=0.6,
    idle_seconds=2.0,
    counts=(10, 1000, 5000),
    spark_rows=(1_000_000, 10_000_000),
    spark_seconds=10.0,
)
QUICK = Scale(
    payload_bytes=10_000_000,
    most_records=40_000,
    trips=300,
    seconds=0.8,
    warmup_seconds=0.1,
    jit_seconds=2.0,
    page_bytes=30_000_000,
    settle_seconds=0.0,
    idle_seconds=0.5,
    counts=(10, 50, 200),
    spark_rows=(50_000,),
    spark_seconds=2.0,
)

Measure = Callable[[Broker, Scale], Mapping[str, float]]
"""Returns a value for each metric, by name."""
Prepare = Callable[[Broker, Scale], None]

WARMED_UP = "warmed up"
"""The shape of the warm-up requests that every shared broker serves before its first case."""


def _nothing(broker: Broker, scale: Scale) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Case:
    family: str
    name: str
    metrics: tuple[Metric, ...]
    measure: Measure
    brokers: tuple[str, ...] = (KAFKA, OTTLA)
    fresh: bool = False
    """Whether the case needs a newly started broker instead of a shared, warm one."""
    nodes: int = 1
    """Number of brokers. More than one form a cluster."""
    wait: bool = True
    """Whether a fresh broker has to be ready before `measure` is called."""
    shape: str = ""
    """Cases of one shape cause the same kind of work, so one unmeasured pass warms up for all of them."""
    pass_seconds: float = 5.0
    """Approximate duration of a pass, for the estimate of the time left."""
    prepare: Prepare = _nothing
    """Called once per broker before all passes, for example to fill a topic that every pass reads."""
    clean: Prepare = _nothing

    def __str__(self) -> str:
        return f"{self.family}: {self.name}"


_names = itertools.count()


def is_null(broker: Broker) -> bool:
    return broker.name in (NULL, NULL_FSYNC)


@contextlib.contextmanager
def new_topic(broker: Broker, partitions: int = 1, configs: Mapping[str, str] | None = None) -> Iterator[str]:
    """A topic for one pass."""
    if is_null(broker):
        yield wire.null_topic(partitions)
        return
    name = f"bench-{next(_names)}"
    wire.create_topic(broker.bootstrap, name, partitions, configs)
    yield name
    wire.delete_topic(broker.bootstrap, name)


def raw_load(
    broker: Broker,
    scale: Scale,
    kind: Kind,
    topic: str,
    *,
    connections: int,
    in_flight: int,
    batch_bytes: int = wire.SMALL_BATCH,
    partitions: int = 1,
    acks: int = 1,
) -> Load:
    return Load(
        kind,
        broker.bootstrap,
        broker.process.pid,
        connections,
        in_flight,
        scale.seconds,
        scale.warmup_seconds,
        batch_bytes=batch_bytes,
        partitions=partitions,
        acks=acks,
        topic=topic,
    )


def warm_up(broker: Broker, scale: Scale) -> None:
    """Send many small and some large requests of both kinds, so that the JIT compiler has compiled their code."""
    if is_null(broker):
        return
    with new_topic(broker, 16) as topic:
        small = raw_load(broker, scale, "produce", topic, connections=16, in_flight=16, partitions=16)
        small = replace(small, warmup_seconds=0.0, seconds=0.4 * scale.jit_seconds)
        sent = generator.run(small).requests
        generator.run(replace(small, kind="fetch", partitions=min(16, sent)))
        generator.run(replace(small, connections=4, in_flight=20, batch_bytes=16_384, seconds=small.seconds / 2))
