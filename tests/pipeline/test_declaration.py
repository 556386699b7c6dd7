"""What a pipeline file may declare, and what is said about what it may not."""

from typing import Any

import pytest

from ottla.pipeline import pipeline, to_console, to_parquet, to_table, to_topic, topics
from ottla.pipeline.declaration import Pipeline

CLICKS = topics("clicks", schema="user string")


def test_a_pipeline_is_its_function_and_its_declaration() -> None:
    @pipeline(CLICKS, to=to_topic("out", key="user"))
    def counted(rows: Any) -> Any:
        """Counts.

        In a way that needs more words.
        """
        return [rows]

    assert isinstance(counted, Pipeline)
    assert (counted.name, counted.summary, counted.topics) == ("counted", "Counts.", ("clicks",))
    assert counted("anything") == ["anything"]  # type: ignore[arg-type,comparison-overlap]


def test_several_sources_are_several_arguments() -> None:
    views = topics("views", "old-views", schema="page string")

    @pipeline(CLICKS, views, to=[to_console(), to_topic("out")], name="both")
    def function(clicks: Any, views: Any) -> Any: ...

    assert function.name == "both"
    assert function.topics == ("clicks", "views", "old-views")


@pytest.mark.parametrize(
    ("arguments", "options", "complaint"),
    [
        ((), {"to": to_console()}, "needs sources"),
        ((CLICKS,), {"to": []}, "needs sinks"),
        ((CLICKS, CLICKS), {"to": to_console()}, "takes 1 DataFrames, but has 2 sources"),
        ((CLICKS,), {"to": [to_topic("a"), to_topic("a")]}, "two sinks that write to the same place"),
        ((CLICKS,), {"to": to_console(), "name": "a/b"}, "is not a valid pipeline name"),
    ],
)
def test_mistakes_are_named(arguments: Any, options: Any, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        pipeline(*arguments, **{"name": "job", **options})(lambda rows: rows)


def test_a_source_needs_topics_and_a_whole_watermark() -> None:
    with pytest.raises(ValueError, match="at least one topic"):
        topics()
    with pytest.raises(ValueError, match="a column and a delay"):
        topics("clicks", watermark="at")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="exactly-once requires mode='append'"):
        to_topic("out", mode="update", delivery="exactly-once")
    with pytest.raises(ValueError, match="2 or more"):
        to_parquet("out", compact_after=1)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"schema": "a int"}, ["x.dlq", "y.dlq"]),
        ({"schema": "a int", "dead_letters": "lost"}, ["lost", "lost"]),
        ({"schema": "a int", "dead_letters": False}, []),
        ({}, []),
    ],
)
def test_where_dead_letters_go(options: Any, expected: list[str]) -> None:
    assert topics("x", "y", **options).dead_letter_topics == expected


def test_sinks_have_names_for_checkpoints() -> None:
    sinks = [to_topic("out"), to_parquet("a/b", date="at"), to_table("/t", key="id", order="v"), to_console()]
    assert [sink.name for sink in sinks] == ["topic-out", "parquet-a-b", "table-t", "console"]
    assert [sink.description for sink in sinks] == [
        "topic out, at-least-once",
        "parquet in a/b by date",
        "table in /t, the last row of each id",
        "console",
    ]
