"""Parquet files in directories by date. Every micro-batch adds its files exactly once, and small files are compacted.

A batch is written to a staging directory. Then its files are renamed into place, with the batch number in their names.
A batch that is replayed after a crash replaces its own files. Compaction merges only files of batches before the
current one, because Spark never replays those. Readers ignore files whose names begin with a dot.
"""

import json
import re
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ottla.env.platform import fsync
from ottla.pipeline.failures import PipelineError
from ottla.pipeline.sinks import ParquetSink

_STAGING = ".staging"
_JOURNAL = ".compaction.json"
_FILE = re.compile(r"batch-(\d+)(?:-to-(\d+))?(?:\.\d+)?\.parquet")


class ParquetDirectory:
    """The directory of one sink. Only the sink's query may write to it."""

    def __init__(self, path: Path, sink: ParquetSink) -> None:
        self._path = path
        self._sink = sink
        self._columns = (("date",) if sink.date else ()) + sink.partition_by
        self._checked = False

    def prepare(self, frame: DataFrame) -> DataFrame:
        for column in (self._sink.date, *self._sink.partition_by):
            if column is not None and column.partition(".")[0] not in frame.columns:
                raise PipelineError(f"to_parquet needs the column {column}; the columns are {', '.join(frame.columns)}")
        return frame.withColumn("date", F.to_date(self._sink.date)) if self._sink.date else frame

    def write(self, rows: DataFrame, number: int) -> None:
        """Write one micro-batch."""
        if not self._checked:
            repair(self._path)
            refuse_foreign(self._path, number, (_last_batch(file) for file in self._path.rglob("*.parquet")))
            self._checked = True
        write_plain_timestamps(rows.sparkSession)
        staging = self._path / _STAGING / str(number)
        together = rows.repartition(*self._columns) if self._columns else rows.coalesce(1)
        together.write.mode("overwrite").partitionBy(*self._columns).parquet(str(staging))
        for directory in self._adopt(staging, number):
            compact(directory, before=number, at_least=self._sink.compact_after)

    def _adopt(self, staging: Path, number: int) -> list[Path]:
        """Move the files of a batch to their final place. Returns the directories that got files."""
        directories: dict[Path, list[Path]] = {}
        for file in sorted(staging.rglob("*.parquet")):
            if _rows(file):
                directories.setdefault(self._path / file.parent.relative_to(staging), []).append(file)
        for directory, files in directories.items():
            directory.mkdir(parents=True, exist_ok=True)
            for stale in directory.glob(f"batch-{number:08d}.*.parquet"):
                stale.unlink()
            for index, file in enumerate(files):
                file.replace(directory / f"batch-{number:08d}.{index}.parquet")
        shutil.rmtree(staging)
        return list(directories)


def refuse_foreign(path: Path, number: int, written: Iterable[int | None]) -> None:
    """Raise PipelineError if later batches exist: they are from another checkpoint, and rows would be duplicated."""
    if any(each is not None and each > number for each in written):
        raise PipelineError(
            f"{path} was written with another checkpoint, and its rows would be duplicated; "
            "delete the directory, or write to another"
        )


def write_plain_timestamps(spark: SparkSession) -> None:
    """Spark's default timestamp format (INT96) is deprecated. Other readers reject it or ignore the time zone."""
    spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")


def compact(directory: Path, *, before: int, at_least: int | None) -> bool:
    """Merge the files of batches before the given one, if there are at least `at_least`. Returns whether it merged.

    A journal records the replacement before it happens. After a crash, `repair` completes it, so that no row is lost or
    duplicated. A reader that lists the directory between deletion and renaming misses the rows of these files.
    """
    files = sorted(each for each in directory.iterdir() if (last := _last_batch(each)) is not None and last < before)
    if at_least is None or len(files) < at_least:
        return False
    first, last = _first_batch(files[0]), max(_last_batch(each) or 0 for each in files)
    merged = directory / f"batch-{first:08d}-to-{last:08d}.parquet"
    _merge(files, directory / f".{merged.name}")
    journal = {"replaced": [file.name for file in files], "by": merged.name}
    _write_synced(directory / _JOURNAL, json.dumps(journal))
    _finish(directory)
    return True


def repair(path: Path) -> None:
    """Complete compactions that a crash interrupted."""
    for journal in path.rglob(_JOURNAL):
        _finish(journal.parent)


def _finish(directory: Path) -> None:
    journal = json.loads((directory / _JOURNAL).read_text())
    hidden = directory / f".{journal['by']}"
    if hidden.exists():
        for name in journal["replaced"]:
            (directory / name).unlink(missing_ok=True)
        hidden.replace(directory / journal["by"])
    (directory / _JOURNAL).unlink()


def _merge(files: Sequence[Path], target: Path) -> None:
    """Merge row group by row group, so that the files need not fit into memory, and sync the result."""
    try:
        schema = pa.unify_schemas([pq.read_schema(file) for file in files])
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise PipelineError(
            f"the columns of {target.parent} have different types than before; use another path: {error}"
        ) from error
    with pq.ParquetWriter(target, schema, compression="snappy") as writer:
        for file in files:
            source = pq.ParquetFile(file)
            for index in range(source.num_row_groups):
                writer.write_table(_fitted(source.read_row_group(index), schema))
    with target.open("rb+") as written:
        fsync(written.fileno())


def _fitted(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Add missing columns with null values: files written before a column was added do not have it."""
    for field in schema:
        if field.name not in table.column_names:
            table = table.append_column(field, pa.nulls(table.num_rows, field.type))
    return table.select(schema.names).cast(schema)


def _rows(file: Path) -> int:
    return int(pq.read_metadata(file).num_rows)


def _first_batch(file: Path) -> int:
    match = _FILE.fullmatch(file.name)
    return int(match[1]) if match else 0


def _last_batch(file: Path) -> int | None:
    match = _FILE.fullmatch(file.name)
    return None if match is None else int(match[2] or match[1])


def _write_synced(path: Path, text: str) -> None:
    draft = path.with_suffix(".draft")
    with draft.open("w") as file:
        file.write(text)
        file.flush()
        fsync(file.fileno())
    draft.replace(path)
