"""What is built in: the functions on a few rows, and everything end to end."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ottla.pipeline.loading import load_part, load_target
from ottla.pipeline.traffic import Event, Pace, send
from tests.pipeline.conftest import Runner

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.xdist_group("spark")

START = datetime(2026, 1, 1, tzinfo=UTC)


def at(minute: int, second: int = 0) -> datetime:
    return START + timedelta(minutes=minute, seconds=second)


def rows(frame: "DataFrame") -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in frame.collect())


def minute(number: int) -> datetime:
    """As Spark hands out timestamps: in the time of this machine, without saying so."""
    return at(number).astimezone().replace(tzinfo=None)


def test_sessions_end_with_a_pause(spark: "SparkSession") -> None:
    from ottla.pipeline.builtin.activity.pipelines import sessions

    views = spark.createDataFrame(
        [("a", at(0)), ("a", at(10)), ("a", at(50)), ("b", at(5))], "user string, at timestamp"
    )
    searches = spark.createDataFrame([("a", at(12))], "user string, at timestamp")
    clicks = spark.createDataFrame([("a", at(12, 30))], "user string, at timestamp")
    found = rows(sessions(views, searches, clicks).drop("started", "ended"))
    assert found == [("a", 0, 1, 0, 0), ("a", 750, 2, 1, 1), ("b", 0, 1, 0, 0)]


def test_top_pages_have_ranks(spark: "SparkSession") -> None:
    from ottla.pipeline.builtin.activity.pipelines import TOP, top_pages

    seen = [(f"/{page:02d}", at(0, page)) for page in range(12) for _ in range(page + 1)] + [("/x", at(1))]
    found = rows(top_pages(spark.createDataFrame(seen, "page string, at timestamp")))
    assert found[0] == (minute(0), 78, 1, "/11", 12)
    assert [row[2] for row in found[:-1]] == list(range(1, TOP + 1))
    assert found[-1] == (minute(1), 1, 1, "/x", 1)


def test_error_rates(spark: "SparkSession") -> None:
    from ottla.pipeline.builtin.logs.pipelines import error_rates

    lines = [("web", "INFO", at(0)), ("web", "error", at(0)), ("web", "FATAL", at(0)), ("web", "WARN", at(0))]
    found = rows(error_rates(spark.createDataFrame(lines, "service string, level string, at timestamp")))
    assert found == [(minute(0), "web", 4, 2, 0.5)]


def test_alerts_need_a_mean_above_the_limit(spark: "SparkSession") -> None:
    from ottla.pipeline.builtin.metrics.pipelines import alerts

    values = [
        ("h", "cpu", 95.0, at(0)),
        ("h", "cpu", 89.0, at(1)),
        ("h", "memory", 94.0, at(0)),
        ("h", "disk", 99.0, at(0)),
    ]
    found = rows(alerts(spark.createDataFrame(values, "host string, name string, value double, at timestamp")))
    assert found == [
        (minute(-1), minute(1), "h", "cpu", 95.0, 90.0),
        (minute(0), minute(2), "h", "cpu", 92.0, 90.0),
    ]


def test_versions_have_a_beginning_and_an_end(spark: "SparkSession") -> None:
    from ottla.pipeline.builtin.changes.pipelines import versions

    changes = [(1, "create", "Graz", at(0), 1), (1, "update", "Lyon", at(5), 2), (1, "delete", "Lyon", at(9), 3)]
    history = spark.createDataFrame(changes, "id int, op string, city string, at timestamp, version int")
    assert rows(versions(history)) == [(1, "Graz", minute(0), minute(5)), (1, "Lyon", minute(5), minute(9))]


def traffic(name: str, bootstrap: str, count: int) -> list[Event]:
    module = load_part(name, "traffic")
    events = list(islice(module.events(START), count))
    send(iter(events), module.TOPICS, bootstrap, Pace())
    return events


@pytest.mark.spark
def test_activity_end_to_end(run_once: Runner, bootstrap: str, tmp_path: Path) -> None:
    from ottla.pipeline.reporting import build_report
    from ottla.pipeline.results import parquet_rows

    events = traffic("activity", bootstrap, 12_000)
    run_once(load_target("activity"))
    views = Counter(
        (event.at.replace(second=0, microsecond=0), event.value["page"])
        for event in events
        if event.value and event.topic == "activity.views"
    )
    totals: Counter[datetime] = Counter()
    for (when, _), count in views.items():
        totals[when] += count
    pages = parquet_rows(tmp_path / "activity/top-pages", "")
    assert len({row["minute"] for row in pages}) > 20
    for row in pages:
        assert row["total"] == totals[row["minute"]]
        assert row["views"] == views[row["minute"], row["page"]]

    clicked = {event.value["search"] for event in events if event.value and event.topic == "activity.clicks"}
    searches = {
        event.value["search"]: event.at for event in events if event.value and event.topic == "activity.searches"
    }
    for row in parquet_rows(tmp_path / "activity/click-through", ""):
        inside = [
            search
            for search, when in searches.items()
            if row["started"] <= when < row["started"] + timedelta(minutes=5)
        ]
        assert (row["searches"], row["clicked"]) == (len(inside), len(clicked.intersection(inside)))

    sessions = parquet_rows(tmp_path / "activity/sessions", "")
    assert 0 < sum(row["views"] for row in sessions) <= sum(views.values())
    text = build_report("activity", tmp_path, bootstrap, {}).html()
    assert text.count("<svg") >= 10


@pytest.mark.spark
def test_logs_end_to_end(run_once: Runner, bootstrap: str, tmp_path: Path) -> None:
    from ottla.pipeline.reporting import build_report
    from ottla.pipeline.results import parquet_rows

    events = traffic("logs", bootstrap, 5_000)
    run_once(load_target("logs"))
    lines = parquet_rows(tmp_path / "logs/lines", "")
    expected = Counter((event.value or {})["service"] for event in events)
    assert Counter(row["service"] for row in lines) == expected
    errors = Counter(
        (event.value["service"], event.at.replace(second=0, microsecond=0))
        for event in events
        if event.value and event.value["level"] == "ERROR"
    )
    for row in parquet_rows(tmp_path / "logs/error-rates", ""):
        assert row["errors"] == errors[row["service"], row["minute"]]
    assert "Errors among the lines" in build_report("logs", tmp_path, bootstrap, {}).html()


@pytest.mark.spark
def test_metrics_end_to_end(run_once: Runner, bootstrap: str, tmp_path: Path) -> None:
    from ottla.pipeline.records import read_json
    from ottla.pipeline.reporting import build_report
    from ottla.pipeline.results import parquet_rows

    traffic("metrics", bootstrap, 7_000)
    run_once(load_target("metrics"))
    rows = parquet_rows(tmp_path / "metrics/aggregates", "")
    assert {row["count"] for row in rows} == {6}, "a value every ten seconds"
    assert all(row["min"] <= row["mean"] <= row["p95"] <= row["max"] for row in rows if row["name"] != "requests")
    assert {(alert["host"], alert["name"]) for alert in read_json(bootstrap, "metrics.alerts")} == {("host-3", "cpu")}
    assert "<td>host-3</td>" in build_report("metrics", tmp_path, bootstrap, {}).html()


@pytest.mark.spark
def test_changes_end_to_end(run_once: Runner, bootstrap: str, tmp_path: Path) -> None:
    from ottla.pipeline.reporting import build_report
    from ottla.pipeline.results import parquet_rows, table_rows

    events = traffic("changes", bootstrap, 3_000)
    run_once(load_target("changes"))
    expected: dict[int, Any] = {}
    for event in events:
        assert event.value is not None
        whole = event.at.replace(microsecond=event.at.microsecond // 1000 * 1000)
        expected[event.value["id"]] = {**event.value, "at": whole}
    alive = {key: value for key, value in expected.items() if value["op"] != "delete"}
    current = {row["id"]: row for row in table_rows(tmp_path / "customers/current", "")}
    assert current.keys() == alive.keys()
    for key, row in current.items():
        assert {name: row[name] for name in alive[key]} == alive[key]
    assert len(parquet_rows(tmp_path / "customers/history", "")) == 3_000
    assert "Customers over time" in build_report("changes", tmp_path, bootstrap, {}).html()


@pytest.mark.spark
def test_export_is_incremental(run_once: Runner, bootstrap: str, tmp_path: Path) -> None:
    from ottla.pipeline.results import parquet_rows

    parameters = {"topic": "exported"}
    module = load_part("export", "traffic", parameters)
    events = module.events(START)
    send(events, module.TOPICS, bootstrap, Pace(records=1_000))
    run_once(load_target("export", parameters))
    first = len(parquet_rows(tmp_path / "export/exported", ""))
    send(events, module.TOPICS, bootstrap, Pace(records=500))
    [state] = run_once(load_target("export", parameters))
    rows = parquet_rows(tmp_path / "export/exported", "")
    assert (first, state.rows, len(rows)) == (1_000, 500, 1_500)
    assert len({(row["partition"], row["offset"]) for row in rows}) == 1_500
    assert load_part("export", "report", parameters).report(tmp_path, bootstrap).title == "Export of exported"
