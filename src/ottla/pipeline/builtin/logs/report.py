"""The results of the log pipelines on one page."""

from collections import Counter
from pathlib import Path

from ottla.pipeline.charts import bar_chart, line_chart
from ottla.pipeline.page import Page, Section
from ottla.pipeline.results import parquet_files, parquet_rows, series, total


def report(base: Path, bootstrap_server: str) -> Page:
    rates = parquet_rows(base / "logs/error-rates")
    lines = parquet_rows(base / "logs/lines")
    services = sorted({row["service"] for row in rates})
    levels = Counter(row["level"] for row in lines)
    page = Page("Logs", "The lines of all services, in parquet by day and service, and the share of errors.")
    page.figures = [
        (f"{len(lines):,}", "lines archived"),
        (f"{len(services)}", "services"),
        (f"{len(parquet_files(base / 'logs/lines'))}", "parquet files"),
        (f"{total(rates, 'errors'):,}", "errors counted"),
    ]
    by_service = {name: [row for row in rates if row["service"] == name] for name in services}
    page.sections = [
        Section(
            "Errors",
            "The share of errors among the lines of each service, for every minute.",
            [
                line_chart(
                    "Errors among the lines of each service",
                    {name: series(rows, "minute", lambda row: row["rate"] * 100) for name, rows in by_service.items()},
                    unit="%",
                ),
                line_chart(
                    "Lines per minute",
                    {name: series(rows, "minute", lambda row: row["lines"]) for name, rows in by_service.items()},
                ),
            ],
        ),
        Section("Levels", "", [bar_chart("Lines by level", [(name, float(n)) for name, n in levels.most_common()])]),
    ]
    return page
