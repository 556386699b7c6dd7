"""A table with the last row of each key, stored in parquet.

    <table>/
        versions/00000012.json      the file of each bucket after micro-batch 12
        data/00000012/bucket=3/     the buckets that this batch has rewritten

The hash of a key selects its bucket, and a batch rewrites only the buckets of its keys. A version exists as soon as its
JSON file exists. So readers see a batch completely or not at all, and a replayed batch starts from the version before
it.
"""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ottla.pipeline.failures import PipelineError
from ottla.pipeline.parquet import refuse_foreign, write_plain_timestamps
from ottla.pipeline.sinks import TableSink

_BUCKET = "bucket"
_KEPT_VERSIONS = 3
"""Older versions are deleted, with files that only they use. A reader has this many batches of time to finish."""


class Table:
    def __init__(self, path: Path) -> None:
        self._path = path

    def merge(self, rows: DataFrame, number: int, sink: TableSink) -> None:
        """Apply a micro-batch to the version before it and publish the next version."""
        _check(rows, sink)
        refuse_foreign(self._path, number, (int(each.stem) for each in self._versions()))
        base = self._files(before=number)
        bucketed = rows.withColumn(_BUCKET, F.pmod(F.xxhash64(*sink.key), F.lit(sink.buckets)).cast("int")).persist()
        try:
            touched = sorted(row[0] for row in bucketed.select(_BUCKET).distinct().collect())
            if touched or number == 0:
                self._rewrite(bucketed, touched, base, number, sink)
        finally:
            bucketed.unpersist()
        self._clean()

    def read(self, spark: SparkSession) -> DataFrame:
        """The table after the last finished batch. Raises PipelineError if there is none."""
        files = self.files()
        if not files:
            raise PipelineError(f"{self._path} is not a table, or nothing was written to it yet.")
        return spark.read.parquet(*files).drop(_BUCKET)

    def files(self) -> list[str]:
        """The parquet files of the current version."""
        return [str(self._path / each) for each in self._files().values()]

    def _rewrite(self, rows: Any, touched: Sequence[int], base: dict[str, str], number: int, sink: TableSink) -> None:
        old = [str(self._path / base[str(bucket)]) for bucket in touched if str(bucket) in base]
        everything = rows
        if old:
            kept = rows.sparkSession.read.parquet(*old)
            everything = kept.unionByName(rows, allowMissingColumns=True)
        names = everything.columns
        last = everything.groupBy(*sink.key).agg(F.max_by(F.struct(*names), F.col(sink.order)).alias("row"))
        result = last.select("row.*")
        if sink.deleted:
            result = result.where(~F.coalesce(F.expr(sink.deleted), F.lit(False)))
        write_plain_timestamps(rows.sparkSession)
        target = self._path / "data" / f"{number:08d}"
        # Keep the bucket as a column: single files are read without the directory that names it.
        spread = result.withColumn("_directory", F.col(_BUCKET)).repartition(_BUCKET)
        spread.write.mode("overwrite").partitionBy("_directory").parquet(str(target))
        files = {key: value for key, value in base.items() if int(key) not in touched}
        for directory in sorted(target.glob("_directory=*")):
            [file] = directory.glob("*.parquet")
            files[directory.name.partition("=")[2]] = str(file.relative_to(self._path))
        self._publish(number, files)

    def _publish(self, number: int, files: dict[str, str]) -> None:
        versions = self._path / "versions"
        versions.mkdir(parents=True, exist_ok=True)
        draft = versions / f".{number:08d}"
        draft.write_text(json.dumps(files))
        draft.replace(versions / f"{number:08d}.json")

    def _files(self, before: int | None = None) -> dict[str, str]:
        """The file of each bucket."""
        fitting = [each for each in self._versions() if before is None or int(each.stem) < before]
        document: dict[str, str] = json.loads(fitting[-1].read_text()) if fitting else {}
        return document

    def _versions(self) -> list[Path]:
        return sorted((self._path / "versions").glob("*.json"))

    def _clean(self) -> None:
        versions = self._versions()
        for stale in versions[:-_KEPT_VERSIONS]:
            stale.unlink()
        used = {
            Path(file).parts[1] for each in versions[-_KEPT_VERSIONS:] for file in json.loads(each.read_text()).values()
        }
        newest = versions[-1].stem if versions else ""
        for directory in (self._path / "data").glob("*"):
            if directory.name not in used and directory.name < newest:
                shutil.rmtree(directory)


def _check(rows: DataFrame, sink: TableSink) -> None:
    for column in (*sink.key, sink.order):
        if column not in rows.columns:
            raise PipelineError(f"to_table needs the column {column}; the columns are {', '.join(rows.columns)}")
