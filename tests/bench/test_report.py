import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from bench import report
from bench.charts import BAR_HEIGHT, TARGET, Group, bar_chart
from bench.machine import Machine
from bench.measurement import (
    CONNECTOR,
    KAFKA,
    NULL,
    OTTLA,
    TUNED_CONNECTOR,
    Measurement,
    Metric,
    Row,
    Unit,
    at_least,
    at_most,
    summarize,
)
from bench.results import Results
from bench.workloads import FAMILIES

MACHINE = Machine("a processor", 2, 16.0, "Linux 6.1", "3.11.4", "17.0.1", "4.3.1", "0.1.0", "2.8.0", "2.8.1")
SVG = "{http://www.w3.org/2000/svg}"

RATE = Metric("rate", Unit.REQUESTS_PER_SECOND, at_least(2.0, "small requests: rate"), plotted=True)
FLOOR = Metric("broker CPU", Unit.SECONDS_PER_GIGABYTE, at_most(1.5, "to the null broker"), NULL, plotted=True)
ROWS = [
    Row("requests", "small", RATE, {KAFKA: summarize([10_000, 12_000, 11_000]), OTTLA: summarize([33_000])}),
    Row("requests", "16 KB <batches>", RATE, {KAFKA: summarize([5000]), OTTLA: summarize([6000])}),
    Row("null", "fetch", FLOOR, {NULL: summarize([0.2]), OTTLA: summarize([0.25])}),
]


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (374_123, Unit.RECORDS_PER_SECOND, "374 k"),
        (45_600, Unit.REQUESTS_PER_SECOND, "45.6 k"),
        (820, Unit.REQUESTS_PER_SECOND, "820"),
        (1234.5, Unit.MEGABYTES, "1,234"),
        (37.33, Unit.MEGABYTES, "37.3"),
        (0.283, Unit.SECONDS_PER_GIGABYTE, "0.28"),
    ],
)
def test_numbers(value: float, unit: Unit, text: str) -> None:
    assert report.number(value, unit) == text


def test_a_row_shows_medians_spread_ratio_and_verdict() -> None:
    assert report.row_cells(ROWS[0]) == [
        "small: rate", "requests/s", "11.0 k ±9%", "33.0 k", "3.00x", "at least 2x", "yes",
    ]  # fmt: skip
    assert report.row_cells(ROWS[1])[-3:] == ["1.20x", "at least 2x", "NO"]


def test_a_reference_that_is_not_kafka_is_named() -> None:
    assert report.row_cells(ROWS[2])[2] == "0.20 (null broker)"


def test_a_bar_without_both_measurements_is_not_judged() -> None:
    lonely = Row("requests", "small", RATE, {OTTLA: summarize([1.0])})
    assert report.row_cells(lonely)[2:] == ["", "1.00", "", "at least 2x", "not measured"]


def test_a_line_for_each_bar_with_its_worst_and_best_row() -> None:
    assert report.bar_cells(ROWS) == [
        ["small requests: rate", "at least 2x", "1.20x to 3.00x", "NO (1 of 2)"],
        ["to the null broker", "at most 1.5x", "1.25x", "yes"],
    ]
    unmeasured = Row("null", "fetch", FLOOR, {})
    assert report.bar_cells([unmeasured])[0][2:] == ["", "not measured"]
    assert report.bar_cells([ROWS[2], unmeasured])[0][2:] == ["1.25x", "NO (1 of 2)"]


def test_the_tables_have_every_row_and_every_bar() -> None:
    output = StringIO()
    report.print_tables(Console(file=output, width=200), ROWS)
    text = output.getvalue()
    assert "requests: small: rate" in text
    assert "null: fetch: broker CPU" in text
    assert "NO (1 of 2)" in text


