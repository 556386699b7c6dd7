"""`ottla topics watch` and `ottla groups watch`: numbers that are read again and again, with the rates between them."""

import json
import sys
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

import typer

from ottla.cli.output import Cell, on_terminal, rich_table

Interval = Annotated[
    float, typer.Option("--interval", "-i", metavar="SECONDS", min=0.1, help="Time between two readings.")
]
Count = Annotated[int | None, typer.Option("--count", "-n", metavar="N", min=1, help="Stop after N readings.")]

Field = str | int | float | None


@dataclass(frozen=True, slots=True)
class Reading:
    """One look at the cluster: a table for a terminal, and one line for each of `lines` elsewhere."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    lines: Sequence[dict[str, Field]]


class Rates:
    """Change per second of counters that only grow, between this reading and the previous one."""

    def __init__(self) -> None:
        self._previous: dict[Hashable, tuple[float, float]] = {}

    def rate(self, key: Hashable, value: float, now: float) -> float | None:
        """None for the first reading. A counter that went back, as after the topic was created anew, has the rate 0."""
        before = self._previous.get(key)
        self._previous[key] = (value, now)
        if before is None or now <= before[1]:
            return None
        return round(max(0.0, value - before[0]) / (now - before[1]), 1)


def watch(read: Callable[[float], Reading], interval: float, count: int | None, as_json: bool) -> None:
    """Show readings until Ctrl-C, or until there were `count` of them. `read` gets the current time in seconds."""
    try:
        if on_terminal() and not as_json:
            _watch_on_terminal(read, interval, count)
        else:
            for reading in _readings(read, interval, count):
                _print_lines(reading, as_json)
    except KeyboardInterrupt:
        return


def _readings(read: Callable[[float], Reading], interval: float, count: int | None) -> Iterator[Reading]:
    taken = 0
    while True:
        started = time.monotonic()
        yield read(started)
        taken += 1
        if taken == count:
            return
        time.sleep(max(0.0, interval - (time.monotonic() - started)))


def _print_lines(reading: Reading, as_json: bool) -> None:
    moment = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    for fields in reading.lines:
        if as_json:
            print(json.dumps({"time": moment, **fields}, ensure_ascii=False))
        else:
            print(moment, *(f"{name}={'-' if value is None else value}" for name, value in fields.items()))
    sys.stdout.flush()


def _watch_on_terminal(read: Callable[[float], Reading], interval: float, count: int | None) -> None:
    from rich.console import Console, Group
    from rich.live import Live
    from rich.text import Text

    with Live(console=Console(highlight=False), auto_refresh=False) as live:
        for reading in _readings(read, interval, count):
            title = Text(f"{reading.title}  {datetime.now().astimezone():%H:%M:%S}, Ctrl-C ends", style="cyan")
            live.update(Group(title, rich_table(reading.columns, reading.rows)), refresh=True)


def per_second(value: float | None) -> str | None:
    return None if value is None else f"{value:,.0f}" if value >= 10 else f"{value:g}"
