"""The data source `ottla-log`: reads a data directory as a table, without a broker."""

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from ottla.spark.log_files import SegmentRange, plan_directory, read_segment
from ottla.spark.log_options import LogOptions, parse_log_options
from pyspark_ottla.source import columns


class OttlaLogDataSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "ottla-log"

    def schema(self) -> str:
        return columns(self.options)

    def reader(self, schema: StructType) -> "OttlaLogReader":
        return OttlaLogReader(parse_log_options(self.options))


class SegmentPartition(InputPartition):
    """A segment that one task reads."""

    def __init__(self, segment: SegmentRange) -> None:
        super().__init__(segment)
        self.segment = segment


class OttlaLogReader(DataSourceReader):
    def __init__(self, options: LogOptions) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        options = self._options
        plan = plan_directory(options.path, options.selection, committed=options.committed)
        return [SegmentPartition(segment) for segment in plan]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """For a plan without partitions, Spark calls `read` with an InputPartition that has no value."""
        if isinstance(partition, SegmentPartition):
            yield from read_segment(partition.segment, headers=self._options.include_headers)
