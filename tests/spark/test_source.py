"""`format("ottla")` in Spark: tables, streams and sinks, as a user writes them."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import ottla
from tests.spark import tables, topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXACTLY_ONCE = {"delivery": "exactly-once"}
COMMITTED = {"kafka.isolation.level": "read_committed"}


def test_a_table_is_what_a_consumer_reads(spark: "SparkSession", bootstrap: str) -> None:
    topic = topics.make_topic(bootstrap, 3)
    rows = [(0 if index % 9 else 2, None if index % 7 == 0 else b"%d" % index * 30) for index in range(3000)]
    topics.fill(bootstrap, topic, rows, **{"compression.type": "lz4"})
    frame = tables.table(spark, bootstrap, topic)
    assert tables.collected(frame) == topics.consume(bootstrap, topic, 3)
    assert frame.schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,"
        "timestampType:int,headers:array<struct<key:string,value:binary>>>"
    )


def test_an_empty_topic_is_an_empty_table(spark: "SparkSession", bootstrap: str) -> None:
    topic = topics.make_topic(bootstrap, 2)
    assert tables.table(spark, bootstrap, topic, includeHeaders="false").count() == 0


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"subscribe": "t", "kafka.bootstrap.servers": ""}, r"kafka\.bootstrap\.servers must be set"),
        ({}, "one of the options assign, subscribe"),
        ({"subscribe": "no-such-topic"}, "topic no-such-topic does not exist"),
    ],
)
def test_complaints_reach_the_user(
    spark: "SparkSession", bootstrap: str, options: dict[str, str], complaint: str
) -> None:
    with pytest.raises(Exception, match=complaint):
        spark.read.format("ottla").options(**{"kafka.bootstrap.servers": bootstrap, **options}).load().count()


def test_a_stream_in_limited_batches_goes_on_where_it_was(
    spark: "SparkSession", bootstrap: str, tmp_path: Path
) -> None:
    source, sink = topics.make_topic(bootstrap, 2), topics.make_topic(bootstrap)
    topics.fill(bootstrap, source, [(index % 2, b"%d" % index) for index in range(500)])
    group = f"group-{source}"

    def run() -> list[int]:
        frame = tables.stream(spark, bootstrap, source, maxOffsetsPerTrigger="200", groupId=group)
        return tables.run_to_topic(frame.select("key", "value"), bootstrap, sink, tmp_path)

    assert run() == [200, 200, 100]
    topics.add_partitions(bootstrap, source, 3)
    topics.fill(bootstrap, source, [(2, b"%d" % index) for index in range(500, 550)])
    assert run() == [50]
    assert sorted(int(row.value or b"") for row in topics.consume(bootstrap, sink)) == list(range(550))
    assert topics.committed(bootstrap, group, source, 3) == [250, 250, 50]


def test_a_replayed_batch_is_written_once(spark: "SparkSession", bootstrap: str, tmp_path: Path) -> None:
    source, sink = topics.make_topic(bootstrap, 2), topics.make_topic(bootstrap, 2)
    topics.fill(bootstrap, source, [(index % 2, b"%d" % index) for index in range(300)])

    def run() -> list[int]:
        frame = tables.stream(spark, bootstrap, source, maxOffsetsPerTrigger="150").select("value")
        return tables.run_to_topic(frame, bootstrap, sink, tmp_path, **EXACTLY_ONCE)

    assert run() == [150, 150]
    assert tables.forget_last_commit(tmp_path) == 1
    assert run() == [150]
    found = topics.consume(bootstrap, sink, 2, "read_committed")
    assert sorted(int(row.value or b"") for row in found) == list(range(300))


def test_a_table_is_written_as_it_was_read(spark: "SparkSession", bootstrap: str) -> None:
    source, sink = topics.make_topic(bootstrap, 2), topics.make_topic(bootstrap, 2)
    topics.fill(bootstrap, source, [(index % 2, b"%d" % index) for index in range(200)])
    frame = tables.table(spark, bootstrap, source).drop("topic", "offset", "timestampType")
    writer: Any = frame.write.format("ottla").option("kafka.bootstrap.servers", bootstrap).option("topic", sink)
    writer.options(**EXACTLY_ONCE).mode("append").save()
    copy = tables.collected(tables.table(spark, bootstrap, sink, **COMMITTED))
    original = topics.consume(bootstrap, source, 2)
    assert [row._replace(topic="") for row in copy] == [row._replace(topic="") for row in original]


def test_a_sink_that_makes_no_sense_is_refused(spark: "SparkSession", bootstrap: str) -> None:
    frame = spark.range(3)
    for columns, options, complaint in (
        ("id", {"topic": "t"}, "column named value"),
        ("cast(id as string) value", {}, "column named topic"),
        ("id value", {"topic": "t"}, "value must be string or binary"),
        ("cast(id as string) value, id partition", {"topic": "t"}, "partition must be integer"),
        ("cast(id as string) value", {"topic": "t", "delivery": "never"}, "at-least-once or exactly-once"),
        ("cast(id as string) value", {"topic": "t", "queryId": "q"}, "queryId and batchId must be set together"),
    ):
        writer: Any = frame.selectExpr(*columns.split(", ")).write.format("ottla")
        writer = writer.option("kafka.bootstrap.servers", bootstrap).options(**options)
        with pytest.raises(Exception, match=complaint):
            writer.mode("append").save()


def test_topics_are_only_appended_to(spark: "SparkSession", bootstrap: str) -> None:
    topic = topics.make_topic(bootstrap)
    for mode, complaint in (
        ("overwrite", "topics can only be appended to: use the mode append"),
        ("error", "UNSUPPORTED_DATA_SOURCE_SAVE_MODE"),
        ("ignore", "UNSUPPORTED_DATA_SOURCE_SAVE_MODE"),
    ):
        writer = spark.range(1).selectExpr("string(id) value").write.format("ottla").mode(mode)
        with pytest.raises(Exception, match=complaint):
            writer.options(**{"kafka.bootstrap.servers": bootstrap, "topic": topic}).save()
    assert topics.consume(bootstrap, topic) == []


def test_a_batch_that_is_replayed_by_name_is_written_once(spark: "SparkSession", bootstrap: str) -> None:
    """What a function for foreachBatch does, batches repeated as after a crash."""
    topic = topics.make_topic(bootstrap, 2)

    def write(first: int, batch_id: int, query: str = "archive") -> None:
        frame = spark.range(first, first + 10, numPartitions=2).selectExpr("string(id) value")
        named = {"queryId": f"{query}-{topic}", "batchId": str(batch_id), "topic": topic}
        writer = frame.write.format("ottla").options(**named, **EXACTLY_ONCE)
        writer.option("kafka.bootstrap.servers", bootstrap).mode("append").save()

    for first, batch_id in ((0, 0), (0, 0), (10, 1), (10, 1), (0, 0)):
        write(first, batch_id)
    write(100, 0, query="another")
    found = topics.consume(bootstrap, topic, 2, "read_committed")
    assert sorted(int(row.value or b"") for row in found) == [*range(20), *range(100, 110)]


def test_segment_files_without_a_broker(spark: "SparkSession", tmp_path: Path) -> None:
    with ottla.embedded(data_dir=tmp_path) as broker:
        topic = topics.make_topic(broker.bootstrap_servers, 2)
        topics.transactions(broker.bootstrap_servers, topic, [True, False, True], partitions=2)
        expected = topics.consume(broker.bootstrap_servers, topic, 2, "read_committed")
    frame = spark.read.format("ottla-log").options(subscribe=topic, includeHeaders="true", **COMMITTED)
    assert tables.collected(frame.load(str(tmp_path))) == expected
