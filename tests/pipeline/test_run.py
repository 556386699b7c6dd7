"""Pipelines on a real Spark, between real topics."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from ottla.pipeline import pipeline, to_console, to_parquet, to_topic, topics
from ottla.pipeline.brokers import Cluster
from ottla.pipeline.describing import dead_letter_status, pipeline_status
from ottla.pipeline.failures import PipelineError
from ottla.pipeline.loading import Target, load_target
from ottla.pipeline.records import HEADER_PREFIX, read_json, read_messages
from ottla.testing.topics import create_topic
from tests.pipeline.conftest import Runner, produce

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EXAMPLES = Path(__file__).parents[2] / "examples" / "pipelines"


def clicks(minute: int, count: int, page: str = "/a") -> list[bytes | None]:
    at = f"2026-01-01T00:{minute:02d}:00Z"
    return [json.dumps({"user": "u", "page": page, "at": at}).encode() for _ in range(count)]


def test_the_example_counts_sorts_out_and_goes_on(
    run_once: Runner, bootstrap: str, tmp_path: Path, shown: io.StringIO
) -> None:
    create_topic(bootstrap, "clicks", 1)
    produce(bootstrap, "clicks", [*clicks(1, 3), b"no json", *clicks(1, 2, "/b"), *clicks(5, 1)])
    target = load_target(str(EXAMPLES / "clicks.py"))
    states = {state.pipeline: state for state in run_once(target)}
    assert states["clicks_per_page"].rows == 7
    assert states["dead-letters"].dead_letters == 1
    counts = {(row["start"], row["page"]): row["count"] for row in read_json(bootstrap, "clicks-per-page")}
    first = "2026-01-01T00:01:00.000Z"
    assert counts == {(first, "/a"): 3, (first, "/b"): 2}, "the minute of the last click is not over"

    [letter] = read_messages(bootstrap, "clicks.dlq")
    headers = {key.removeprefix(HEADER_PREFIX): value.decode() for key, value in letter.headers()}
    assert letter.value() == b"no json"
    assert headers.pop("timestamp").startswith("20")
    assert headers == {"topic": "clicks", "partition": "0", "offset": "3", "reason": "the value is not JSON"}

    produce(bootstrap, "clicks", clicks(9, 1))
    run_once(target)
    assert "continues from checkpoint" in shown.getvalue()
    rows = read_json(bootstrap, "clicks-per-page")
    assert [row["count"] for row in rows if row["start"] == "2026-01-01T00:05:00.000Z"] == [1]
    assert len(rows) == 3, "what was counted is not counted again"

    status = pipeline_status(target.pipelines[0], target.label, tmp_path, Cluster(bootstrap))
    assert status["state"] == "finished"
    assert (status["queries"][0]["rows"], status["queries"][0]["lag"]) == (1, 0)
    shared = dead_letter_status(target.label, tmp_path, Cluster(bootstrap))
    assert shared is not None
    assert (shared["state"], shared["queries"][0]["lag"]) == ("finished", 0)
    produce(bootstrap, "clicks", clicks(10, 5))
    status = pipeline_status(target.pipelines[0], target.label, tmp_path, Cluster(bootstrap))
    assert status["queries"][0]["lag"] == 5


@pytest.mark.spark
def test_the_example_joins_a_table_and_writes_exactly_once(run_once: Runner, bootstrap: str, tmp_path: Path) -> None:
    from ottla.pipeline.results import parquet_rows

    def order(identity: int, customer: int) -> bytes:
        at = "2026-01-01T10:00:00Z"
        return json.dumps({"id": identity, "customer": customer, "amount": 9.5, "at": at}).encode()

    (tmp_path / "cities.csv").write_text("customer,city\n7,Graz\n")
    create_topic(bootstrap, "orders", 1)
    produce(bootstrap, "orders", [order(1, 7), order(2, 8), b'{"id": 3}'])
    target = load_target(str(EXAMPLES / "orders.py"), {"cities": str(tmp_path / "cities.csv")})
    run_once(target)
    produce(bootstrap, "orders", [order(4, 7)])
    run_once(target)
    expected = [(1, "Graz"), (2, "unknown"), (4, "Graz")]
    written = [(message.key(), json.loads(message.value())) for message in read_messages(bootstrap, "orders-with-city")]
    assert [(row["id"], row["city"]) for _, row in written] == expected
    assert [(key, row["amount"]) for key, row in written] == [(b"1", 9.5), (b"2", 9.5), (b"4", 9.5)]
    files = parquet_rows(tmp_path / "orders")
    assert sorted((row["id"], row["city"]) for row in files) == expected
    assert {str(row["date"]) for row in files} == {"2026-01-01"}
    [letter] = read_messages(bootstrap, "orders.rejected")
    assert letter.value() == b'{"id": 3}'


def test_rows_reach_every_sink_of_a_pipeline(
    run_once: Runner, bootstrap: str, tmp_path: Path, unique: Callable[[str], str], shown: io.StringIO
) -> None:
    name = unique("in")
    create_topic(bootstrap, name, 1)
    produce(bootstrap, name, [b"one", b"two"])

    @pipeline(topics(name), to=[to_parquet("files", date="timestamp"), to_console()])
    def copy(records: "DataFrame") -> "DataFrame":
        return records.selectExpr("string(value) as value", "record.timestamp")

    run_once(Target("file", (copy,), ()))
    [file] = (tmp_path / "files").rglob("*.parquet")
    assert file.parent.name.startswith("date=20")
    assert pq.read_table(file, partitioning=None)["value"].to_pylist() == ["one", "two"]
    assert "file.copy.console, batch 0\n+-----+" in shown.getvalue()
    assert "|  two|" in shown.getvalue()


def test_rows_as_records(spark: "SparkSession") -> None:
    from ottla.pipeline.writing import topic_rows

    rows = spark.createDataFrame([(7, "seven", None)], "id int, value string, more string")

    def records(frame: "DataFrame", key: str | None) -> list[dict[str, Any]]:
        return [row.asDict() for row in topic_rows(frame, key).collect()]

    assert records(rows.select("id", "more"), "id") == [{"key": "7", "value": '{"id":7}'}]
    assert records(rows.selectExpr("id as value"), None) == [{"value": '{"value":7}'}], (
        "a number is no value of a record"
    )
    assert records(rows, None) == [{"value": "seven"}]
    placed = rows.selectExpr("id", "value", "string(id) as key", "3 as partition")
    assert records(placed, None) == [{"key": "7", "value": "seven", "partition": 3}]
    assert records(placed, "value") == [{"key": "seven", "value": "seven", "partition": 3}]


def test_mistakes_are_told_in_a_sentence(run_once: Runner, bootstrap: str, unique: Callable[[str], str]) -> None:
    name = unique("in")
    source = topics(name, schema="user string")

    @pipeline(source, to=to_topic(unique("out"), key="nobody"))
    def wrong_key(rows: "DataFrame") -> "DataFrame":
        return rows

    @pipeline(source, to=to_console())
    def wrong_column(rows: "DataFrame") -> "DataFrame":
        return rows.select("pag")

    @pipeline(topics(name, schema="user strong"), to=to_console())
    def wrong_schema(rows: "DataFrame") -> "DataFrame":
        return rows

    @pipeline(source, to=to_console())
    def no_frame(rows: "DataFrame") -> "DataFrame":
        return None  # type: ignore[return-value]

    def complaint(which: object) -> str:
        with pytest.raises(PipelineError) as caught:
            run_once(Target("file", (which,), ()))  # type: ignore[arg-type]
        return str(caught.value)

    assert complaint(wrong_key).startswith(f"Topic {name} does not exist; see")
    create_topic(bootstrap, name, 1)
    assert (
        complaint(wrong_key)
        == "Pipeline wrong_key cannot start: the key nobody is not a column; the columns are user, record."
    )
    assert "wrong_column cannot start: A column, variable, or function parameter with name `pag`" in complaint(
        wrong_column
    )
    assert complaint(wrong_schema).startswith(f"The schema of {name} cannot be read; write it as in")
    assert complaint(no_frame) == "Pipeline no_frame must return a DataFrame, but returned NoneType."


@pytest.mark.spark
def test_a_changed_aggregate_needs_a_new_checkpoint(
    run_once: Runner, bootstrap: str, unique: Callable[[str], str]
) -> None:
    name, out = unique("in"), unique("out")
    create_topic(bootstrap, name, 1)
    source = topics(name, schema="word string, number int")

    def counted_by(column: str) -> Target:
        job = pipeline(source, to=to_topic(out, mode="update"), name="job")(lambda rows: rows.groupBy(column).count())
        return Target("file", (job,), ())

    produce(bootstrap, name, [b'{"word": "a", "number": 1}'])
    run_once(counted_by("word"))
    produce(bootstrap, name, [b'{"word": "a", "number": 1}'])
    with pytest.raises(PipelineError, match="Pipeline job failed: the checkpoint was written by another query"):
        run_once(counted_by("number"))
    run_once(counted_by("word"))
    assert [row["count"] for row in read_json(bootstrap, out)] == [1, 2]
