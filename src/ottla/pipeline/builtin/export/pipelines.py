"""Records of a topic as they are, by day: key, value, headers and where they were.

`ottla pipeline run export --set topic=clicks --once`, once an hour, keeps the files up to date; every topic has a
checkpoint of its own.
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
    """Every record of the topic, with all that belongs to it."""
    return records.select("value", "record.*")
