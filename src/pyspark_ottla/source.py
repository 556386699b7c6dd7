"""The data source `ottla`: topics as tables and streams."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from ottla.spark.bounds import offsets_from_json, offsets_to_json
from ottla.spark.options import OptionError, SourceOptions, boolean, parse_source_options
from ottla.spark.planning import plan_batch
from ottla.spark.ranges import OffsetRange
from ottla.spark.reading import read_range
from ottla.spark.session import Session
from ottla.spark.sink_options import SinkOptions, parse_sink_options
from ottla.spark.stream import Stream
from pyspark_ottla.sink import OttlaStreamWriter, OttlaWriter, check_columns

_COLUMNS = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
)
_HEADERS = ", headers array<struct<key: string, value: binary>>"

JsonOffsets = dict[str, dict[str, int]]


class OttlaDataSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "ottla"

    def schema(self) -> str:
        return columns(self.options)

    def reader(self, schema: StructType) -> "OttlaReader":
        return OttlaReader(parse_source_options(self.options, streaming=False))

    def streamReader(self, schema: StructType) -> "OttlaStreamReader":  # noqa: N802 - Spark's name
        return OttlaStreamReader(self.options)

    def writer(self, schema: StructType, overwrite: bool) -> OttlaWriter:
        return OttlaWriter(self._sink(schema, overwrite))

    def streamWriter(self, schema: StructType, overwrite: bool) -> OttlaStreamWriter:  # noqa: N802 - Spark's name
        return OttlaStreamWriter(self._sink(schema, overwrite))

    def _sink(self, schema: StructType, overwrite: bool) -> SinkOptions:
        options = parse_sink_options(self.options)
        if overwrite:
            raise OptionError("topics can only be appended to: use the mode append")
        check_columns(schema, options)
        return options


def columns(options: Mapping[str, str]) -> str:
    """The columns of Spark's Kafka source."""
    with_headers = boolean(options, "includeHeaders", default=False)
    return _COLUMNS + (_HEADERS if with_headers else "")


class RangePartition(InputPartition):
    """A range of offsets that one task reads."""

    def __init__(self, offsets: OffsetRange) -> None:
        super().__init__(offsets)
        self.offsets = offsets

    def __repr__(self) -> str:
        return f"{self.offsets.topic_partition} [{self.offsets.start}, {self.offsets.end})"


class OttlaReader(DataSourceReader):
    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        with Session(self._options.read) as session:
            return [RangePartition(each) for each in session.run(plan_batch(session.client, self._options))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(partition, self._options)


class OttlaStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Parses its options at first use, because Spark reports the message of an exception in `initialOffset`, but not of
    an exception in the constructor."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = dict(given)
        self._stream: Stream | None = None

    @cached_property
    def _options(self) -> SourceOptions:
        return parse_source_options(self._given, streaming=True)

    @property
    def stream(self) -> Stream:
        """Created at first use: Spark pickles the reader for its tasks, without the connections."""
        if self._stream is None:
            self._stream = Stream(self._options)
        return self._stream

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_stream": None}

    def initialOffset(self) -> JsonOffsets:  # noqa: N802 - Spark's name
        return offsets_to_json(self.stream.initial_offsets())

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Spark has no limit with both a minimum and a maximum. If both are set, `latestOffset` applies the minimum."""
        if self._options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self._options.max_offsets_per_trigger)
        if self._options.min_offsets_per_trigger is not None:
            return ReadMinRows(self._options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def latestOffset(self, start: JsonOffsets, limit: ReadLimit) -> JsonOffsets:  # noqa: N802 - Spark's name
        max_rows = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        everything = isinstance(limit, ReadAllAvailable)
        min_rows = None if everything else self._options.min_offsets_per_trigger
        return offsets_to_json(self.stream.next_offsets(offsets_from_json(start), max_rows, min_rows))

    def reportLatestOffset(self) -> JsonOffsets | None:  # noqa: N802 - Spark's name
        latest = self.stream.latest
        return None if latest is None else offsets_to_json(latest)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        self.stream.stop_at_present()

    def partitions(self, start: JsonOffsets, end: JsonOffsets) -> list[InputPartition]:
        ranges = self.stream.plan(offsets_from_json(start), offsets_from_json(end))
        return [RangePartition(each) for each in ranges]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(partition, self._options)

    def commit(self, end: JsonOffsets) -> None:
        self.stream.finished(offsets_from_json(end))

    def stop(self) -> None:
        if self._stream is not None:
            self._stream.stop()


def _read(partition: InputPartition, options: SourceOptions) -> Iterator[pa.RecordBatch]:
    """For a plan without partitions, Spark calls `read` with an InputPartition that has no value."""
    if isinstance(partition, RangePartition):
        yield from read_range(partition.offsets, options.read)
