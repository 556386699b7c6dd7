"""Changes of customers by key: the current table, and every change."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from ottla.pipeline import pipeline, to_parquet, to_table, topics

changes = topics(
    "customers.changes",
    schema="id long not null, op string not null, name string, city string, orders int, at timestamp not null",
)


@pipeline(changes, to=to_table("customers/current", key="id", order="version", deleted="op = 'delete'"))
def current(changes: DataFrame) -> DataFrame:
    """The current row of every customer. Changes of one key are in one partition, so their offsets are in order."""
    return changes.select("id", "op", "name", "city", "orders", "at", F.col("record.offset").alias("version"))


@pipeline(changes, to=to_parquet("customers/history", date="at"))
def history(changes: DataFrame) -> DataFrame:
    """Every change, by day."""
    return changes.select("id", "op", "name", "city", "orders", "at", F.col("record.offset").alias("version"))


def versions(history: DataFrame) -> DataFrame:
    """The validity period of each state of a customer. The last state has no end. For batch queries."""
    in_order = Window.partitionBy("id").orderBy("version")
    spans = history.withColumn("valid_from", F.col("at")).withColumn("valid_to", F.lead("at").over(in_order))
    return spans.where("op <> 'delete'").drop("at", "op", "version")
