"""The tables, pages and plots of a run."""

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.charts import Group, bar_chart
from bench.measurement import KAFKA, Bar, Row, Summary, Unit
from bench.pages import PAGES, Page
from bench.results import Results

HEADINGS = ("what", "unit", "Kafka", "Ottla", "ratio", "bar", "met")
_RATES = (Unit.RECORDS_PER_SECOND, Unit.REQUESTS_PER_SECOND, Unit.DELIVERIES_PER_SECOND, Unit.ROWS_PER_SECOND)
BAR_HEADINGS = ("what", "bar", "measured ratio", "met?")


def print_tables(console: Console, rows: Sequence[Row]) -> None:
    table = Table(title="Ottla compared with Apache Kafka")
    for heading in HEADINGS:
        table.add_column(heading, justify="right" if heading in ("Kafka", "Ottla", "ratio") else "left")
    for family, members in groupby(rows, key=lambda row: row.family):
        for row in members:
            what, *cells = row_cells(row)
            table.add_row(f"{family}: {what}", *cells[:-1], _coloured(cells[-1]))
        table.add_section()
    console.print(table)
    summary = Table(*BAR_HEADINGS, title="The bars")
    for cells in bar_cells(rows):
        summary.add_row(*cells[:-1], _coloured(cells[-1]))
    console.print(summary)


def _coloured(verdict: str) -> str:
    return f"[{'green' if verdict == 'yes' else 'red'}]{verdict}[/]" if verdict else ""


def bar_cells(rows: Sequence[Row]) -> list[list[str]]:
    """The cells under BAR_HEADINGS: a line per bar, with the worst and the best ratio of the rows that share it."""
    members: dict[Bar, list[Row]] = {}
    for row in rows:
        if row.metric.bar is not None:
            members.setdefault(row.metric.bar, []).append(row)
    return [[bar.what, str(bar), _range(bar, judged), _verdict(judged)] for bar, judged in members.items()]


def _range(bar: Bar, rows: Sequence[Row]) -> str:
    ratios = sorted((row.ratio for row in rows if row.ratio is not None), reverse=not bar.at_least)
    return " to ".join(dict.fromkeys(f"{ratio:.2f}x" for ratio in (*ratios[:1], *ratios[-1:])))


def _verdict(rows: Sequence[Row]) -> str:
    if all(row.ratio is None for row in rows):
        return "not measured"
    met = sum(row.met is True for row in rows)
    if met == len(rows):
        return "yes"
    return f"NO ({met} of {len(rows)})" if len(rows) > 1 else "NO"


def row_cells(row: Row) -> list[str]:
    """The cells under HEADINGS. If the reference is not Kafka, the cell names it."""
    reference = cell(row.reference, row.metric.unit)
    if row.metric.reference != KAFKA:
        reference = f"{reference} ({row.metric.reference})"
    return [
        f"{row.case}: {row.metric.name}",
        row.metric.unit,
        reference,
        cell(row.ottla, row.metric.unit),
        "" if row.ratio is None else f"{row.ratio:.2f}x",
        "" if row.metric.bar is None else str(row.metric.bar),
        {True: "yes", False: "NO", None: "" if row.metric.bar is None else "not measured"}[row.met],
    ]


def cell(summary: Summary | None, unit: Unit) -> str:
    if summary is None:
        return ""
    spread = f" ±{summary.spread * 100:.0f}%" if summary.repeats > 1 else ""
    return f"{number(summary.median, unit)}{spread}"


def number(value: float, unit: Unit) -> str:
    """Format with three significant digits."""
    if unit in _RATES and value >= 1000:
        return f"{value / 1000:,.1f} k" if value < 100_000 else f"{value / 1000:,.0f} k"
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def pages_of(results: Results) -> list[Page]:
    """The pages with at least one family of the results."""
    return [page for page in PAGES if any(family in page.families for family in results.families)]


def whole_pages_of(results: Results) -> list[Page]:
    """The pages whose families were all run."""
    return [page for page in PAGES if all(family in results.families for family in page.families)]


def write(output: Path, results: Results, page: Page) -> Path:
    """Write the page and its plots. Returns the path of the page."""
    rows = [row for row in results.rows if row.family in page.families]
    plots = output / page.name
    plots.mkdir(parents=True, exist_ok=True)
    for old in plots.glob("*.svg"):
        old.unlink()
    charts = charts_of(rows)
    for name, svg in charts.items():
        (plots / name).write_text(svg)
    file = output / page.file
    file.write_text(_text(results, page, rows, list(charts)))
    return file


def _text(results: Results, page: Page, rows: Sequence[Row], charts: Sequence[str]) -> str:
    lines = [
        f"# {page.title}",
        "",
        page.introduction,
        *(["This was a quick run with tiny loads: the numbers are not meaningful.", ""] if results.quick else []),
        *_table(BAR_HEADINGS, bar_cells(rows)),
        *[f"- {line}" for line in page.machine(results.machine)],
        "",
        page.method.format(warmup=results.scale.jit_seconds, repeats=results.repeats),
    ]
    headings = [page.reference if heading == KAFKA else heading for heading in HEADINGS]
    for family, members in groupby(rows, key=lambda row: row.family):
        lines += [f"## {family}", "", *_table(headings, [row_cells(row) for row in members])]
        lines += [f"![{family}]({page.name}/{name})\n" for name in charts if name.startswith(f"{family}-")]
    return "\n".join(lines).rstrip() + "\n"


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    divider = "|" + "---|" * len(headings)
    return [f"| {' | '.join(headings)} |", divider, *[f"| {' | '.join(cells)} |" for cells in rows], ""]


def charts_of(rows: Sequence[Row]) -> dict[str, str]:
    """A chart for each unit of a family, by file name."""
    grouped: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if row.metric.plotted and row.summaries:
            grouped.setdefault((row.family, row.metric.unit), []).append(row)
    return {_file_name(family, unit): _chart(family, unit, members) for (family, unit), members in grouped.items()}


def _chart(family: str, unit: str, rows: Sequence[Row]) -> str:
    same_metric = len({row.metric.name for row in rows}) == 1
    groups = [
        Group(
            row.case if same_metric else f"{row.case}: {row.metric.name}",
            [(name, s.median, number(s.median, row.metric.unit)) for name, s in row.summaries.items()],
            row.target,
        )
        for row in rows
    ]
    title = f"{family}: {rows[0].metric.name}, {unit}" if same_metric else f"{family}, {unit}"
    return bar_chart(title, groups)


def _file_name(family: str, unit: str) -> str:
    return f"{family}-{''.join(c if c.isalnum() else '-' for c in unit.lower())}.svg"
