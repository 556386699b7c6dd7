"""The results of the metrics pipelines on one page."""

from pathlib import Path

from ottla.pipeline.builtin.metrics.pipelines import ALERTS, LIMITS
from ottla.pipeline.charts import line_chart
from ottla.pipeline.page import Page, Section
from ottla.pipeline.records import read_json
from ottla.pipeline.results import parquet_rows, series, total


def report(base: Path, bootstrap_server: str) -> Page:
    rows = parquet_rows(base / "metrics/aggregates")
    alerts = sorted(read_json(bootstrap_server, ALERTS), key=lambda alert: (alert["since"], alert["host"]))
    hosts = sorted({row["host"] for row in rows})
    page = Page("Metrics", "Aggregates of every minute, from parquet files, and alerts, from a topic.")
    page.figures = [
        (f"{total(rows, 'count'):,}", "measurements"),
        (f"{len(hosts)}", "hosts"),
        (f"{len({row['minute'] for row in rows}):,}", "minutes"),
        (f"{len(alerts):,}", "alerts"),
    ]
    charts = []
    for name, unit in (("cpu", "%"), ("memory", "%"), ("requests", "")):
        lines = {
            host: series([r for r in rows if r["host"] == host and r["name"] == name], "minute", lambda r: r["mean"])
            for host in hosts
        }
        limit = f", alert above {LIMITS[name]:g}{unit}" if name in LIMITS else ""
        charts.append(line_chart(f"{name}, mean of each minute{limit}", lines, unit=unit))
    page.sections = [
        Section("Hosts", "", charts),
        Section(
            "Alerts",
            f"From the topic {ALERTS}.",
            header=["since", "until", "host", "metric", "mean", "limit"],
            rows=[
                [a["since"], a["until"], a["host"], a["name"], f"{a['mean']:.1f}", f"{a['limit']:g}"]
                for a in alerts[-40:]
            ],
        ),
    ]
    return page
