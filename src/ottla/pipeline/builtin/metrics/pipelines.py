"""Measurements of many hosts: windowed aggregates, and alerts to a topic."""

from functools import reduce
from operator import or_

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ottla.pipeline import pipeline, to_parquet, to_topic, topics

ALERTS = "metrics.alerts"
LIMITS = {"cpu": 90.0, "memory": 95.0}
"""A host gets an alert if its mean over two minutes is above the limit."""

measurements = topics(
    "metrics",
    schema="host string not null, name string not null, value double not null, at timestamp not null",
    watermark=("at", "1 minute"),
)


@pipeline(measurements, to=to_parquet("metrics/aggregates", date="minute"))
def aggregates(rows: DataFrame) -> DataFrame:
    """Minimum, mean, 95th percentile and maximum of each metric of each host, for every minute."""
    windows = rows.groupBy(F.window("at", "1 minute"), "host", "name").agg(
        F.count("*").alias("count"),
        F.min("value").alias("min"),
        F.avg("value").alias("mean"),
        F.percentile_approx("value", 0.95).alias("p95"),
        F.max("value").alias("max"),
    )
    return windows.select(F.col("window.start").alias("minute"), "host", "name", "count", "min", "mean", "p95", "max")


@pipeline(measurements, to=to_topic(ALERTS, key="host"))
def alerts(rows: DataFrame) -> DataFrame:
    """Hosts whose mean over two minutes is above a limit, computed every minute."""
    watched = rows.where(F.col("name").isin(*LIMITS))
    windows = watched.groupBy(F.window("at", "2 minutes", "1 minute"), "host", "name").agg(F.avg("value").alias("mean"))
    above = [(F.col("name") == name) & (F.col("mean") > limit) for name, limit in LIMITS.items()]
    limit = F.coalesce(*(F.when(F.col("name") == name, limit) for name, limit in LIMITS.items()))
    return windows.where(reduce(or_, above)).select(
        F.col("window.start").alias("since"),
        F.col("window.end").alias("until"),
        "host",
        "name",
        "mean",
        limit.alias("limit"),
    )
