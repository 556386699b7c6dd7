"""Rows written to a running broker, without Spark: at least once, exactly once, and replayed."""

import uuid
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer

from ottla.spark import writing
from ottla.spark.options import OptionError
from ottla.spark.sink_options import SinkOptions, parse_sink_options
from ottla.spark.writing import BatchMarker, WriteFailed, write_at_least_once, write_exactly_once
from tests.spark import topics


def table(values: list[Any], **columns: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"value": pa.array(values), **columns})


def sink(bootstrap: str, **more: str) -> SinkOptions:
    return parse_sink_options({"kafka.bootstrap.servers": bootstrap, **more})


def exactly(bootstrap: str, topic: str) -> SinkOptions:
    return sink(bootstrap, topic=topic, delivery="exactly-once")


def values(bootstrap: str, topic: str, isolation: str = "read_committed") -> list[bytes | None]:
    return [row.value for row in topics.consume(bootstrap, topic, isolation=isolation)]


def new_marker(batch_id: int = 0) -> BatchMarker:
    return BatchMarker(uuid.uuid4().hex, 3, batch_id)


def test_all_columns_reach_the_log(bootstrap: str) -> None:
    topic, other = topics.make_topic(bootstrap, 3), topics.make_topic(bootstrap)
    headers_type = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    rows = table(
        ["text", None, "more"],
        key=pa.array([b"k", None, b"k2"], pa.binary()),
        topic=pa.array([topic, other, topic]),
        partition=pa.array([2, None, 0], pa.int32()),
        timestamp=pa.array([1_700_000_000_123_456, 1_700_000_000_000_000, 5_000], pa.timestamp("us", tz="UTC")),
        headers=pa.array([[{"key": "h", "value": b"1"}, {"key": "h", "value": None}], None, []], headers_type),
    )
    assert write_at_least_once(iter([rows, rows.slice(0, 0)]), sink(bootstrap)) == 3
    first, last = topics.consume(bootstrap, topic, 3)
    assert last == (b"k", b"text", topic, 2, 0, 1_700_000_000_123, (("h", b"1"), ("h", None)))
    assert first == (b"k2", b"more", topic, 0, 0, 5, ())
    [only] = topics.consume(bootstrap, other)
    assert only == (None, None, other, 0, 0, 1_700_000_000_000, ())


def test_keys_go_where_kafkas_own_producer_sends_them(bootstrap: str) -> None:
    topic = topics.make_topic(bootstrap, 7)
    keys = [b"key-%d" % index for index in range(50)]
    write_at_least_once(iter([table(["v"] * 50, key=pa.array(keys))]), sink(bootstrap, topic=topic))
    java = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random"})
    other = topics.make_topic(bootstrap, 7)
    for key in keys:
        java.produce(other, b"v", key)
    java.flush(60)
    placed, expected = (
        {row.key: row.partition for row in topics.consume(bootstrap, name, 7)} for name in (topic, other)
    )
    assert placed == expected


def test_the_option_wins_over_the_column(bootstrap: str) -> None:
    topic = topics.make_topic(bootstrap)
    rows = table(["a"], topic=pa.array(["elsewhere"]))
    write_at_least_once(iter([rows]), sink(bootstrap, topic=topic))
    assert values(bootstrap, topic) == [b"a"]


def test_a_row_without_a_topic_is_refused(bootstrap: str) -> None:
    rows = table(["a"], topic=pa.array([None], pa.string()))
    with pytest.raises(WriteFailed, match="null topic"):
        write_at_least_once(iter([rows]), sink(bootstrap))


def test_a_row_that_is_too_large_fails_the_task(bootstrap: str) -> None:
    topic = topics.make_topic(bootstrap)
    with pytest.raises(WriteFailed, match="rejected"):
        write_at_least_once(iter([table([b"x" * 2_000_000])]), sink(bootstrap, topic=topic))


