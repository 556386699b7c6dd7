"""Apache Kafka from its jars: broker configuration, JVM flags, performance tools and parsers of their output."""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
TOOL_TIMEOUT = 600

PERFORMANCE_FLAGS = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)
"""The flags that kafka-run-class.sh passes to every JVM."""

_JMX_FLAGS = (
    "-Dcom.sun.management.jmxremote=true",
    "-Dcom.sun.management.jmxremote.authenticate=false",
    "-Dcom.sun.management.jmxremote.ssl=false",
)

SERVER_JVM_FLAGS = ("-Xmx1G", "-Xms1G", *PERFORMANCE_FLAGS, *_JMX_FLAGS)
"""With the heap of kafka-server-start.sh. The flag for its garbage collection log is added at start."""

TOOL_JVM_FLAGS = ("-Xmx512M", *PERFORMANCE_FLAGS)
"""With the heap of kafka-producer-perf-test.sh and kafka-consumer-perf-test.sh."""


class ToolError(Exception):
    """A tool failed or printed unexpected output."""


def jars() -> Path:
    """The directory of the jars: KAFKA_JARS, or the one that `make kafka-jars` fills under build/."""
    return Path(os.environ.get("KAFKA_JARS") or Path(__file__).parent.parent / "build" / "kafka-jars")


def java(flags: Sequence[str]) -> list[str]:
    return ["java", *flags, "-cp", f"{jars()}/*"]


def missing() -> str | None:
    """The reason why Apache Kafka cannot run here, if any."""
    if shutil.which("java") is None:
        return "Java is not installed; Apache Kafka needs 17 or newer"
    if not any(jars().glob("kafka_2.13-*.jar")):
        return "Apache Kafka's jars are missing; `make kafka-jars` fetches them"
    return None


def version() -> str:
    [jar] = jars().glob("kafka_2.13-*.jar")
    return jar.stem.removeprefix("kafka_2.13-")


def server_properties(data: Path, port: int, controller_port: int, settings: Mapping[str, str]) -> str:
    """One node as broker and controller, with Kafka's defaults where a single node allows them."""
    properties = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "log.dirs": str(data),
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        **settings,
    }
    return "".join(f"{key}={value}\n" for key, value in properties.items())


def run_tool(name: str, *arguments: str) -> str:
    command = [*java(TOOL_JVM_FLAGS), f"org.apache.kafka.tools.{name}", *arguments]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TOOL_TIMEOUT)
    if done.returncode != 0:
        raise ToolError(f"{name} failed: {done.stdout[-1500:]}{done.stderr[-1500:]}")
    return done.stdout


@dataclass(frozen=True, slots=True)
class ProducerResult:
    records: int
    records_per_second: float
    average_latency_ms: float
    p99_latency_ms: float


_PRODUCED = re.compile(
    r"^(?P<records>\d+) records sent, (?P<rate>[\d.]+) records/sec \([\d.]+ MB/sec\), "
    r"(?P<average>[\d.]+) ms avg latency, [\d.]+ ms max latency, "
    r"\d+ ms 50th, \d+ ms 95th, (?P<p99>\d+) ms 99th",
    re.MULTILINE,
)
_STEADY = re.compile(r"^(\d+) steady state records sent", re.MULTILINE)


def parse_producer(output: str) -> ProducerResult:
    """Parse the last summary, which is the steady state with `--warmup-records`. Raises ToolError after errors."""
    if "error" in output.lower() or "exception" in output.lower():
        raise ToolError(f"ProducerPerformance reported errors: {output[-1500:]}")
    text = _STEADY.sub(r"\1 records sent", output)
    summaries = list(_PRODUCED.finditer(text))
    if not summaries:
        raise ToolError(f"ProducerPerformance printed no summary: {output[-1500:]}")
    last = summaries[-1]
    return ProducerResult(int(last["records"]), float(last["rate"]), float(last["average"]), float(last["p99"]))


@dataclass(frozen=True, slots=True)
class ConsumerResult:
    records: int
    megabytes_per_second: float
    records_per_second: float


def parse_consumer(output: str) -> ConsumerResult:
    """Parse the rates during fetching, which exclude the time until the group is formed."""
    lines = [line.split(", ") for line in output.splitlines() if ", " in line]
    rows = [row for row in lines if len(row) == 10]
    if len(rows) < 2:
        raise ToolError(f"ConsumerPerformance printed no summary: {output[-1500:]}")
    result = dict(zip(rows[0], rows[-1], strict=True))
    try:
        return ConsumerResult(
            int(result["data.consumed.in.nMsg"]), float(result["fetch.MB.sec"]), float(result["fetch.nMsg.sec"])
        )
    except (KeyError, ValueError) as error:
        raise ToolError(f"ConsumerPerformance printed unexpected output: {output[-1500:]}") from error


@dataclass(frozen=True, slots=True)
class EndToEndResult:
    average_ms: float
    p50_ms: float
    p99_ms: float


_AVERAGE = re.compile(r"Avg latency: ([\d.]+) ms")
_PERCENTILES = re.compile(r"Percentiles: 50th = ([\d.]+), 99th = ([\d.]+)")


def parse_end_to_end(output: str) -> EndToEndResult:
    average, percentiles = _AVERAGE.search(output), _PERCENTILES.search(output)
    if average is None or percentiles is None:
        raise ToolError(f"EndToEndLatency printed no summary: {output[-1500:]}")
    return EndToEndResult(float(average[1]), float(percentiles[1]), float(percentiles[2]))
