"""Log lines of many services: archived by day and service, and counted."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ottla.pipeline import pipeline, to_parquet, topics

ERRORS = ("ERROR", "FATAL")

lines = topics(
    "logs",
    schema="service string not null, level string not null, message string, host string, at timestamp not null",
    watermark=("at", "1 minute"),
)


@pipeline(lines, to=to_parquet("logs/lines", date="at", partition_by=["service"], compact_after=8))
def archive(lines: DataFrame) -> DataFrame:
    """Every line, in a directory per day and service. Compaction merges eight small files into one."""
    return lines.select("service", "level", "message", "host", "at", "record.partition", "record.offset")


@pipeline(lines, to=to_parquet("logs/error-rates", date="minute"))
def error_rates(lines: DataFrame) -> DataFrame:
    """The share of errors among the lines of each service, for every minute."""
    is_error = F.upper("level").isin(*ERRORS)
    counts = lines.groupBy(F.window("at", "1 minute"), "service").agg(
        F.count("*").alias("lines"), F.count_if(is_error).alias("errors")
    )
    rate = F.col("errors") / F.col("lines")
    return counts.select(F.col("window.start").alias("minute"), "service", "lines", "errors", rate.alias("rate"))
