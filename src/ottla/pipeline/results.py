"""Read the output of pipelines for reports, without Spark."""

from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds

from ottla.pipeline.table import Table

Row = dict[str, Any]


def parquet_rows(directory: Path) -> list[Row]:
    """All rows in a directory of `to_parquet`, partition columns included."""
    files = parquet_files(directory)
    if not files:
        return []
    hive = ds.partitioning(flavor="hive", schema=None)
    rows: list[Row] = (
        ds.dataset(files, format="parquet", partitioning=hive, partition_base_dir=str(directory)).to_table().to_pylist()
    )
    return rows


def parquet_files(directory: Path) -> list[str]:
    return sorted(map(str, directory.rglob("batch-*.parquet")))


def table_rows(directory: Path) -> list[Row]:
    """All rows in a directory of `to_table`."""
    files = Table(directory).files()
    rows: list[Row] = ds.dataset(files, format="parquet").to_table().to_pylist() if files else []
    return rows


def series(rows: Iterable[Row], time: str, value: Callable[[Row], float]) -> list[tuple[float, float]]:
    """The points of a line, ordered by time."""
    return sorted((seconds(row[time]), float(value(row))) for row in rows)


def seconds(moment: datetime) -> float:
    return moment.timestamp()


def total(rows: Iterable[Row], column: str) -> int:
    return sum(int(row[column]) for row in rows)
