"""The table, the page and the plots: three views of the same rows."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from itertools import groupby
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.charts import Group, bar_chart
from bench.machine import Machine
from bench.measurement import KAFKA, Measurement, Row, Summary, Unit

PAGE = "benchmarks.md"
PLOTS = "benchmarks"
HEADINGS = ("what", "unit", "Kafka", "Ottla", "ratio", "bar", "met")

METHOD = """\
How it was measured: both brokers run on the same machine at the same time and take the load in turn, case by case; who
goes first changes with every repeat, and dirty pages are written out in between. Apache Kafka runs as one KRaft node
that is broker and controller, with the JVM flags of its own start script (1 GB heap, G1). Both run with their
defaults, except that groups do not wait for more members (`group.initial.rebalance.delay.ms=0`) and that deleted
segments leave the disk after a second. Before anything is measured, each broker serves small and large requests for
{warmup:.0f} s, so that the JIT compiler has seen them, and every case starts with an unmeasured pass of a quarter of
its load.

Cells show the median of {repeats} repeats and, as ±, the distance between the lowest and the highest repeat in percent
of it. CPU is the broker's user and system time. ProducerPerformance is read in its steady state, after a fifth of its
records; ConsumerPerformance by its fetch time, which leaves out the forming of the group. EndToEndLatency prints
percentiles in whole milliseconds. Memory, start and scaling get a new broker for every repeat; formatting Kafka's
storage is not counted.
"""


def print_table(console: Console, rows: Sequence[Row]) -> None:
    table = Table(title="Ottla beside Apache Kafka")
    for heading in HEADINGS:
        table.add_column(heading, justify="right" if heading in ("Kafka", "Ottla", "ratio") else "left")
    for family, members in groupby(rows, key=lambda row: row.family):
        for row in members:
            style = {True: "green", False: "red", None: ""}[row.met]
            what, *cells = row_cells(row)
            table.add_row(f"{family}: {what}", *cells[:-1], f"[{style}]{cells[-1]}[/]" if style else cells[-1])
        table.add_section()
    console.print(table)


def row_cells(row: Row) -> list[str]:
    """The cells under HEADINGS. Where Ottla is not compared with Kafka, the cell names the reference."""
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
    """Three digits that mean something."""
    if unit in (Unit.RECORDS_PER_SECOND, Unit.REQUESTS_PER_SECOND, Unit.DELIVERIES_PER_SECOND) and value >= 1000:
        return f"{value / 1000:,.1f} k" if value < 100_000 else f"{value / 1000:,.0f} k"
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def write(
    output: Path,
    rows: Sequence[Row],
    measurements: Sequence[Measurement],
    machine: Machine,
    warmup: float,
    repeats: int,
) -> None:
    """The page, its plots, and every single measurement, for whoever wants to calculate differently."""
    plots = output / PLOTS
    plots.mkdir(parents=True, exist_ok=True)
    for old in plots.glob("*.svg"):
        old.unlink()
    charts = charts_of(rows)
    for name, svg in charts.items():
        (plots / name).write_text(svg)
    (output / PAGE).write_text(page(rows, list(charts), machine, warmup, repeats))
    (plots / "measurements.json").write_text(json.dumps([asdict(m) for m in measurements], indent=0) + "\n")


def page(rows: Sequence[Row], charts: Sequence[str], machine: Machine, warmup: float, repeats: int) -> str:
    judged = [row for row in rows if row.met is not None]
    lines = [
        "# Benchmarks",
        "",
        "Ottla beside Apache Kafka, measured by `make bench` in one run. A ratio is Ottla's median divided by that",
        "of its reference, which is Apache Kafka unless the cell names another.",
        "",
        *[f"- {line}" for line in machine.lines()],
        "",
        f"{sum(row.met is True for row in judged)} of {len(judged)} bars met.",
        "",
        METHOD.format(warmup=warmup, repeats=repeats),
    ]
    for family, members in groupby(rows, key=lambda row: row.family):
        lines += [f"## {family}", "", "| " + " | ".join(HEADINGS) + " |", "|" + "---|" * len(HEADINGS)]
        lines += ["| " + " | ".join(row_cells(row)) + " |" for row in members]
        lines.append("")
        lines += [f"![{family}]({PLOTS}/{name})\n" for name in charts if name.startswith(f"{family}-")]
    return "\n".join(lines).rstrip() + "\n"


def charts_of(rows: Sequence[Row]) -> dict[str, str]:
    """A chart for each metric of a family, by file name; metrics that only one case has share a chart by unit."""
    grouped: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if row.metric.plotted:
            grouped.setdefault((row.family, row.metric.unit), []).append(row)
    return {_file_name(family, unit): _chart(family, unit, members) for (family, unit), members in grouped.items()}


def _chart(family: str, unit: str, rows: Sequence[Row]) -> str:
    same_metric = len({row.metric.name for row in rows}) == 1
    groups = [
        Group(
            row.case if same_metric else f"{row.case}: {row.metric.name}",
            [(name, s.median, number(s.median, row.metric.unit)) for name, s in row.summaries.items()],
        )
        for row in rows
    ]
    title = f"{family}: {rows[0].metric.name}, {unit}" if same_metric else f"{family}, {unit}"
    return bar_chart(title, groups)


def _file_name(family: str, unit: str) -> str:
    return f"{family}-{''.join(c if c.isalnum() else '-' for c in unit.lower())}.svg"
