"""The results of the activity pipelines on one page."""

from collections import Counter
from pathlib import Path

from ottla.pipeline.charts import bar_chart, column_chart, line_chart
from ottla.pipeline.page import Page, Section
from ottla.pipeline.results import Row, parquet_rows, series, total


def report(base: Path, bootstrap_server: str) -> Page:
    sessions = parquet_rows(base / "activity/sessions")
    pages = parquet_rows(base / "activity/top-pages")
    searches = parquet_rows(base / "activity/click-through")
    found, clicked = total(searches, "searches"), total(searches, "clicked")
    minutes = {row["minute"]: row["total"] for row in pages}
    page = Page("Activity", "Sessions, top pages and click-through, from the parquet files of the pipelines.")
    page.figures = [
        (f"{sum(minutes.values()):,}", "page views"),
        (f"{len(sessions):,}", "finished sessions"),
        (f"{found:,}", "searches"),
        (f"{clicked / found:.1%}" if found else "-", "of them clicked"),
        (f"{_median([row['seconds'] for row in sessions]):.0f} s", "median session"),
    ]
    page.sections = [
        Section("Pages", "The ten most viewed pages of every minute. The total counts all pages.", _page_charts(pages)),
        Section("Searches", "A search counts as clicked if a click follows within ten minutes.", _charts(searches)),
        Section("Sessions", "A session ends after 30 minutes without activity.", _session_charts(sessions)),
    ]
    return page


def _page_charts(rows: list[Row]) -> list[str]:
    totals: Counter[str] = Counter()
    for row in rows:
        totals[row["page"]] += row["views"]
    best = totals.most_common(10)
    leading = {
        page: series([row for row in rows if row["page"] == page], "minute", lambda row: row["views"])
        for page, _ in best[:4]
    }
    everything = series([row for row in rows if row["rank"] == 1], "minute", lambda row: row["total"])
    return [
        line_chart("Page views per minute", {"views": everything}),
        line_chart("The four most viewed pages, per minute", leading),
        bar_chart("Most viewed pages", [(page, float(count)) for page, count in best]),
    ]


def _charts(rows: list[Row]) -> list[str]:
    asked = [row for row in rows if row["searches"]]
    positions = [row for row in asked if row["mean_position"] is not None]
    return [
        line_chart(
            "Share of searches that were clicked",
            {"rate": series(asked, "started", lambda r: r["rate"] * 100)},
            unit="%",
        ),
        line_chart(
            "Mean position of the click", {"position": series(positions, "started", lambda r: r["mean_position"])}
        ),
    ]


def _session_charts(rows: list[Row]) -> list[str]:
    lengths = Counter(min(int(row["seconds"]) // 60, 15) for row in rows)
    actions = Counter(min(row["views"] + row["searches"] + row["clicks"], 16) for row in rows)
    return [
        column_chart("Sessions by length in minutes", _columns(lengths, 0, 15)),
        column_chart("Sessions by number of views, searches and clicks", _columns(actions, 1, 16)),
    ]


def _columns(counts: Counter[int], first: int, last: int) -> list[tuple[str, float]]:
    return [(f"{number}{'+' if number == last else ''}", float(counts[number])) for number in range(first, last + 1)]


def _median(values: list[int]) -> float:
    return float(sorted(values)[len(values) // 2]) if values else 0.0