def test_the_page_names_machine_and_bars_and_shows_its_plots(tmp_path: Path) -> None:
    stale = tmp_path / "benchmarks" / "gone.svg"
    stale.parent.mkdir()
    stale.write_text("")
    results = Results(MACHINE, ["start"], 3)
    [case] = results.cases
    metric = case.metrics[0].name
    results.measurements += [
        Measurement(case.family, case.name, metric, broker, value) for broker, value in ((KAFKA, 5.0), (OTTLA, 0.5))
    ]
    [page_of_brokers] = report.pages_of(results)
    assert report.whole_pages_of(results) == []
    assert report.write(tmp_path, results, page_of_brokers) == tmp_path / "benchmarks.md"
    page = (tmp_path / "benchmarks.md").read_text()
    assert "| start to first acknowledged message | at most 1/8 | 0.10x | yes |" in page
    assert "Apache Kafka 4.3.1 on Java 17.0.1" in page
    assert f"| {case.name}: {metric} | s | 5.00 | 0.50 | 0.10x | at most 1/8 | yes |" in page
    assert [path.name for path in (tmp_path / "benchmarks").iterdir()] == ["start-s.svg"]
    assert "(benchmarks/start-s.svg)" in page


def test_spark_has_a_page_of_its_own_that_a_run_of_its_family_completes(tmp_path: Path) -> None:
    results = Results(MACHINE, ["spark"], 3, spark_rows=[1_000_000])
    [page] = report.whole_pages_of(results)
    assert report.pages_of(results) == [page]
    values = {CONNECTOR: {"to its defaults": 600_000}, TUNED_CONNECTOR: {"to its tuned options": 1_200_000}}
    values[OTTLA] = {"to its defaults": 1_200_000, "to its tuned options": 1_200_000}
    results.measurements += [
        Measurement("spark", "batch to noop, 1M rows", metric, side, value)
        for side, measured in values.items()
        for metric, value in measured.items()
    ]
    text = report.write(tmp_path, results, page).read_text()
    case = "| batch to noop, 1M rows"
    assert f"{case}: to its defaults | rows/s | 600 k (JVM connector) | 1,200 k | 2.00x | at least 1.5x | yes |" in text
    assert f"{case}: to its tuned options | rows/s | 1,200 k (JVM connector, tuned) | 1,200 k | 1.00x |" in text
    assert "| what | unit | JVM connector | Ottla |" in text
    assert (tmp_path / "benchmarks-spark" / "spark-rows-s.svg").exists()
    whole = Results(MACHINE, list(FAMILIES), 3)
    assert [page.file for page in report.whole_pages_of(whole)] == ["benchmarks.md", "benchmarks-spark.md"]


def _bars(chart: str) -> list[float]:
    rectangles = ElementTree.fromstring(chart).iter(f"{SVG}rect")
    return [float(each.get("width", "")) for each in rectangles if each.get("height") == str(BAR_HEIGHT)]


def test_bars_are_as_long_as_their_values() -> None:
    chart = bar_chart("a & b", [Group("<one>", [(KAFKA, 50.0, "50"), (OTTLA, 100.0, "100")])])
    kafka, ottla = _bars(chart)
    assert kafka * 2 == pytest.approx(ottla)
    texts = [each.text for each in ElementTree.fromstring(chart).iter(f"{SVG}text")]
    assert {"a & b", "<one>", "50", "100", "0", "80", KAFKA, OTTLA} <= set(texts)


def test_bars_that_would_vanish_are_drawn_on_a_logarithmic_scale() -> None:
    chart = bar_chart("wide", [Group("one", [(KAFKA, 1000.0, ""), (OTTLA, 10.0, "")])])
    kafka, ottla = _bars(chart)
    assert 0.3 < ottla / kafka < 0.9
    assert "logarithmic" in chart


def test_a_line_marks_where_ottlas_bar_has_to_end() -> None:
    group = Group("one", [(KAFKA, 100.0, ""), (OTTLA, 120.0, "")])
    assert TARGET not in bar_chart("without", [group])
    chart = bar_chart("with", [replace(group, target=200.0)])
    [line] = [each for each in ElementTree.fromstring(chart).iter(f"{SVG}line") if each.get("stroke") == TARGET]
    [first, *_] = [
        each for each in ElementTree.fromstring(chart).iter(f"{SVG}rect") if each.get("height") == str(BAR_HEIGHT)
    ]
    kafka, _ = _bars(chart)
    assert float(line.get("x1", "")) == pytest.approx(float(first.get("x", "")) + 2 * kafka)


def test_a_chart_of_nothing_is_still_a_picture() -> None:
    assert ElementTree.fromstring(bar_chart("empty", [])).tag == f"{SVG}svg"
