"""The exported records on one page."""

from collections import Counter
from pathlib import Path

from ottla.pipeline.builtin.export.pipelines import TOPIC
from ottla.pipeline.charts import bar_chart, line_chart, number_text
from ottla.pipeline.page import Page, Section
from ottla.pipeline.results import parquet_files, parquet_rows, seconds


def report(base: Path, bootstrap_server: str) -> Page:
    directory = base / "export" / TOPIC
    rows = parquet_rows(directory)
    per_second = Counter(int(seconds(row["timestamp"])) for row in rows)
    partitions = Counter(f"partition {row['partition']}" for row in rows)
    size = sum(len(row["value"] or b"") + len(row["key"] or b"") for row in rows)
    page = Page(f"Export of {TOPIC}", "Every record of the topic, in parquet, by the day of its timestamp.")
    page.figures = [
        (f"{len(rows):,}", "records"),
        (f"{number_text(float(size))}B", "of keys and values"),
        (f"{len(parquet_files(directory))}", "parquet files"),
    ]
    points = [(float(second), float(count)) for second, count in sorted(per_second.items())]
    page.sections = [
        Section(
            "Records",
            "",
            [
                line_chart("Records per second, by timestamp", {"records": points}),
                bar_chart("Records by partition", [(name, float(n)) for name, n in sorted(partitions.items())]),
            ],
        )
    ]
    return page
