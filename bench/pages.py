"""The pages of the report: what each is about, how it was measured, and which families are on it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.machine import Machine
from bench.measurement import CONNECTOR, KAFKA
from bench.workloads import FAMILIES

BROKERS_INTRODUCTION = """\
Ottla beside Apache Kafka, measured by `make bench` in one run. A ratio is Ottla's median divided by that
of its reference, which is Apache Kafka unless another is named. Where several cases share a bar, the worst
and the best ratio are shown.
"""

BROKERS_METHOD = """\
## How it was measured

Both brokers run on the same machine at the same time and take the load in turn, case by case; who goes first changes
with every repeat. In between, dirty pages are written out, and some page cache is filled and freed, lest a virtual
machine's host take back the memory that the next one writes to. Apache Kafka runs as one KRaft node that is broker and
controller, with the JVM flags of its own start script (1 GB heap, G1). Both run with their defaults, except that groups
do not wait for more members (`group.initial.rebalance.delay.ms=0`) and that deleted segments leave the disk after half
a second. Before anything is measured, each broker serves small and large requests for {warmup:.0f} s, so that the JIT
compiler has seen them, and the first case of each shape (its client, the number of partitions, the compression) starts
with an unmeasured pass.

Cells show the median of {repeats} repeats and, as ±, how far the farthest of them is from it. CPU is the broker's user
and system time. ProducerPerformance is read in its steady state, after a third of its records; ConsumerPerformance by
its fetch time, which leaves out the forming of the group. EndToEndLatency prints percentiles in whole milliseconds,
each of which is taken for its middle; librdkafka makes the same trips with a finer clock. The null broker receives and
writes to a file, or sends a file, and does nothing else; with fsync it syncs once for each request, one after the
other. Memory and start get a new broker for every repeat; formatting Kafka's storage is not counted. In the plots a red
line marks where Ottla's bar has to end: beyond it for rates, before it for costs.
"""

SPARK_INTRODUCTION = """\
Ottla's data source for Spark (`format("ottla")`, no jars) beside Spark's own Kafka connector (`format("kafka")`, on the
JVM), measured by `make bench ONLY=spark` in one run. A ratio is Ottla's median divided by that of its reference. Where
several cases share a bar, the worst and the best ratio are shown.
"""

SPARK_METHOD = """\
## How it was measured

Both read the same topics of four partitions from the same broker, which is Ottla. Records have a key of 10 bytes and
a value of 100 and were written by librdkafka without compression. Each side has a SparkSession of its own in a process
of its own, `local[*]`, with Spark's defaults for everything that matters to speed (1 GB of heap, no preset of Ottla's),
and works in turn; who goes first changes with every repeat, and every case starts with an unmeasured pass. The
connector is measured with its defaults and with options that make it faster,
`kafka.max.poll.records=10000` and `kafka.fetch.max.wait.ms=10`.

- Batch to noop: from `spark.read` until the rows have been handed to the sink `noop`, planning included.
- availableNow to parquet: from `spark.readStream` until the query has ended, in one micro-batch.
- Topic to topic: records of 100 bytes, 50 per second, from the producer's call until a consumer has them from the topic
  that a running query writes to, after 5 s of warm-up. Each side uses its own source and its own sink, and the default
  trigger: the next micro-batch begins when the last one has ended.

Cells show the median of {repeats} repeats and, as ±, how far the farthest of them is from it. The CPU of Spark is the
user and system time of the session, its Java process and its Python workers. In the plots a red line marks where
Ottla's bar has to end.
"""


@dataclass(frozen=True, slots=True)
class Page:
    name: str
    """Of the file, and of the directory with its plots."""
    title: str
    families: Sequence[str]
    reference: str
    """Heads the column of what Ottla is compared with."""
    introduction: str
    method: str
    machine: Callable[[Machine], Sequence[str]]

    @property
    def file(self) -> str:
        return f"{self.name}.md"


BROKERS = Page(
    "benchmarks",
    "Benchmarks",
    [family for family in FAMILIES if family != "spark"],
    KAFKA,
    BROKERS_INTRODUCTION,
    BROKERS_METHOD,
    Machine.lines,
)
SPARK = Page(
    "benchmarks-spark",
    "Benchmarks on Spark",
    ["spark"],
    CONNECTOR,
    SPARK_INTRODUCTION,
    SPARK_METHOD,
    Machine.spark_lines,
)
PAGES = (BROKERS, SPARK)
