"""Spark's own Kafka connector, on the same topics: the same rows, to the last hash."""

from typing import TYPE_CHECKING, Any

import pytest

from tests.spark import topics
from tests.spark.sessions import CONNECTOR_JARS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not CONNECTOR_JARS, reason="OTTLA_SPARK_JARS does not say where the connector's jars are"),
]


def summary(spark: "SparkSession", source: str, bootstrap: str, topic: str, **more: str) -> Any:
    options = topics.options(bootstrap, topic, includeHeaders="true", **more)
    frame = spark.read.format(source).options(**options).load()
    hashed = frame.withColumn("headers", frame["headers"].cast("string"))
    return hashed.selectExpr("count(*)", "sum(hash(*))", "count(headers)", "min(timestamp)", "max(timestamp)").collect()


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_the_same_rows_with_every_codec(spark: "SparkSession", bootstrap: str, codec: str) -> None:
    topic = topics.make_topic(bootstrap, 3)
    rows = [(index % 7 % 3, None if index % 11 == 0 else b"%d" % index * 20) for index in range(5000)]
    topics.fill(bootstrap, topic, rows, **{"compression.type": codec})
    assert summary(spark, "ottla", bootstrap, topic) == summary(spark, "kafka", bootstrap, topic)


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_the_same_rows_of_transactions(spark: "SparkSession", bootstrap: str, isolation: str) -> None:
    topic = topics.make_topic(bootstrap, 2)
    topics.transactions(bootstrap, topic, [True, False, True, False, False, True], rows=20, partitions=2)
    level = {"kafka.isolation.level": isolation}
    assert summary(spark, "ottla", bootstrap, topic, **level) == summary(spark, "kafka", bootstrap, topic, **level)


def test_the_same_rows_between_offsets_and_timestamps(spark: "SparkSession", bootstrap: str) -> None:
    topic = topics.make_topic(bootstrap, 2)
    topics.fill(bootstrap, topic, [(index % 2, b"%d" % index) for index in range(400)])
    for bounds in (
        {"startingOffsets": f'{{"{topic}":{{"0":17,"1":-2}}}}', "endingOffsets": f'{{"{topic}":{{"0":99,"1":-1}}}}'},
        {"startingTimestamp": "1700000033000", "endingTimestamp": "1700000100500"},
    ):
        ours, theirs = (summary(spark, source, bootstrap, topic, **bounds) for source in ("ottla", "kafka"))
        assert ours == theirs


def test_the_same_schema(spark: "SparkSession", bootstrap: str) -> None:
    topic = topics.make_topic(bootstrap)
    options = topics.options(bootstrap, topic, includeHeaders="true")
    ours, theirs = (spark.read.format(source).options(**options).load().schema for source in ("ottla", "kafka"))
    assert ours.simpleString() == theirs.simpleString()
