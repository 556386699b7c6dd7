"""The results of the change log pipelines on one page."""

from collections import Counter
from itertools import accumulate
from pathlib import Path

from ottla.pipeline.charts import bar_chart, line_chart
from ottla.pipeline.page import Page, Section
from ottla.pipeline.results import parquet_rows, seconds, table_rows

_GROWTH = {"create": 1, "delete": -1}


def report(base: Path, bootstrap_server: str) -> Page:
    history = sorted(parquet_rows(base / "customers/history"), key=lambda row: row["at"])
    current = table_rows(base / "customers/current")
    operations = Counter(row["op"] for row in history)
    cities = Counter(row["city"] for row in current)
    growth = list(accumulate(_GROWTH.get(row["op"], 0) for row in history))
    times = [seconds(row["at"]) for row in history]
    page = Page("Customers", "The current table, built from the changes of its rows, and its history.")
    page.figures = [
        (f"{len(current):,}", "customers now"),
        (f"{len(history):,}", "changes in the history"),
        (f"{sum(row['orders'] for row in current):,}", "orders of current customers"),
        (f"{operations['delete']:,}", "deleted customers"),
    ]
    customers = [(time, float(count)) for time, count in zip(times, growth, strict=True)]
    page.sections = [
        Section("History", "", [line_chart("Customers over time", {"customers": customers})]),
        Section(
            "Now",
            "",
            [
                bar_chart("Customers by city", [(city, float(count)) for city, count in cities.most_common()]),
                bar_chart("Changes by kind", [(name, float(count)) for name, count in operations.most_common()]),
            ],
        ),
    ]
    return page
