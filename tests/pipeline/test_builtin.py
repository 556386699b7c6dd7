"""What is built in: the functions on a few rows, and everything end to end."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import islice
from math import ceil
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import pytest

from ottla.pipeline.loading import load_part, load_target
from ottla.pipeline.traffic import Event, Pace, send
from tests.pipeline.conftest import Runner

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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
    """Send events; returns them with times as records have them, in whole milliseconds."""
    module = load_part(name, "traffic")
    events = list(islice(module.events(START), count))
    send(iter(events), module.TOPICS, bootstrap, Pace())
    return [event._replace(at=event.at.replace(microsecond=event.at.microsecond // 1000 * 1000)) for event in events]


def watermark(events: list[Event], minutes: int) -> datetime:
    """Of the slowest topic: what is older counts as complete."""
    last: dict[str, datetime] = {}
    for event in events:
        last[event.topic] = event.at
    return min(last.values()) - timedelta(minutes=minutes)


def whole_minute(moment: datetime) -> datetime:
    return moment.replace(second=0, microsecond=0)


def field(event: Event, name: str) -> Any:
    assert event.value is not None
    return event.value[name]


def expected_sessions(events: list[Event]) -> Counter[tuple[Any, ...]]:
    """User, begin, end and the number of views, searches and clicks of sessions that will not go on."""
    by_user: dict[str, list[list[Event]]] = {}
    for event in events:
        sessions = by_user.setdefault(field(event, "user"), [])
        if not sessions or event.at - sessions[-1][-1].at >= timedelta(minutes=30):
            sessions.append([])
        sessions[-1].append(event)
    over = watermark(events, 2) - timedelta(minutes=30)
    return Counter(
        (user, deeds[0].at, deeds[-1].at, *(sum(d.topic == topic for d in deeds) for topic in ACTIVITY))
        for user, sessions in by_user.items()
        for deeds in sessions
        if deeds[-1].at <= over
    )


def expected_pages(views: list[Event], complete: datetime) -> list[tuple[Any, ...]]:
    """Minute, views of all pages, and rank, name and views of the ten pages with most of them."""
    by_minute: dict[datetime, Counter[str]] = {}
    for event in views:
        by_minute.setdefault(whole_minute(event.at), Counter())[field(event, "page")] += 1
    return [
        (when, pages.total(), rank, page, count)
        for when, pages in by_minute.items()
        if when + timedelta(minutes=1) <= complete
        for rank, (count, page) in enumerate(sorted(((n, p) for p, n in pages.items()), reverse=True)[:10], 1)
    ]


ACTIVITY = ("activity.views", "activity.searches", "activity.clicks")


@pytest.mark.spark
def test_activity_end_to_end(run_once: Runner, bootstrap: str, tmp_path: Path) -> None:
    from ottla.pipeline.reporting import build_report
    from ottla.pipeline.results import parquet_rows

    events = traffic("activity", bootstrap, 20_000)
    run_once(load_target("activity"))
    views, searches, clicks = ([event for event in events if event.topic == topic] for topic in ACTIVITY)

    pages = parquet_rows(tmp_path / "activity/top-pages")
    found = [tuple(row[name] for name in ("minute", "total", "rank", "page", "views")) for row in pages]
    assert sorted(found) == sorted(expected_pages(views, watermark(views, 2)))
    assert len(found) > 200

    columns = ("user", "started", "ended", "views", "searches", "clicks")
    sessions = parquet_rows(tmp_path / "activity/sessions")
    assert Counter(tuple(row[name] for name in columns) for row in sessions) == expected_sessions(events)
    assert len(sessions) > 100

    clicked = {field(click, "search") for click in clicks}
    windows = parquet_rows(tmp_path / "activity/click-through")
    assert len(windows) > 3
    for row in windows:
        begin, end = row["started"], row["started"] + timedelta(minutes=5)
        inside = {field(search, "search") for search in searches if begin <= search.at < end}
        assert (row["searches"], row["clicked"]) == (len(inside), len(clicked & inside))
    assert build_report("activity", tmp_path, bootstrap, {}).html().count("<svg") >= 10


@pytest.mark.spark
def test_logs_end_to_end(run_once: Runner, bootstrap: str, tmp_path: Path) -> None:
    from ottla.pipeline.reporting import build_report
    from ottla.pipeline.results import parquet_rows

    events = traffic("logs", bootstrap, 5_000)
    run_once(load_target("logs"))
    columns = ("service", "level", "message", "host")
    lines = parquet_rows(tmp_path / "logs/lines")
    assert Counter((row["at"], *(row[name] for name in columns)) for row in lines) == Counter(
        (event.at, *(field(event, name) for name in columns)) for event in events
    )
    expected: dict[tuple[Any, ...], list[int]] = {}
    for event in events:
        if whole_minute(event.at) + timedelta(minutes=1) <= watermark(events, 1):
            counts = expected.setdefault((whole_minute(event.at), field(event, "service")), [0, 0])
            counts[0] += 1
            counts[1] += field(event, "level") == "ERROR"
    rates = parquet_rows(tmp_path / "logs/error-rates")
    assert {(row["minute"], row["service"]): [row["lines"], row["errors"]] for row in rates} == expected
    assert len(rates) == len(expected) > 50
    assert "Errors among the lines" in build_report("logs", tmp_path, bootstrap, {}).html()


@pytest.mark.spark
def test_metrics_end_to_end(run_once: Runner, bootstrap: str, tmp_path: Path) -> None:
    from ottla.pipeline.records import read_json
    from ottla.pipeline.reporting import build_report
    from ottla.pipeline.results import parquet_rows
    from ottla.pipeline.traffic import timestamp

    events = traffic("metrics", bootstrap, 7_000)
    run_once(load_target("metrics"))
    complete = watermark(events, 1)
    values: dict[tuple[Any, ...], list[float]] = {}
    for event in events:
        key = (whole_minute(event.at), field(event, "host"), field(event, "name"))
        values.setdefault(key, []).append(field(event, "value"))
    rows = parquet_rows(tmp_path / "metrics/aggregates")
    aggregates = {(row["minute"], row["host"], row["name"]): row for row in rows}
    assert len(aggregates) == len(rows) > 500
    assert aggregates.keys() == {key for key in values if key[0] + timedelta(minutes=1) <= complete}
    for key, row in aggregates.items():
        assert (row["count"], row["min"], row["max"]) == (len(values[key]), min(values[key]), max(values[key]))
        assert row["mean"] == pytest.approx(fmean(values[key]))
        assert row["p95"] == sorted(values[key])[ceil(0.95 * len(values[key])) - 1]

    above = set()
    for begin in {key[0] for key in values} | {START - timedelta(minutes=1)}:
        for host in {key[1] for key in values}:
            both = values.get((begin, host, "cpu"), []) + values.get((begin + timedelta(minutes=1), host, "cpu"), [])
            if begin + timedelta(minutes=2) <= complete and fmean(both) > 90:
                above.add((timestamp(begin), host, "cpu"))
    alerts = [(alert["since"], alert["host"], alert["name"]) for alert in read_json(bootstrap, "metrics.alerts")]
    assert len(above) > 5
    assert sorted(alerts) == sorted(above)
    assert "<td>host-3</td>" in build_report("metrics", tmp_path, bootstrap, {}).html()


@pytest.mark.spark
def test_changes_end_to_end(run_once: Runner, bootstrap: str, tmp_path: Path) -> None:
    from ottla.pipeline.reporting import build_report
    from ottla.pipeline.results import parquet_rows, table_rows

    events = traffic("changes", bootstrap, 3_000)
    run_once(load_target("changes"))
    expected: dict[int, Any] = {}
    for event in events:
        expected[field(event, "id")] = {**(event.value or {}), "at": event.at}
    alive = {key: value for key, value in expected.items() if value["op"] != "delete"}
    current = {row["id"]: row for row in table_rows(tmp_path / "customers/current")}
    assert current.keys() == alive.keys()
    for key, row in current.items():
        assert {name: row[name] for name in alive[key]} == alive[key]
    assert len(parquet_rows(tmp_path / "customers/history")) == 3_000
    assert "Customers over time" in build_report("changes", tmp_path, bootstrap, {}).html()


@pytest.mark.spark
def test_export_is_incremental(run_once: Runner, bootstrap: str, tmp_path: Path) -> None:
    from ottla.pipeline.results import parquet_rows

    parameters = {"topic": "exported"}
    module = load_part("export", "traffic", parameters)
    events = module.events(START)
    send(events, module.TOPICS, bootstrap, Pace(records=1_000))
    run_once(load_target("export", parameters))
    first = len(parquet_rows(tmp_path / "export/exported"))
    send(events, module.TOPICS, bootstrap, Pace(records=500))
    [state] = run_once(load_target("export", parameters))
    rows = parquet_rows(tmp_path / "export/exported")
    assert (first, state.rows, len(rows)) == (1_000, 500, 1_500)
    assert len({(row["partition"], row["offset"]) for row in rows}) == 1_500
    assert load_part("export", "report", parameters).report(tmp_path, bootstrap).title == "Export of exported"
