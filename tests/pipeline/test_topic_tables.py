"""`ottla sql`: topics as tables."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from ottla.pipeline.failures import PipelineError
from ottla.testing.topics import create_topic
from tests.pipeline.conftest import produce

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BEGIN = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=1)
"""Not long ago: a broker deletes what is a week old, even in the middle of a test."""
SECOND = timedelta(seconds=1)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("select * from clicks", ["clicks"]),
        ("select * from Clicks c join `web.views` v using (user)", ["clicks", "web.views"]),
        ("select clickss from other", []),
    ],
)
def test_topics_that_a_query_names(query: str, expected: list[str]) -> None:
    from ottla.pipeline.topic_tables import named_topics

    assert named_topics(query, ["clicks", "web.views", "more"]) == expected


@pytest.mark.spark
def test_questions(spark: "SparkSession", bootstrap: str, unique: Callable[[str], str]) -> None:
    from ottla.pipeline.topic_tables import PUSHDOWN, answer_rows, run_query

    name = unique("sql.clicks")
    create_topic(bootstrap, name, 1)
    values: list[bytes | None] = [b'{"user": "a", "n": 1, "offset": 99}', b'{"user": "b", "n": 2.5}', b"text", None]
    for number, value in enumerate(values):
        produce(bootstrap, name, [value], key=f"k{number}", timestamp=int(BEGIN.timestamp() * 1000) + 1000 * number)
    session = spark.newSession()
    for key, setting in PUSHDOWN.items():
        session.conf.set(key, setting)

    def ask(query: str, limit: int = 10, json: bool = False) -> object:
        return answer_rows(run_query(session, query.format(f"`{name}`"), [name], bootstrap), limit, json)

    fields = "select key, user, n, offset from {} order by offset"
    assert ask(fields) == (
        ["key", "user", "n", "offset"],
        [["k0", "a", "1.0", 0], ["k1", "b", "2.5", 1], ["k2", None, None, 2], ["k3", None, None, 3]],
        False,
    )
    assert ask(f"select value from {{}} where timestamp > '{BEGIN + SECOND:%Y-%m-%dT%H:%M:%SZ}' order by offset") == (
        ["value"],
        [["text"], [None]],
        False,
    )
    assert ask("select key from {} order by offset", limit=2, json=True) == (
        [],
        [['{"key":"k0"}'], ['{"key":"k1"}']],
        True,
    )
    with pytest.raises(PipelineError, match=f"There is no topic nowhere; the topics are: {name}"):
        ask("select * from nowhere")
    with pytest.raises(PipelineError, match="cannot be answered: Syntax error"):
        ask("selec 1")


def test_a_time_in_the_condition_is_where_reading_begins(bootstrap: str, unique: Callable[[str], str]) -> None:
    from pyspark.sql.datasource import EqualTo, GreaterThan, GreaterThanOrEqual, LessThan

    from ottla.pipeline.topic_tables import TopicTableReader
    from ottla.spark.options import parse_source_options

    name = unique("clicks")
    create_topic(bootstrap, name, 1)
    for number in range(4):
        produce(bootstrap, name, [b"x"], timestamp=int(BEGIN.timestamp() * 1000) + 1000 * number)
    options = parse_source_options({"kafka.bootstrap.servers": bootstrap, "subscribe": name}, streaming=False)
    reader = TopicTableReader(options)
    filters = [
        GreaterThan(("timestamp",), BEGIN + SECOND),
        GreaterThanOrEqual(("timestamp",), BEGIN + 2 * SECOND),
        GreaterThan(("a", "timestamp"), BEGIN + timedelta(days=1)),
        LessThan(("timestamp",), BEGIN + timedelta(days=1)),
        EqualTo(("key",), b"k"),
    ]
    assert list(reader.pushFilters(filters)) == filters, "Spark still looks at every row"
    assert [str(each).partition(" ")[2] for each in reader.partitions()] == ["[2, 4)"]
