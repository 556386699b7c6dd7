"""The data source `ottla` as a sink: rows become records."""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructType,
    TimestampType,
)

from ottla.spark.options import OptionError
from ottla.spark.sink_options import SinkOptions
from ottla.spark.writing import BatchMarker, WriteFailed, write_at_least_once, write_exactly_once

_QUERY_ID = "sql.streaming.queryId"
_BATCH_ID = "streaming.sql.batchId"
"""The local properties by which Spark identifies a micro-batch in its tasks."""

_TYPES: dict[str, tuple[type[DataType], ...]] = {
    "topic": (StringType,),
    "key": (StringType, BinaryType),
    "value": (StringType, BinaryType),
    "partition": (IntegerType,),
    "timestamp": (TimestampType,),
    "headers": (ArrayType,),
}


@dataclass
class Written(WriterCommitMessage):
    """The number of rows that a task has written."""

    rows: int


class OttlaWriter(DataSourceArrowWriter):
    """A batch query. Spark may retry its tasks, so a job without `queryId` and `batchId` gets a random id."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._batch = options.batch or (f"batch-{uuid.uuid4()}", 0)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        if not self._options.exactly_once:
            return Written(write_at_least_once(iterator, self._options))
        query, batch_id = self._batch
        marker = BatchMarker(query, _task().partitionId(), batch_id)
        return Written(write_exactly_once(iterator, self._options, marker))


class OttlaStreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, options: SinkOptions) -> None:
        if options.batch is not None:
            raise OptionError("queryId and batchId are only for batches, as in foreachBatch: a stream has its own")
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        if not self._options.exactly_once:
            return Written(write_at_least_once(iterator, self._options))
        task = _task()
        query, batch_id = task.getLocalProperty(_QUERY_ID), task.getLocalProperty(_BATCH_ID)
        if query is None or batch_id is None:
            raise WriteFailed("Spark did not identify the micro-batch, so it cannot be written exactly once")
        return Written(
            write_exactly_once(iterator, self._options, BatchMarker(query, task.partitionId(), int(batch_id)))
        )


def check_columns(schema: StructType, options: SinkOptions) -> None:
    """Raise OptionError unless the columns can become records. Columns that a record does not have are ignored."""
    types = {field.name: field.dataType for field in schema.fields}
    if "value" not in types:
        raise OptionError("a table written to topics needs a column named value")
    if options.topic is None and "topic" not in types:
        raise OptionError("set the option topic, or add a column named topic")
    for name, allowed in _TYPES.items():
        found = types.get(name)
        if found is not None and not isinstance(found, allowed):
            wanted = " or ".join(kind.typeName() for kind in allowed)
            raise OptionError(f"the column {name} must be {wanted}, not {found.simpleString()}")
    if "headers" in types and types["headers"].simpleString() != "array<struct<key:string,value:binary>>":
        raise OptionError(f"the column headers must be array<struct<key:string,value:binary>>, not {types['headers']}")


def _task() -> TaskContext:
    task = TaskContext.get()
    if task is None:
        raise WriteFailed("rows can be written only in a task")
    return task
