"""Clicks per page and minute: a minimal useful pipeline."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ottla.pipeline import pipeline, to_topic, topics

clicks = topics("clicks", schema="user string not null, page string, at timestamp", watermark=("at", "1 minute"))


@pipeline(clicks, to=to_topic("clicks-per-page", key="page"))
def clicks_per_page(rows: DataFrame) -> DataFrame:
    """The number of clicks on each page, for every minute."""
    return rows.groupBy(F.window("at", "1 minute"), "page").count().select("window.start", "page", "count")
