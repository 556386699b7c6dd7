"""What a run shows, on a terminal and elsewhere."""

import io
from typing import Any

import pytest

from ottla.pipeline.progress import Batch, QueryState
from ottla.pipeline.view import PlainView, batch_line, fitted, live_cells, size, sparkline


def state(**more: Any) -> QueryState:
    found = QueryState("job", "topic out")
    found.add(Batch(4, "2026-01-01T00:00:00.000Z", 1200, 2400.4, 500, 30, **more))
    return found


def test_a_line_per_batch() -> None:
    assert batch_line(state(state_rows=5, state_bytes=2_100_000, dead_letters=3)) == (
        "2026-01-01T00:00:00.000Z job: batch 4, 1,200 rows, 2,400 rows/s, lag 30, 500 ms, state 5 rows 2.1 MB, "
        "3 dead letters"
    )


def test_plain_output_has_only_batches_with_rows() -> None:
    stream = io.StringIO()
    idle = QueryState("idle", "console")
    idle.add(Batch(1, "2026-01-01T00:00:00.000Z", 0, 0.0, 3, 0))
    busy = state()
    PlainView(stream).show([idle, busy], [idle, busy])
    PlainView(stream).show([idle, busy], [])
    assert stream.getvalue() == batch_line(busy) + "\n"


def test_the_cells_of_a_row() -> None:
    assert live_cells(QueryState("job", "console"))[-1] == "starting"
    cells = live_cells(state(state_rows=5, state_bytes=2000))
    assert cells == ["job", "topic out", "1,200", "2,400", "30", "500 ms", "5 / 2.0 kB", "█"]


def test_a_narrow_terminal_shows_all_numbers() -> None:
    lines = [["name", "a long place to write to", "12,345", "7 ms", "the bars"]]
    whole = 4 + 24 + 6 + 4 + 8 + 3 * 5 - 1
    assert fitted(lines, whole) == lines
    assert fitted(lines, whole - 1) == [["name", "a long place to write …", "12,345", "7 ms", "the bars"]]
    assert fitted(lines, whole - 13) == [["name", "a long place to write…", "12,345", "7 ms"]]
    assert fitted(lines, whole - 25) == [["name", "a long pl…", "12,345", "7 ms"]]
    assert fitted(lines, 10) == [["name", "…", "12,345", "7 ms"]]


@pytest.mark.parametrize(("values", "line"), [([], ""), ([0.0, 0.0], ""), ([0.0, 4.0, 8.0], " ▄█")])
def test_a_line_of_bars(values: list[float], line: str) -> None:
    assert sparkline(values) == line


@pytest.mark.parametrize(("count", "text"), [(0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (3e12, "3.0 TB")])
def test_sizes(count: float, text: str) -> None:
    assert size(count) == text
