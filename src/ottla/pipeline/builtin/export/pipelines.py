"""The unchanged records of a topic, by day: key, value, headers, and their position in the log.

Run `ottla pipeline run export --set topic=clicks --once` once an hour to keep the files up to date. Every topic has its
own checkpoint.
"""

from pyspark.sql import DataFrame

from ottla.pipeline import parameter, pipeline, to_parquet, topics

TOPIC = parameter("topic", "clicks")


@pipeline(
    topics(TOPIC, options={"includeHeaders": "true"}),
    to=to_parquet(f"export/{TOPIC}", date="timestamp", compact_after=24),
    name=TOPIC,
)
def export(records: DataFrame) -> DataFrame:
    """Every record of the topic, with all its fields."""
    return records.select("value", "record.*")
