"""Topics as SQL tables.

A table has the columns of a record, with key and value as text. If values are JSON objects, their fields are columns
too, unless a column of that name exists. The types of the fields are inferred from a sample.
"""

import re
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.datasource import Filter, GreaterThan, GreaterThanOrEqual
from pyspark.sql.types import StructType

from ottla.pipeline.failures import PipelineError, sentence
from ottla.spark.bounds import Bound
from ottla.spark.options import parse_source_options
from pyspark_ottla.source import OttlaDataSource, OttlaReader

FORMAT = "ottla-table"
PUSHDOWN = {"spark.sql.python.filterPushdown.enabled": "true"}
"""Session settings that let conditions reach the source."""

_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp")
_SAMPLE_ROWS = 1000
_WORD = re.compile(r"`([^`]+)`|([A-Za-z_][A-Za-z0-9_]*)")


class TopicTable(OttlaDataSource):
    """The source `ottla`, with conditions on the timestamp pushed down to the start offset."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def reader(self, schema: StructType) -> "TopicTableReader":
        return TopicTableReader(parse_source_options(self.options, streaming=False))


class TopicTableReader(OttlaReader):
    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Start at the first record that is not older than the condition's time. Timestamps need not ascend in a log,
        so an end offset cannot be derived, and Spark still checks every row."""
        begins = [moment for each in filters if (moment := _not_before(each)) is not None]
        if begins:
            milliseconds = int(max(begins).timestamp() * 1000)
            start = Bound(everywhere=max(milliseconds, 0), timestamps=True, when_too_young="latest")
            self._options = replace(self._options, start=start)
        return filters


def _not_before(condition: Filter) -> datetime | None:
    """The time in a condition such as timestamp >= ... on the top-level column."""
    if not isinstance(condition, GreaterThan | GreaterThanOrEqual) or tuple(condition.attribute) != ("timestamp",):
        return None
    value = condition.value
    if not isinstance(value, datetime):
        return None
    return value if value.tzinfo else value.astimezone(UTC)


def named_topics(query: str, topics: Iterable[str]) -> list[str]:
    """The topics whose names occur in the query. Names with dots or dashes must be in backquotes."""
    words = {quoted or plain for quoted, plain in _WORD.findall(query)}
    lower = {word.lower() for word in words}
    return [topic for topic in topics if topic in words or topic.lower() in lower]


def run_query(spark: SparkSession, query: str, topics: Iterable[str], bootstrap_server: str) -> DataFrame:
    """Raises PipelineError for invalid SQL and for tables that are not topics."""
    spark.dataSource.register(TopicTable)
    known = list(topics)
    for topic in named_topics(query, known):
        topic_table(spark, topic, bootstrap_server).createOrReplaceTempView(f"`{topic}`")
    try:
        return spark.sql(query)
    except PySparkException as error:
        raise PipelineError(_complaint(error, known)) from error


def topic_table(spark: SparkSession, topic: str, bootstrap_server: str) -> DataFrame:
    reader = spark.read.format(FORMAT).option("kafka.bootstrap.servers", bootstrap_server).option("subscribe", topic)
    records = reader.load()
    text = [F.col(name).cast("string").alias(name) for name in ("key", "value")]
    table = records.select(*text, *_COLUMNS[2:])
    fields = _learn(spark, table)
    if fields is None:
        return table
    parsed = table.withColumn("_fields", F.from_json("value", fields))
    return parsed.select(*_COLUMNS, *(F.col("_fields").getField(name).alias(name) for name in fields.fieldNames()))


def _learn(spark: SparkSession, table: DataFrame) -> StructType | None:
    """Infer the fields of the first values, if they are JSON objects. Names of record columns are left out."""
    sample = table.select(F.try_parse_json("value").alias("json")).where("json is not null").limit(_SAMPLE_ROWS)
    [row] = sample.agg(F.schema_of_variant_agg("json")).collect()
    kind = str(row[0])
    if not kind.startswith("OBJECT<"):
        return None
    found = spark.createDataFrame([], f"fields {_ddl(kind)}").schema["fields"].dataType
    taken = {name.lower() for name in _COLUMNS}
    fields = found.fields if isinstance(found, StructType) else []
    return StructType([field for field in fields if field.name.lower() not in taken])


def _ddl(kind: str) -> str:
    """Convert Spark's type of a JSON value to a column type. Numbers with a fraction become double."""
    plain = re.sub(r"\bOBJECT<", "STRUCT<", kind)
    return re.sub(r"\bVOID\b", "STRING", re.sub(r"\bDECIMAL\(\d+,\s*\d+\)", "DOUBLE", plain))


def _complaint(error: PySparkException, topics: list[str]) -> str:
    missing = re.search(r"The table or view `(.+?)` cannot be found", str(error))
    if missing:
        name = missing[1].replace("`.`", ".")
        return f"There is no topic {name}; the topics are: {', '.join(topics) or 'none'}."
    return f"The query cannot be answered: {sentence(error)}."


def answer_rows(frame: DataFrame, limit: int, json: bool) -> tuple[list[str], list[list[str | int | None]], bool]:
    """Column names, rows as text or as one JSON object each, and whether there are more rows. Raises PipelineError."""
    try:
        if json:
            lines = frame.limit(limit + 1).select(F.to_json(F.struct("*"))).collect()
            return [], [[str(line[0])] for line in lines[:limit]], len(lines) > limit
        rows = [[_cell(value) for value in row] for row in frame.limit(limit + 1).collect()]
    except PySparkException as error:
        raise PipelineError(f"The query cannot be answered: {sentence(error)}.") from error
    return frame.columns, rows[:limit], len(rows) > limit


def _cell(value: Any) -> str | int | None:
    return value if value is None or (isinstance(value, int) and not isinstance(value, bool)) else str(value)
