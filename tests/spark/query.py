"""A streaming query as a program of its own, which a test can kill. Its one argument is JSON, the fields of `Settings`.

Rows go to the partition they came from, so that the rows of one task are in one partition.
"""

import json
import os
import signal
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from tests.spark.gate import SMALL_BATCHES, Gate
from tests.spark.spark_home import spark_environment


@dataclass(frozen=True)
class Settings:
    bootstrap: str
    source: str
    sink: str
    checkpoint: str
    delivery: str
    master: str = "local[2,4]"
    limit: int = 500
    gate: tuple[str, int, int] | None = None


def main(settings: Settings) -> None:
    from pyspark.sql import SparkSession

    from tests.spark.sessions import CONFIG

    builder = SparkSession.builder.master(settings.master)
    for key, value in {**CONFIG, **SMALL_BATCHES, "spark.executor.memory": "512m"}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    source = {"kafka.bootstrap.servers": settings.bootstrap, "subscribe": settings.source}
    reader = spark.readStream.format("ottla").options(**source, startingOffsets="earliest")
    frame = reader.option("maxOffsetsPerTrigger", settings.limit).load()
    if settings.gate is not None:
        path, partition, offset = settings.gate
        frame = Gate(Path(path), partition, offset).across(frame)
    sink = {"kafka.bootstrap.servers": settings.bootstrap, "topic": settings.sink, "delivery": settings.delivery}
    writer = frame.select("key", "value", "partition").writeStream.format("ottla").options(**sink)
    query = writer.option("checkpointLocation", settings.checkpoint).trigger(availableNow=True).start()
    query.awaitTermination()


class QueryProcess:
    """The program, in a process group of its own, so that its Java processes die with it, and their Python workers."""

    def __init__(self, settings: Settings) -> None:
        command = [sys.executable, "-m", "tests.spark.query", json.dumps(asdict(settings))]
        self._process = subprocess.Popen(
            command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
            env=spark_environment(),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.running:
            self.kill()

    def finish(self) -> None:
        _, errors = self._process.communicate(timeout=600)
        assert self._process.returncode == 0, errors.decode(errors="replace")

    def kill(self) -> None:
        """-9, all of it: driver, Java and workers."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate(timeout=30)

    def said(self) -> str:
        """What the program wrote before it ended."""
        assert not self.running
        return self._process.communicate()[1].decode(errors="replace")

    @property
    def running(self) -> bool:
        return self._process.poll() is None


if __name__ == "__main__":
    main(Settings(**json.loads(sys.argv[1])))
