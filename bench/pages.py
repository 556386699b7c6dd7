"""The pages of the report: introduction, method, and the families on each page."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.machine import Machine
from bench.measurement import CONNECTOR, KAFKA
from bench.workloads import FAMILIES

BROKERS_INTRODUCTION = """\
Ottla compared with Apache Kafka, measured by `make bench` in one run. A ratio is Ottla's median divided by the
median of the reference. The reference is Apache Kafka unless another is named. If several cases share a bar, the
table shows the worst and the best ratio.
"""

BROKERS_METHOD = """\
## How it was measured

Both brokers run on the same machine at the same time. They get the load in turn, case by case, and the order changes
with every repeat. Between measurements, dirty pages are written, and some page cache is filled and freed, so that the
host of a virtual machine does not take back the memory that the next broker writes to. Apache Kafka runs as one KRaft
node that is broker and controller, with the JVM flags of its start script (1 GB heap, G1). Both brokers run with their
defaults, with two exceptions: groups do not wait for more members (`group.initial.rebalance.delay.ms=0`), and deleted
segments are removed after half a second. Before the first measurement, each broker serves small and large requests for
{warmup:.0f} s, so that the JIT compiler has compiled the code. The first case of each shape (its client, the number of
partitions, the compression) starts with an unmeasured pass.

Cells show the median of {repeats} repeats and, as ±, the largest distance of a repeat from the median. CPU is the
broker's user and system time. ProducerPerformance is read in its steady state, after a third of its records.
ConsumerPerformance is read by its fetch time, which excludes the forming of the group. EndToEndLatency prints
percentiles in whole milliseconds, and the middle of the millisecond is used; librdkafka makes the same trips with a
finer clock. The null broker only receives and writes to a file, or sends a file. With fsync it syncs once for each
request, one after the other. Memory and start use a new broker for every repeat. Formatting Kafka's storage is not
counted. In the plots a red line marks the bar: Ottla must be beyond the line for rates and before the line for costs.
"""

SPARK_INTRODUCTION = """\
Ottla's data source for Spark (`format("ottla")`, no jars) compared with Spark's own Kafka connector
(`format("kafka")`, on the JVM), measured by `make bench ONLY=spark` in one run. A ratio is Ottla's median divided by
the median of the reference. If several cases share a bar, the table shows the worst and the best ratio.
"""

SPARK_METHOD = """\
## How it was measured

Both read the same topics of four partitions from the same broker, which is Ottla. Records have a key of 10 bytes and
a value of 100 bytes. librdkafka wrote them without compression. Each side has its own SparkSession in its own process,
`local[*]`, with Spark's defaults for everything that affects speed (1 GB of heap, no preset of Ottla). The sides work
in turn, the order changes with every repeat, and every case starts with an unmeasured pass. The connector is measured
with its defaults and with options that make it faster, `kafka.max.poll.records=10000` and
`kafka.fetch.max.wait.ms=10`.

- Batch to noop: from `spark.read` until the sink `noop` has all rows, planning included.
- availableNow to parquet: from `spark.readStream` until the query has ended, in one micro-batch.
- Topic to topic: records of 100 bytes, 50 per second, from the producer's call until a consumer has received them from
  the topic that a running query writes to, after 5 s of warm-up. Each side uses its own source and its own sink, and
  the default trigger: the next micro-batch begins when the last one has ended.

Cells show the median of {repeats} repeats and, as ±, the largest distance of a repeat from the median. The CPU of Spark
is the user and system time of the session, its Java process and its Python workers. In the plots a red line marks the
bar.
"""


@dataclass(frozen=True, slots=True)
class Page:
    name: str
    """Name of the file, and of the directory with its plots."""
    title: str
    families: Sequence[str]
    reference: str
    """Heading of the reference's column."""
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
