"""Spark under test: a separate process with a SparkSession that runs one job after the other."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from bench.usage import tree_cpu_seconds_of

_ROOT = Path(__file__).parent.parent
_LOG_TAIL = 2000
_STOP_TIMEOUT = 5.0
"""How long to wait for a busy session to end."""


class SparkError(Exception):
    """A job failed or the session ended."""


@dataclass(frozen=True, slots=True)
class Job:
    kind: Literal["noop", "parquet", "start", "stop"]
    source: str = ""
    """The name of the data source."""
    options: Mapping[str, str] = field(default_factory=dict)
    sink_options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class JobResult:
    rows: int
    seconds: float


class Spark:
    """A SparkSession in a separate process, on all cores. It ends when it is closed or when this process ends."""

    def __init__(self, jars: Path | None) -> None:
        """Start the session, with the jars of a connector if given. Takes some seconds."""
        self._directory = Path(tempfile.mkdtemp(prefix="ottla-bench-spark-"))
        self._log = self._directory / "spark.out"
        environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
        paths = ",".join(map(str, sorted(jars.glob("*.jar")))) if jars is not None else ""
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "bench.spark_session", "--directory", str(self._directory), "--jars", paths],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment,
                cwd=_ROOT,
                text=True,
                start_new_session=True,
            )
        try:
            self._answer()
        except BaseException:
            self.close()
            raise

    def run(self, job: Job) -> JobResult:
        assert self._process.stdin is not None
        if self._process.stdin.closed:
            raise SparkError("the session has ended")
        try:
            self._process.stdin.write(json.dumps(asdict(job)) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise SparkError(f"Spark ended: {self._log_tail()}") from None
        answer = self._answer()
        if "error" in answer:
            raise SparkError(str(answer["error"]))
        return JobResult(int(answer["rows"]), answer["seconds"])

    def cpu_seconds(self) -> float:
        """CPU time of the session, its Java process and its Python workers."""
        return tree_cpu_seconds_of(self._process.pid)

    def close(self) -> None:
        """End the session and all processes of its process group."""
        assert self._process.stdin is not None
        try:
            with contextlib.suppress(subprocess.TimeoutExpired, BrokenPipeError):
                self._process.stdin.close()
                self._process.wait(_STOP_TIMEOUT)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            shutil.rmtree(self._directory, ignore_errors=True)

    def _answer(self) -> dict[str, float]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SparkError(f"Spark ended: {self._log_tail()}")
        answer: dict[str, float] = json.loads(line)
        return answer

    def _log_tail(self) -> str:
        return self._log.read_text(errors="replace")[-_LOG_TAIL:]


def connector_jars() -> Path:
    """The directory of the jars: SPARK_JARS, or the one that `make spark-jars` fills under build/."""
    return Path(os.environ.get("SPARK_JARS") or _ROOT / "build" / "spark-jars")


def missing() -> str | None:
    """The reason why Spark's own connector cannot run here, if any."""
    if not any(connector_jars().glob("spark-sql-kafka-*.jar")):
        return "The jars of Spark's Kafka connector are missing; `make spark-jars` fetches them"
    return None
