"""Build the report of a built-in target: its results and its last run."""

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from ottla.pipeline.charts import bar_chart, line_chart
from ottla.pipeline.checkpoints import checkpoint_of, dead_letter_checkpoint, resolve
from ottla.pipeline.declaration import unique_sources
from ottla.pipeline.failures import PipelineError
from ottla.pipeline.loading import Target, load_part, load_target
from ottla.pipeline.page import Page, Section
from ottla.pipeline.progress import QueryState, query_state
from ottla.pipeline.records import read_dead_letters
from ottla.pipeline.results import parquet_files
from ottla.pipeline.sinks import ParquetSink, TableSink
from ottla.pipeline.table import Table
from ottla.pipeline.view import size

_SHOWN_LETTERS = 10


def build_report(name: str, base: Path, bootstrap_server: str, given: Mapping[str, str]) -> Page:
    """Raises PipelineError if there is no result yet."""
    target = load_target(name, given)
    places = _places(target, base)
    if not any(parquet_files(place) or Table(place).files() for place in places):
        options = "".join(f" --set {key}={value}" for key, value in given.items())
        raise PipelineError(f"{places[0]} has no result yet; run `ottla pipeline run {name}{options} --once` first.")
    page: Page = load_part(name, "report", given).report(base, bootstrap_server)
    page.sections += _dead_letter_sections(target, bootstrap_server)
    states = _last_run(target, base)
    if states:
        page.sections.append(run_section(states))
    page.footer = f"Written by ottla pipeline report {name}, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC."
    return page


def _places(target: Target, base: Path) -> list[Path]:
    """The directories in which the pipelines write files."""
    sinks = [sink for each in target.pipelines for sink in each.sinks]
    return [Path(resolve(sink.path, base)) for sink in sinks if isinstance(sink, ParquetSink | TableSink)]


def _dead_letter_sections(target: Target, bootstrap_server: str) -> list[Section]:
    """The last dead letters with their reasons. Empty if no broker answers: the rest of the report needs no broker."""
    topics = [topic for source in unique_sources(target.pipelines) for topic in source.dead_letter_topics]
    try:
        letters = [letter for topic in dict.fromkeys(topics) for letter in read_dead_letters(bootstrap_server, topic)]
    except PipelineError:
        return []
    if not letters:
        return []
    reasons = Counter(letter.reason for letter in letters)
    section = Section(
        "Dead letters",
        f"{len(letters):,} values did not match their schema and are in the dead letter topics.",
        [bar_chart("Reasons of dead letters", [(why, float(count)) for why, count in reasons.most_common(8)])],
        ["from", "why", "value"],
        [(each.origin, each.reason, each.value[:80]) for each in letters[-_SHOWN_LETTERS:]],
    )
    return [section]


def _last_run(target: Target, base: Path) -> list[QueryState]:
    places = [checkpoint_of(each, target.label, base) for each in target.pipelines]
    places.append(dead_letter_checkpoint(target.label, base))
    return [query_state(each) for place in places for each in (place.status() or {}).get("queries", ())]


def run_section(states: list[QueryState]) -> Section:
    """Rows per second, batch time and lag of the last batches, and totals."""
    started = min((_seconds(batch.at) for state in states for batch in state.recent), default=0.0)

    def lines(pick: str) -> dict[str, list[tuple[float, float]]]:
        return {
            state.pipeline: [(_seconds(b.at) - started, float(getattr(b, pick))) for b in state.recent if b.worked]
            for state in states
        }

    charts = [
        line_chart(f"{title}, by seconds of the run", _filled(lines(pick)), times=False)
        for title, pick in (
            ("Rows per second of each batch", "rows_per_second"),
            ("Milliseconds of each batch", "milliseconds"),
            ("Records not yet read", "lag"),
        )
    ]
    rows = [
        (
            state.pipeline,
            state.sink,
            f"{state.rows:,}",
            f"{state.batches:,}",
            f"{state.last.state_rows:,} rows, {size(state.last.state_bytes)}" if state.last else "-",
            f"{state.dead_letters:,}",
        )
        for state in states
    ]
    header = ["pipeline", "to", "rows read", "batches", "state", "dead letters"]
    return Section("The last run", "Each pipeline is a separate query in Spark.", charts, header, list(rows))


def _filled(lines: dict[str, list[tuple[float, float]]]) -> dict[str, list[tuple[float, float]]]:
    return {name: line for name, line in lines.items() if line}


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
