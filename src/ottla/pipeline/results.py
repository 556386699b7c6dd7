"""What pipelines have written, read without Spark, for reports."""

from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds

from ottla.pipeline.failures import PipelineError
from ottla.pipeline.table import Table

Row = dict[str, Any]


def parquet_rows(directory: Path, command: str) -> list[Row]:
    """All rows under a directory of `to_parquet`, partition columns included. Raises PipelineError without any."""
    if not any(directory.rglob("batch-*.parquet")):
        raise PipelineError(f"There is nothing in {directory} yet; run `{command}` first.")
    rows: list[Row] = _dataset(directory).to_table().to_pylist()
    return rows


def count_files(directory: Path) -> int:
    return sum(1 for _ in directory.rglob("batch-*.parquet"))


def table_rows(directory: Path, command: str) -> list[Row]:
    """All rows of a directory of `to_table`."""
    files = Table(directory).files()
    if not files:
        raise PipelineError(f"There is nothing in {directory} yet; run `{command}` first.")
    rows: list[Row] = ds.dataset(files, format="parquet").to_table().to_pylist()
    return rows


def series(rows: Iterable[Row], time: str, value: Callable[[Row], float]) -> list[tuple[float, float]]:
    """Points of a line, in the order of time."""
    return sorted((seconds(row[time]), float(value(row))) for row in rows)


def seconds(moment: datetime) -> float:
    return moment.timestamp()


def total(rows: Iterable[Row], column: str) -> int:
    return sum(int(row[column]) for row in rows)


def _dataset(directory: Path) -> Any:
    """Days are kept as text: they are the names of directories."""
    files = sorted(map(str, directory.rglob("batch-*.parquet")))
    partitioning = ds.partitioning(flavor="hive", schema=None)
    return ds.dataset(files, format="parquet", partitioning=partitioning, partition_base_dir=str(directory))