def test_a_row_that_the_broker_refuses_fails_the_task(bootstrap: str) -> None:
    topic = topics.make_topic(bootstrap, 1, {"max.message.bytes": "1000"})
    with pytest.raises(WriteFailed, match="not written"):
        write_at_least_once(iter([table([b"x" * 5000])]), sink(bootstrap, topic=topic))


def test_settings_that_the_producer_does_not_know_are_named(bootstrap: str) -> None:
    with pytest.raises(OptionError, match=r"no\.such\.setting"):
        write_at_least_once(iter([]), sink(bootstrap, topic="t", **{"kafka.no.such.setting": "1"}))


def test_a_replayed_batch_is_skipped_and_the_next_is_not(bootstrap: str) -> None:
    topic = topics.make_topic(bootstrap)
    marker, options = new_marker(), exactly(bootstrap, topic)
    assert write_exactly_once(iter([table(["a", "b"])]), options, marker) == 2
    assert write_exactly_once(iter([table(["a", "b"])]), options, marker) == 0
    assert write_exactly_once(iter([table(["c"])]), options, marker._replace(batch_id=1)) == 1
    assert write_exactly_once(iter([table(["a", "b"])]), options, marker) == 0
    assert values(bootstrap, topic) == [b"a", b"b", b"c"]


def test_tasks_and_queries_do_not_hide_each_other(bootstrap: str) -> None:
    topic = topics.make_topic(bootstrap)
    marker, options = new_marker(), exactly(bootstrap, topic)
    for each in (marker, marker._replace(task=4), marker._replace(query=uuid.uuid4().hex)):
        assert write_exactly_once(iter([table(["x"])]), options, each) == 1
    assert len(values(bootstrap, topic)) == 3


def test_an_empty_batch_writes_nothing(bootstrap: str) -> None:
    topic = topics.make_topic(bootstrap)
    empty = table(["x"]).slice(0, 0)
    assert write_exactly_once(iter([empty, empty]), exactly(bootstrap, topic), new_marker()) == 0
    assert values(bootstrap, topic, "read_uncommitted") == []


def test_a_task_that_fails_leaves_nothing_behind_and_can_be_tried_again(bootstrap: str) -> None:
    topic = topics.make_topic(bootstrap)
    marker, options = new_marker(), exactly(bootstrap, topic)

    def failing() -> Any:
        yield table(["a"])
        raise RuntimeError("the query broke")

    with pytest.raises(RuntimeError, match="the query broke"):
        write_exactly_once(failing(), options, marker)
    assert write_exactly_once(iter([table(["a"])]), options, marker) == 1
    assert values(bootstrap, topic) == [b"a"]


def test_a_task_that_died_in_its_transaction_is_fenced(bootstrap: str) -> None:
    """The first attempt stops dead after its rows are sent, is replaced, and then wakes up again."""
    topic = topics.make_topic(bootstrap)
    marker, options = new_marker(), exactly(bootstrap, topic)
    replaced = []

    def slow() -> Any:
        yield table(["a"])
        replaced.append(write_exactly_once(iter([table(["a"])]), options, marker))
        yield table(["b"])

    with pytest.raises(WriteFailed, match=r"failed|not written|rejected"):
        write_exactly_once(slow(), options, marker)
    assert replaced == [1]
    assert values(bootstrap, topic) == [b"a"]


def test_a_crash_between_the_rows_and_the_marker_shows_nothing(bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = topics.make_topic(bootstrap)
    marker, options = new_marker(), exactly(bootstrap, topic)

    def crash(*_: Any) -> None:
        raise RuntimeError("killed")

    with monkeypatch.context() as patched:
        patched.setattr(writing, "_mark", crash)
        patched.setattr(writing, "_abort", lambda producer: None)
        with pytest.raises(RuntimeError):
            write_exactly_once(iter([table(["a"])]), options, marker)
    assert write_exactly_once(iter([table(["a"])]), options, marker) == 1
    assert values(bootstrap, topic) == [b"a"]
