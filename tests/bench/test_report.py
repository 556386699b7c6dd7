import json
import xml.etree.ElementTree as ElementTree
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from bench import report
from bench.charts import Group, bar_chart
from bench.machine import Machine
from bench.measurement import KAFKA, NULL, OTTLA, Measurement, Metric, Row, Unit, at_least, at_most, summarize

MACHINE = Machine("a processor", 2, 16.0, "Linux 6.1", "3.11.4", "17.0.1", "4.3.1", "0.1.0", "2.8.0")
SVG = "{http://www.w3.org/2000/svg}"

RATE = Metric("rate", Unit.REQUESTS_PER_SECOND, at_least(2.0), plotted=True)
FLOOR = Metric("broker CPU", Unit.SECONDS_PER_GIGABYTE, at_most(1.5), NULL, plotted=True)
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
        "small: rate", "requests/s", "11.0 k ±18%", "33.0 k", "3.00x", "at least 2x", "yes",
    ]  # fmt: skip
    assert report.row_cells(ROWS[1])[-3:] == ["1.20x", "at least 2x", "NO"]


def test_a_reference_that_is_not_kafka_is_named() -> None:
    assert report.row_cells(ROWS[2])[2] == "0.20 (null broker)"


def test_a_bar_without_both_measurements_is_not_judged() -> None:
    lonely = Row("requests", "small", RATE, {OTTLA: summarize([1.0])})
    assert report.row_cells(lonely)[2:] == ["", "1.00", "", "at least 2x", "not measured"]


def test_the_table_has_every_row() -> None:
    output = StringIO()
    report.print_table(Console(file=output, width=200), ROWS)
    text = output.getvalue()
    assert "requests: small: rate" in text
    assert "null: fetch: broker CPU" in text


def test_the_page_names_machine_and_bars_and_shows_its_plots(tmp_path: Path) -> None:
    measurements = [Measurement("requests", "small", "rate", OTTLA, 33_000.0)]
    stale = tmp_path / "benchmarks" / "gone.svg"
    stale.parent.mkdir()
    stale.write_text("")
    report.write(tmp_path, ROWS, measurements, MACHINE, 25.0, 3)
    page = (tmp_path / "benchmarks.md").read_text()
    assert "2 of 3 bars met." in page
    assert "Apache Kafka 4.3.1 on Java 17.0.1" in page
    assert "| small: rate | requests/s | 11.0 k ±18% | 33.0 k | 3.00x | at least 2x | yes |" in page
    plots = {path.name for path in (tmp_path / "benchmarks").glob("*.svg")}
    assert plots == {"requests-requests-s.svg", "null-cpu-s-gb.svg"}
    assert all(f"(benchmarks/{name})" in page for name in plots)
    assert json.loads((tmp_path / "benchmarks" / "measurements.json").read_text())[0]["value"] == 33_000


def test_bars_are_as_long_as_their_values() -> None:
    chart = bar_chart("a & b", [Group("<one>", [(KAFKA, 50.0, "50"), (OTTLA, 100.0, "100")])])
    root = ElementTree.fromstring(chart)
    widths = [float(each.get("width", "")) for each in root.iter(f"{SVG}rect") if each.get("height") == "13"]
    assert widths[0] * 2 == pytest.approx(widths[1])
    texts = [each.text for each in root.iter(f"{SVG}text")]
    assert {"a & b", "<one>", "50", "100", KAFKA, OTTLA} <= set(texts)


def test_a_chart_of_nothing_is_still_a_picture() -> None:
    assert ElementTree.fromstring(bar_chart("empty", [])).tag == f"{SVG}svg"
