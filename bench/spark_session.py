"""The process of `bench.spark`: reads jobs as lines of JSON and writes the results in the same way."""

import argparse
import json
import os
import shutil
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.spark import Job

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

CONFIG = {
    "spark.log.level": "ERROR",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
}
"""No setting that affects the speed of a query: Spark is measured with its defaults."""

_QUERY_TIMEOUT = 60.0


Count = Callable[[], int]
"""Returns the number of rows. Called after the time measurement."""


class Jobs:
    def __init__(self, spark: "SparkSession", directory: Path) -> None:
        self._spark = spark
        self._directory = directory
        self._query: StreamingQuery | None = None

    def run(self, job: Job) -> dict[str, float]:
        began = time.perf_counter()
        count = getattr(self, f"_{job.kind}")(job)
        seconds = time.perf_counter() - began
        return {"rows": count(), "seconds": seconds}

    def _noop(self, job: Job) -> Count:
        """The sink `noop` reports no row count, so an observation counts the rows, for both sources alike."""
        from pyspark.sql import Observation
        from pyspark.sql.functions import count, lit

        observation = Observation()
        frame = self._table(job).observe(observation, count(lit(1)).alias("rows"))
        frame.write.format("noop").mode("overwrite").save()
        return lambda: int(observation.get["rows"])

    def _parquet(self, job: Job) -> Count:
        query = self._write(job, "parquet", {"path": str(self._directory / "table")}, availableNow=True)
        query.awaitTermination()
        return partial(_rows_of, query)

    def _start(self, job: Job) -> Count:
        """Start a query from topic to topic. Returns after its first progress report."""
        self._query = self._write(job, job.source, dict(job.sink_options), processingTime="0 seconds")
        deadline = time.monotonic() + _QUERY_TIMEOUT
        while not self._query.recentProgress and self._query.isActive and time.monotonic() < deadline:
            time.sleep(0.05)
        return partial(_rows_of, self._query)

    def _stop(self, job: Job) -> Count:
        assert self._query is not None
        self._query.stop()
        if error := self._query.exception():
            raise error
        return partial(_rows_of, self._query)

    def _table(self, job: Job) -> "DataFrame":
        return self._spark.read.format(job.source).options(**job.options).load()

    def _write(self, job: Job, sink: str, options: dict[str, str], **trigger: Any) -> "StreamingQuery":
        """Start a query with a new directory and checkpoint."""
        frame = self._spark.readStream.format(job.source).options(**job.options).load()
        if job.kind == "start":
            frame = frame.select("key", "value")
        checkpoint = str(self._directory / "checkpoint")
        return (
            frame.writeStream.format(sink).options(**options, checkpointLocation=checkpoint).trigger(**trigger).start()
        )

    def clean(self) -> None:
        if self._query is None or not self._query.isActive:
            for name in ("table", "checkpoint"):
                shutil.rmtree(self._directory / name, ignore_errors=True)


def _rows_of(query: "StreamingQuery") -> int:
    return sum(progress["numInputRows"] for progress in query.recentProgress)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--directory", type=Path, required=True)
    parser.add_argument("--jars", default="")
    arguments = parser.parse_args()
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # Redirect the output of Spark and Java, so that it does not mix with the results.
    jobs = Jobs(_session(arguments.directory, arguments.jars), arguments.directory)
    print("{}", file=answers)
    for line in sys.stdin:
        try:
            answer: dict[str, Any] = jobs.run(Job(**json.loads(line)))
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers)
        jobs.clean()


def _session(directory: Path, jars: str) -> "SparkSession":
    from pyspark.sql import SparkSession

    builder: Any = SparkSession.builder
    builder = builder.master("local[*]").appName("ottla-bench")
    settings = {**CONFIG, "spark.local.dir": str(directory), "spark.sql.warehouse.dir": str(directory / "warehouse")}
    for key, value in {**settings, **({"spark.jars": jars} if jars else {})}.items():
        builder = builder.config(key, value)
    session: SparkSession = builder.getOrCreate()
    return session


if __name__ == "__main__":
    main()
