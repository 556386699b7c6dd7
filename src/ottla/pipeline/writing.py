"""Write the rows of a query to its sink."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import BinaryType, StringType

from ottla.pipeline.checkpoints import resolve
from ottla.pipeline.failures import PipelineError
from ottla.pipeline.parquet import ParquetDirectory
from ottla.pipeline.parsing import RECORD
from ottla.pipeline.sinks import ConsoleSink, FormatSink, ParquetSink, Sink, TableSink, TopicSink
from ottla.pipeline.table import Table

_RECORD_COLUMNS = ("topic", "partition", "timestamp", "headers")
"""Columns that set the corresponding field of the record, if the row has a column `value`."""


@dataclass(frozen=True, slots=True)
class Output:
    """The settings of a query apart from its rows."""

    name: str
    checkpoint: str
    trigger: Mapping[str, Any]
    bootstrap_server: str
    base: Path
    echo: Callable[[str], None]

    def configure(self, writer: Any) -> Any:
        return writer.queryName(self.name).option("checkpointLocation", self.checkpoint).trigger(**self.trigger)


def start_sink(frame: DataFrame, sink: Sink, output: Output) -> StreamingQuery:
    """Start the query of a sink. Exceptions of Spark pass through."""
    match sink:
        case TopicSink():
            writer = _to_topic(frame, sink, output)
        case ParquetSink():
            writer = _to_parquet(frame, sink, output)
        case TableSink():
            writer = _to_table(frame, sink, output)
        case ConsoleSink():
            writer = _to_console(frame, sink, output)
        case FormatSink():
            writer = _to_format(frame, sink, output)
        case _:
            raise PipelineError(f"{type(sink).__name__} is not a sink of Ottla.")
    query: StreamingQuery = output.configure(writer.outputMode(sink.mode)).start()
    return query


def topic_rows(frame: DataFrame, key: str | None) -> DataFrame:
    """Convert rows to records: JSON objects, unless the column `value` exists and is text or bytes."""
    types = {field.name: field.dataType for field in frame.schema.fields}
    if key is not None and key not in types:
        raise PipelineError(f"the key {key} is not a column; the columns are {', '.join(types)}")
    chosen = [F.col(key).cast("string").alias("key")] if key else []
    if isinstance(types.get("value"), StringType | BinaryType):
        if key is None and "key" in types:
            chosen.append(F.col("key"))
        return frame.select(*chosen, "value", *(name for name in _RECORD_COLUMNS if name in types))
    columns = [name for name in types if name != RECORD]
    return frame.select(*chosen, F.to_json(F.struct(*columns)).alias("value"))


def _to_topic(frame: DataFrame, sink: TopicSink, output: Output) -> Any:
    options = {
        "kafka.bootstrap.servers": output.bootstrap_server,
        "topic": sink.topic,
        "delivery": sink.delivery,
        **sink.options,
    }
    records = topic_rows(frame, sink.key)
    if sink.mode == "append":
        return records.writeStream.format("ottla").options(**options)
    # In Spark, a Python sink supports only append, so other modes write batch by batch.
    return records.writeStream.foreachBatch(
        lambda rows, _: rows.write.format("ottla").options(**options).mode("append").save()
    )


def _to_parquet(frame: DataFrame, sink: ParquetSink, output: Output) -> Any:
    directory = ParquetDirectory(_local(sink.path, output.base, "to_parquet"), sink)
    return directory.prepare(frame).writeStream.foreachBatch(directory.write)


def _to_table(frame: DataFrame, sink: TableSink, output: Output) -> Any:
    table = Table(_local(sink.path, output.base, "to_table"))
    return frame.writeStream.foreachBatch(lambda rows, number: table.merge(rows, number, sink))


def _to_console(frame: DataFrame, sink: ConsoleSink, output: Output) -> Any:
    def show(rows: DataFrame, number: int) -> None:
        shown: str = rows._show_string(sink.rows, 60)  # type: ignore[operator]
        output.echo(f"{output.name}, batch {number}\n{shown}")

    return frame.writeStream.foreachBatch(show)


def _to_format(frame: DataFrame, sink: FormatSink, output: Output) -> Any:
    options = dict(sink.options)
    if "path" in options:
        options["path"] = resolve(options["path"], output.base)
    return frame.writeStream.format(sink.format).options(**options).partitionBy(*sink.partition_by)


def _local(path: str, base: Path, sink: str) -> Path:
    """The local path of a sink. These sinks rename files, which only a file system supports."""
    place = resolve(path, base).removeprefix("file://")
    if "://" in place:
        advice = 'use to_format("parquet", options={"path": ...})'
        raise PipelineError(f"{sink} writes to a file system that all machines mount, not to {path}; {advice}")
    return Path(place)
