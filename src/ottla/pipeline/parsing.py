"""Convert records to the rows that a pipeline sees, and find the dead letters."""

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from ottla.pipeline.declaration import Pipeline, Source, unique_sources
from ottla.pipeline.failures import PipelineError, sentence
from ottla.pipeline.records import HEADER_PREFIX

RECORD = "record"
_CORRUPT = "_ottla_corrupt"
_RECORD_FIELDS = ("key", "topic", "partition", "offset", "timestamp", "headers")
_JSON = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}


def value_schema(spark: SparkSession, source: Source) -> StructType | None:
    """Parse the schema of a source. Raises PipelineError if it is invalid."""
    if source.schema is None or isinstance(source.schema, StructType):
        return source.schema
    try:
        return spark.createDataFrame([], source.schema).schema
    except (PySparkException, ValueError, TypeError) as error:
        raise PipelineError(
            f"The schema of {', '.join(source.topics)} cannot be read; write it as in "
            f'"user string, at timestamp": {sentence(error)}.'
        ) from error


def parsed(records: DataFrame, schema: StructType | None) -> DataFrame:
    """The rows of a source, without values that do not match the schema. Those are dead letters."""
    record = F.struct(*(name for name in _RECORD_FIELDS if name in records.columns)).alias(RECORD)
    if schema is None:
        return records.select("value", record)
    text = F.col("value").cast("string")
    fields = F.from_json(text, _with_corrupt(schema), _JSON)
    values = records.select(fields.alias("fields"), text.alias("text"), record)
    return values.where(~_bad(F.col("text"), F.col("fields"), schema)).select(
        *(F.col("fields").getField(name).alias(name) for name in schema.fieldNames()), RECORD
    )


def dead_letters(
    records: DataFrame, pipelines: Sequence[Pipeline], schemas: Mapping[int, StructType | None]
) -> DataFrame:
    """Records for the dead letter topics: the values that do not match, with their origin and the reason."""

    text = F.col("value").cast("string")
    reason: Any = F.lit(None).cast("string")
    destination: Any = F.lit(None).cast("string")
    for source in unique_sources(pipelines):
        schema = schemas[id(source)]
        for topic in source.topics:
            target = source.dead_letter_topic(topic)
            if schema is None or target is None:
                continue
            reason = F.coalesce(reason, F.when(F.col("topic") == topic, _reason(text, schema)))
            destination = F.when(F.col("topic") == topic, target).otherwise(destination)
    named = records.withColumn("reason", reason).where("reason is not null")
    return named.select(destination.alias("topic"), "key", "value", _headers().alias("headers"))


def _with_corrupt(schema: StructType) -> StructType:
    """All fields nullable, because Spark ignores `not null` when it parses JSON. `_bad` checks for nulls instead."""
    nullable = [StructField(field.name, field.dataType, nullable=True) for field in schema.fields]
    return StructType([*nullable, StructField(_CORRUPT, StringType())])


def _bad(text: Column, fields: Any, schema: StructType) -> Column:
    """Whether a value does not match the schema. A tombstone, which has no value, matches: it is a row of nulls."""
    bad: Column = fields.isNull() | fields.getField(_CORRUPT).isNotNull()
    for field in schema.fields:
        if not field.nullable:
            bad = bad | fields.getField(field.name).isNull()
    return text.isNotNull() & bad


def _reason(text: Column, schema: StructType) -> Column:
    """Why a value does not match, or null if it does. Spark evaluates the expensive checks only for bad values."""
    value: Any = F.from_json(text, _with_corrupt(schema), _JSON)
    complaints = []
    for field in schema.fields:
        alone = StructType([StructField(field.name, field.dataType), StructField(_CORRUPT, StringType())])
        found: Any = F.from_json(text, alone, _JSON)
        kind = field.dataType.simpleString()
        complaints.append(F.when(found.getField(_CORRUPT).isNotNull(), f"{field.name} is not {kind}"))
        if not field.nullable:
            missing = found.getField(_CORRUPT).isNull() & found.getField(field.name).isNull()
            complaints.append(F.when(missing, f"{field.name} is missing"))
    why = (
        F.when(F.try_parse_json(text).isNull(), "the value is not JSON")
        .when(F.json_object_keys(text).isNull(), "the value is not a JSON object")
        .otherwise(F.concat_ws(", ", *complaints))
    )
    return F.when(_bad(text, value, schema), why)


def _headers() -> Column:
    values = {
        "topic": F.col("topic"),
        "partition": F.col("partition").cast("string"),
        "offset": F.col("offset").cast("string"),
        "timestamp": F.date_format("timestamp", "yyyy-MM-dd'T'HH:mm:ss.SSSXXX"),
        "reason": F.col("reason"),
    }
    return F.array(
        *(
            F.struct(F.lit(HEADER_PREFIX + name).alias("key"), value.cast("binary").alias("value"))
            for name, value in values.items()
        )
    )
