"""Holds a query in the middle of a micro-batch, for as long as a file exists."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SMALL_BATCHES = {"spark.sql.execution.arrow.maxRecordsPerBatch": "20"}
"""Rows go from one Python process to the next in small portions, so that those before the gate reach the sink."""


class Gate:
    """Rows of one partition from an offset on wait for it to open; all others pass."""

    def __init__(self, path: Path, partition: int, offset: int) -> None:
        self._path, self._partition, self._offset = path, partition, offset

    def close(self) -> None:
        self._path.touch()

    def open(self) -> None:
        self._path.unlink(missing_ok=True)

    @property
    def holder(self) -> Path:
        """The working directory of the task that waits, or waited."""
        return Path(Path(f"{self._path}.holder").read_text())

    def across(self, frame: "DataFrame") -> "DataFrame":
        return frame.mapInArrow(_waiting(str(self._path), self._partition, self._offset), frame.schema)


def _waiting(path: str, partition: int, offset: int) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def passing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.num_rows and batch["partition"][0].as_py() == partition and batch["offset"][-1].as_py() >= offset:
                Path(f"{path}.holder").write_text(os.getcwd())
                while Path(path).exists():
                    time.sleep(0.02)
            yield batch

    return passing
