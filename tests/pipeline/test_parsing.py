"""Which values become rows, and what is said about the others. Sources and sinks are left out: these are functions."""

from datetime import datetime
from typing import TYPE_CHECKING

from ottla.pipeline import pipeline, to_console, topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = "id int not null, name string, at timestamp, tags array<string>, place struct<x: double>"
GOOD = [
    b'{"id": 1, "name": "a", "at": "2026-01-01T00:00:00Z", "tags": ["x"], "place": {"x": 1.5}}',
    b'{"id": 2}',
    b'{"id": 3, "unknown": true, "name": null}',
    None,
]
BAD = {
    b"no json": "the value is not JSON",
    b"": "the value is not JSON",
    b'{"id": 4': "the value is not JSON",
    b"[1]": "the value is not a JSON object",
    b"7": "the value is not a JSON object",
    b'{"id": "four"}': "id is not int",
    b'{"id": 4, "at": "yesterday", "tags": "x"}': "at is not timestamp, tags is not array<string>",
    b'{"name": "nobody"}': "id is missing",
    b'{"id": null}': "id is missing",
}


def test_rows_and_dead_letters(spark: "SparkSession") -> None:
    from ottla.pipeline.parsing import dead_letters, parsed, value_schema

    source = topics("events", schema=SCHEMA)
    job = pipeline(source, to=to_console(), name="job")(lambda rows: rows)
    schema = value_schema(spark, source)
    columns = "key binary, value binary, topic string, partition int, offset long, timestamp timestamp"
    when = datetime(2026, 1, 1)  # noqa: DTZ001 - as Spark hands them out
    values = [*GOOD, *BAD]
    records = spark.createDataFrame(
        [(b"k", value, "events", 0, number, when) for number, value in enumerate(values)], columns
    )
    rows = parsed(records, schema).collect()
    assert [row["id"] for row in rows] == [1, 2, 3, None], "a record without a value is a row of nulls"
    assert (rows[0]["tags"], rows[0]["place"]["x"], rows[0]["record"]["offset"]) == (["x"], 1.5, 0)

    letters = dead_letters(records, [job], {id(source): schema}).collect()
    found = {
        bytes(row["value"]): {each["key"]: bytes(each["value"]).decode() for each in row["headers"]} for row in letters
    }
    assert {value: headers["ottla.dead-letter.reason"] for value, headers in found.items()} == BAD
    assert {row["topic"] for row in letters} == {"events.dlq"}
    assert found[b"no json"]["ottla.dead-letter.offset"] == str(len(GOOD))


def test_without_a_schema_values_are_bytes(spark: "SparkSession") -> None:
    from ottla.pipeline.parsing import parsed

    records = spark.createDataFrame([(b"k", b"\xff", "t")], "key binary, value binary, topic string")
    [row] = parsed(records, None).collect()
    assert (bytes(row["value"]), row["record"]["topic"]) == (b"\xff", "t")
