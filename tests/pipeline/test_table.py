"""A table of the last row per key, batch after batch."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from ottla.pipeline import to_parquet, to_table
from ottla.pipeline.failures import PipelineError
from ottla.pipeline.sinks import ParquetSink, TableSink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SINK = cast(TableSink, to_table("t", key="id", order="version", deleted="op = 'd'", buckets=3))
COLUMNS = "id int, version int, op string"


def test_rows_are_replaced_deleted_and_replayed(spark: "SparkSession", tmp_path: Path) -> None:
    from ottla.pipeline.table import Table

    table = Table(tmp_path)

    def merge(number: int, *rows: tuple[int, int, str]) -> list[Any]:
        table.merge(spark.createDataFrame(list(rows), COLUMNS), number, SINK)
        return sorted((row["id"], row["version"]) for row in table.read(spark).collect())

    assert merge(0, (1, 1, "c"), (2, 2, "c"), (1, 3, "u"), (7, 4, "c")) == [(1, 3), (2, 2), (7, 4)]
    assert merge(1, (2, 5, "d"), (3, 6, "c")) == [(1, 3), (3, 6), (7, 4)]
    assert merge(1, (2, 5, "d"), (3, 6, "c")) == [(1, 3), (3, 6), (7, 4)], "a batch that is replayed changes nothing"
    assert merge(2, (2, 7, "c")) == [(1, 3), (2, 7), (3, 6), (7, 4)]
    assert merge(3, (9, 20, "u"))[-1] == (9, 20)
    assert merge(4, (9, 30, "d")) == [(1, 3), (2, 7), (3, 6), (7, 4)]
    assert len(list((tmp_path / "versions").iterdir())) == 3, "old versions are deleted"
    with pytest.raises(PipelineError, match="was written with another checkpoint"):
        merge(0, (1, 1, "c"))


def test_a_replayed_batch_replaces_its_files(spark: "SparkSession", tmp_path: Path) -> None:
    from pyspark.sql import functions as F

    from ottla.pipeline.parquet import ParquetDirectory

    sink = cast(ParquetSink, to_parquet("p", partition_by=["op"], compact_after=3))
    directory = ParquetDirectory(tmp_path, sink)

    def write(number: int, *rows: tuple[int, int, str]) -> None:
        frame = spark.createDataFrame(list(rows), COLUMNS).withColumn("at", F.lit("2026-01-01").cast("timestamp"))
        directory.write(directory.prepare(frame), number)

    def ids() -> list[int]:
        return sorted(row["id"] for row in spark.read.parquet(str(tmp_path)).collect())

    write(0, (1, 1, "a"), (2, 2, "b"))
    write(0, (1, 1, "a"), (2, 2, "b"))
    assert ids() == [1, 2]
    for number in range(1, 4):
        write(number, (number + 2, 0, "a"))
    assert ids() == [1, 2, 3, 4, 5]
    assert sorted(file.name for file in (tmp_path / "op=a").glob("*.parquet")) == [
        "batch-00000000-to-00000002.parquet",
        "batch-00000003.0.parquet",
    ]
    assert spark.read.parquet(str(tmp_path)).where("at = timestamp'2026-01-01'").count() == 5, "Spark reads its times"
    write(3, (5, 0, "a"))
    assert ids() == [1, 2, 3, 4, 5]
    write(4)
    assert not list((tmp_path / ".staging").iterdir())
    with pytest.raises(PipelineError, match="was written with another checkpoint"):
        ParquetDirectory(tmp_path, sink).write(spark.createDataFrame([], COLUMNS), 0)
