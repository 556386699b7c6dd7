"""The display of a run: a live table on a terminal, plain lines elsewhere."""

import contextlib
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, TextIO

from ottla.pipeline.progress import QueryState

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table

_BARS = " ▁▂▃▄▅▆▇█"
_HISTORY = 24
_HEADER = ["pipeline", "to", "rows", "rows/s", "lag", "batch", "state", "rows/s, last batches"]
_NUMBERS = _HEADER[2:-1]
_TO = 1
_SHORTEST = 12
_GAP = 3
"""Width of the space between two columns of the table."""


class PlainView:
    """Prints a line per batch that has rows to standard output."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stdout

    @contextlib.contextmanager
    def waiting(self, for_what: str) -> Iterator[None]:
        yield

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        yield

    def say(self, text: str) -> None:
        self._stream.write(text + "\n")
        self._stream.flush()

    def show(self, states: list[QueryState], fresh: list[QueryState]) -> None:
        for state in fresh:
            if state.last is not None and state.last.rows:
                self.say(batch_line(state))


class LiveView:
    """Shows a spinner while Spark starts, then a table with a row per query, redrawn in place."""

    def __init__(self) -> None:
        from rich.console import Console

        self._console = Console()
        self._live: Live | None = None
        self._began = time.monotonic()

    @contextlib.contextmanager
    def waiting(self, for_what: str) -> Iterator[None]:
        with self._console.status(f"{for_what} ..."):
            yield

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        from rich.live import Live

        self._began = time.monotonic()
        with Live(console=self._console, refresh_per_second=4, transient=False) as self._live:
            yield

    def say(self, text: str) -> None:
        self._console.print(text, highlight=False, markup=False)

    def show(self, states: list[QueryState], fresh: list[QueryState]) -> None:
        if self._live is not None:
            self._live.update(self._table(states))

    def _table(self, states: list[QueryState]) -> "Table":
        from rich import box
        from rich.table import Table

        elapsed = int(time.monotonic() - self._began)
        table = Table(
            box=box.SIMPLE_HEAD,
            pad_edge=False,
            caption=f"{elapsed // 60}:{elapsed % 60:02d}  Ctrl-C stops after the current batch",
            caption_justify="left",
        )
        header, *rows = fitted([_HEADER, *map(live_cells, states)], self._console.width)
        for name in header:
            table.add_column(name, justify="right" if name in _NUMBERS else "left", no_wrap=True)
        for row in rows:
            table.add_row(*row)
        return table


def live_cells(state: QueryState) -> list[str]:
    last = state.last
    if last is None:
        return [state.pipeline, state.sink, "", "", "", "", "", "starting"]
    amount = f"{state.dead_letters:,} dead" if state.dead_letters else f"{state.rows:,}"
    return [
        state.pipeline,
        state.sink,
        amount,
        f"{last.rows_per_second:,.0f}",
        f"{last.lag:,}",
        f"{last.milliseconds:,} ms",
        f"{last.state_rows:,} / {size(last.state_bytes)}" if last.state_bytes else "",
        sparkline([batch.rows_per_second for batch in state.recent][-_HISTORY:]),
    ]


def fitted(lines: list[list[str]], width: int) -> list[list[str]]:
    """Fit the cells into `width` characters: first remove the column of bars, then shorten the sink's description."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    used = sum(widths) + _GAP * len(widths) - 1
    if used - widths[_TO] + _SHORTEST > width:
        lines = [line[:-1] for line in lines]
        used -= widths[-1] + _GAP
    spare = max(widths[_TO] - max(used - width, 0), 0)
    return [
        [*line[:_TO], line[_TO] if len(line[_TO]) <= spare else line[_TO][: max(spare - 1, 0)] + "…", *line[_TO + 1 :]]
        for line in lines
    ]


def batch_line(state: QueryState) -> str:
    """One line per batch, for logs and pipes."""
    last = state.last
    if last is None:
        return f"{state.pipeline}: no batch yet"
    parts = [
        f"batch {last.number}",
        f"{last.rows:,} rows",
        f"{last.rows_per_second:,.0f} rows/s",
        f"lag {last.lag:,}",
        f"{last.milliseconds:,} ms",
    ]
    if last.state_bytes:
        parts.append(f"state {last.state_rows:,} rows {size(last.state_bytes)}")
    if last.dead_letters:
        parts.append(f"{last.dead_letters:,} dead letters")
    return f"{last.at} {state.pipeline}: {', '.join(parts)}"


def sparkline(values: list[float]) -> str:
    highest = max(values, default=0.0)
    if highest <= 0:
        return ""
    return "".join(_BARS[min(len(_BARS) - 1, round(value / highest * (len(_BARS) - 1)))] for value in values)


def size(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"
