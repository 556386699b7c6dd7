"""Charts are well-formed, and as high as their numbers."""

import re
import xml.etree.ElementTree as ET
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ottla.pipeline.charts import bar_chart, column_chart, line_chart, number_text
from ottla.pipeline.page import Page, Section

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
SVG = "{http://www.w3.org/2000/svg}"


def points(chart: str) -> list[tuple[float, float]]:
    [line] = ET.fromstring(chart).iter(f"{SVG}polyline")
    return [(float(x), float(y)) for x, y in (pair.split(",") for pair in line.attrib["points"].split())]


def test_a_line_goes_through_its_points_in_proportion() -> None:
    first, middle, last = points(line_chart("A & B", {"x": [(0, 0), (5, 10), (10, 20)]}, times=False))
    assert middle[0] == pytest.approx((first[0] + last[0]) / 2)
    assert middle[1] == pytest.approx((first[1] + last[1]) / 2)
    assert last[1] < first[1]


@pytest.mark.parametrize(
    ("first", "last", "marks"),
    [
        (NEW_YEAR + 7, NEW_YEAR + 48, ["00:00:15", "00:00:30", "00:00:45"]),
        (NEW_YEAR, NEW_YEAR + 4.5 * 3600, ["00:00", "01:00", "02:00", "03:00", "04:00"]),
        (NEW_YEAR, NEW_YEAR + 8 * 86_400, ["01 Jan", "03 Jan", "05 Jan", "07 Jan", "09 Jan"]),
        (NEW_YEAR + 61, NEW_YEAR + 61, ["00:01:01"]),
    ],
)
def test_an_axis_of_time_has_round_marks(first: float, last: float, marks: list[str]) -> None:
    root = ET.fromstring(line_chart("t", {"x": [(first, 1.0), (last, 1.0)]}))
    assert [text.text for text in root.iter(f"{SVG}text") if re.search(r":|[a-z]{2}", text.text or "")] == marks


def test_many_lines_have_a_legend_and_escaped_names() -> None:
    chart = line_chart("t", {f"<{n}>": [(0, n), (1, n)] for n in range(10)})
    assert len(list(ET.fromstring(chart).iter(f"{SVG}polyline"))) == 10
    assert "&lt;9&gt;" in chart


def test_thousands_of_points_keep_their_peaks() -> None:
    line = [(float(n), 50.0 if n == 4321 else 10.0 + n % 2) for n in range(20_000)]
    drawn = points(line_chart("t", {"x": line}, times=False))
    assert len(drawn) <= 600
    assert [x for x, _ in drawn] == sorted(x for x, _ in drawn)
    assert min(y for _, y in drawn) == pytest.approx(44.0), "the top of the chart"


def test_bars_are_as_long_as_their_values() -> None:
    root = ET.fromstring(bar_chart("t", [("a", 10.0), ("b", 5.0), ("c", 0.0)]))
    widths = [float(bar.attrib["width"]) for bar in root.iter(f"{SVG}rect")][1:]
    assert widths == [pytest.approx(2 * widths[1], abs=0.2), widths[1], 1.0]


@pytest.mark.parametrize("chart", [line_chart("t", {}), line_chart("t", {"a": []}), column_chart("t", [])])
def test_nothing_yet(chart: str) -> None:
    assert "no data" in "".join(ET.fromstring(chart).itertext())


@pytest.mark.parametrize("values", [[0.0], [0.0, 0.0], [1e-6, 2e-6], [3e9]])
def test_all_scales_can_be_drawn(values: list[float]) -> None:
    ET.fromstring(line_chart("t", {"a": [(float(n), value) for n, value in enumerate(values)]}))
    ET.fromstring(column_chart("t", [(str(n), value) for n, value in enumerate(values)]))


@pytest.mark.parametrize(
    ("value", "text"), [(0.0, "0"), (1234.0, "1,234"), (0.123456, "0.123"), (45_600.0, "45.6 k"), (2.5e6, "2.5 M")]
)
def test_numbers(value: float, text: str) -> None:
    assert number_text(value) == text


def test_a_page_needs_nothing_else(tmp_path: Path) -> None:
    page = Page("Report <1>", "Words.", [("12", "things")])
    page.sections.append(Section("Part", "", [bar_chart("t", [("a", 1.0)])], ["x"], [["<y>"]]))
    page.write(tmp_path / "deep" / "report.html")
    text = (tmp_path / "deep" / "report.html").read_text()
    assert "<h1>Report &lt;1&gt;</h1>" in text
    assert "<td>&lt;y&gt;</td>" in text
    assert "<svg" in text
    assert all(word not in text.replace("http://www.w3.org/2000/svg", "") for word in ("http:", "https:", "<script"))
